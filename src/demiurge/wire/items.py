"""The semantic items that every provider format is mapped to and from.

Invariant: an item holds the meaning, never one provider's spelling of it. The exceptions hold a
provider's own JSON in `raw`, so that it can be sent back verbatim to the format it came from: `Reasoning`,
because providers check signed or encrypted reasoning byte for byte, `Opaque`, for output that has no
meaning here (hosted tool calls, compaction records) but that the provider expects to see again, and `ToolCall`, for
what stands beside a call. An encoder of another format leaves all of it out.

`raw` is always JSON that canonical JSON can write and read back. What a provider sent beyond that (a number
that RFC 8785 has no form for) can't be kept verbatim, so it isn't kept: such reasoning has its summary alone,
such an opaque item is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from demiurge.tools.parts import Audio, File, Image

__all__ = [
    "Audio",
    "Completion",
    "Delivery",
    "File",
    "FinishReason",
    "Image",
    "Item",
    "Message",
    "NamedTool",
    "Opaque",
    "Part",
    "Reasoning",
    "Text",
    "TextFormat",
    "ToolCall",
    "ToolChoice",
    "ToolOutput",
    "Usage",
]

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]

_BLOCKS = frozenset({"container_upload", "fallback", "mcp_tool_listing", "mcp_tool_use", "server_tool_use"})


@dataclass(frozen=True, slots=True)
class Text:
    text: str


Part: TypeAlias = Text | Image | Audio


@dataclass(frozen=True, slots=True)
class Message:
    """`role` is `system`, `developer`, `user` or `assistant`. An assistant's parts are all `Text`."""

    role: str
    content: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model proposed.

    `name` is `^[a-zA-Z0-9_-]{1,64}$`, `id` one that providers use (`wire.arguments` sees to both). `arguments_json`
    is the model's own text. `invalid` means it must not be run: the text is not exactly one
    JSON object, or the provider stopped while writing it. `raw` is what the provider said beside these and expects to
    see again (who called: `caller`), with the `type` that the call has in its format.
    """

    id: str
    name: str
    arguments_json: str
    invalid: bool = False
    raw: Mapping[str, Any] | None = field(default=None, hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The answer to the call `id`, for the model. `images`, then `files` (sounds and others) come after `content`; what
    a format or a model cannot take is put elsewhere or described (`wire.result_parts`). `untrusted`: the untrusted
    tools whose text it holds, which no format sends."""

    id: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    files: tuple[Audio | File, ...] = ()
    untrusted: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Image | Audio | File, ...]:
        """Returns the images, then the files."""
        return (*self.images, *self.files)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The readable part of the model's reasoning, and the provider's own form of it."""

    summary: tuple[str, ...] = ()
    raw: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A provider's own item, kept whole: `raw["type"]` names it (`web_search_call`, `server_tool_use`, ...)."""

    raw: Mapping[str, Any] = field(hash=False)

    @property
    def is_block(self) -> bool:
        """Returns whether it is a content block of Anthropic's Messages, rather than an output item of OpenAI's
        Responses: items have ids, blocks seldom."""
        kind = self.raw.get("type")
        if not isinstance(kind, str):
            return False
        if kind in _BLOCKS or kind.endswith("_tool_result"):
            return True
        return not kind.endswith(("_call", "_output")) and not self.raw.keys() & {"id", "call_id", "role"}


Item: TypeAlias = Message | ToolCall | ToolOutput | Reasoning | Opaque


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. `cached` is the part of `prompt` that was read from a cache, `cache_written` the part that was
    written to it, `reasoning` a part of `completion`; `cost_micros` is the cost that the provider reports, in exact
    millionths of a dollar."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0
    cache_written: int = 0
    cost_micros: Decimal | int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """The response headers of an answer: the provider's request id, a proxy's call id, and the cost that the proxy
    reports in exact millionths of a dollar; None for a missing one."""

    request_id: str | None = None
    call_id: str | None = None
    cost_micros: Decimal | int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished answer. `text` and `tool_calls` are views of `items`, which keeps the provider's order; calls that
    the provider ran itself, whose outputs are among the items, are not in `tool_calls`. `raw_finish_reason` is the
    provider's own word, None if it gave none; the client sets `delivery`. `requests`: how many requests to the model
    the answer took."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage | None
    items: tuple[Item, ...]
    response_id: str | None = None
    model: str | None = None
    raw_finish_reason: str | None = None
    delivery: Delivery | None = None
    requests: int = 1


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The model must call this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The answer must be JSON that fits this schema."""

    name: str
    schema_json: str
    strict: bool = True
