"""The table of providers: the address, the format and the key of each.

Invariant: every difference between providers is a field here (or a line of `models.toml` if it differs between models),
never a branch on a provider's name elsewhere.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, Protocol

from demiurge.errors import UsageError
from demiurge.tools.events import AiEvent
from demiurge.tools.spec import ToolSpec
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import Audio, Completion, Image, Item, TextFormat, ToolChoice

__all__ = ["PROVIDERS", "PYTHON", "Provider", "is_reasoning", "provider"]


class StreamDecoder(Protocol):
    """A wire format's decoder of one streamed answer."""

    def feed(self, chunk: bytes) -> list[AiEvent]: ...
    def close(self) -> Completion: ...


class WireFormat(Protocol):
    """The functions of a format module of `demiurge.wire`."""

    def encode_tools(self, specs: Sequence[ToolSpec], tool_choice: ToolChoice | None = None) -> dict[str, Any]: ...
    def encode_messages(self, items: Sequence[Item]) -> dict[str, Any]: ...
    def encode_text_format(self, text_format: TextFormat) -> dict[str, Any]: ...
    @property
    def Decoder(self) -> type[StreamDecoder]: ...  # noqa: N802 - the modules' own name


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. `path` follows the base URL. `limit` names the field that limits the answer's length on the
    provider's own host, `limit_elsewhere` on compatible hosts. `extra` is always sent, `official_extra` only to
    `official_host`, and `reasoning_extra` only there for reasoning models. `key_header` and `key_form` say how the key
    is sent; `headers` are sent too. `takes` lists the types of attachments that may be sent. `writes_calls_as_text`
    turns on the fallbacks for small models. `json_tool_protocol`: the tools go into the prompt as text, and calls come
    back as text (`models.json_tools`). Without `prompt_catalog` no prompt has the catalog of prompt tools, which costs
    a small model more than it helps."""

    name: str
    path: str
    wire: WireFormat
    limit: str
    limit_elsewhere: str
    default_model: str
    base_url: str | None = None
    base_url_variable: str | None = None
    key_variable: str | None = None
    alias: str | None = None
    is_free: bool = False
    key_header: str = "Authorization"
    key_form: str = "Bearer {}"
    headers: Mapping[str, str] = field(default_factory=dict)
    official_host: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    official_extra: Mapping[str, Any] = field(default_factory=dict)
    reasoning_extra: Mapping[str, Any] = field(default_factory=dict)
    takes: tuple[type[Image | Audio], ...] = (Image, Audio)
    writes_calls_as_text: bool = False
    json_tool_protocol: bool = False
    limit_restarts: bool = False
    prompt_catalog: bool = True

    @property
    def strict_calls(self) -> bool:
        """Returns whether the provider keeps a call's arguments to the tool's schema if it is asked to."""
        speaks = self.wire in (openai_responses, openai_chat) and bool(self.path)
        return speaks and not (self.writes_calls_as_text or self.json_tool_protocol)

    def with_json_tools(self) -> Provider:
        """Returns the row of the same provider for models without native tool calling."""
        return replace(self, name=f"{self.name}-json", writes_calls_as_text=False, json_tool_protocol=True)


_OPENAI_HOST = "api.openai.com"
_OPENAI_BASE = f"https://{_OPENAI_HOST}/v1"
_OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_ALIAS = "llm/api"
_OPENAI_MODEL = "gpt-5-mini"
PYTHON = "python"
"""The provider of models that are Python objects."""

_USAGE = {"stream_options": {"include_usage": True}}

_ROWS = (
    Provider(
        name="openai-responses",
        path="/responses",
        wire=openai_responses,
        limit="max_output_tokens",
        limit_elsewhere="max_output_tokens",
        # Requests send the whole history, so the provider need not store it; reasoning then comes back encrypted.
        official_extra={"store": False},
        reasoning_extra={"include": ["reasoning.encrypted_content"]},
        default_model=_OPENAI_MODEL,
        base_url=_OPENAI_BASE,
        base_url_variable="OPENAI_BASE_URL",
        key_variable=_OPENAI_KEY,
        alias=_OPENAI_ALIAS,
        official_host=_OPENAI_HOST,
    ),
    Provider(
        name="openai-chat",
        path="/chat/completions",
        wire=openai_chat,
        limit="max_completion_tokens",
        limit_elsewhere="max_tokens",
        extra=_USAGE,
        default_model=_OPENAI_MODEL,
        base_url=_OPENAI_BASE,
        base_url_variable="OPENAI_BASE_URL",
        key_variable=_OPENAI_KEY,
        alias=_OPENAI_ALIAS,
        official_host=_OPENAI_HOST,
    ),
    Provider(
        name="anthropic",
        path="/v1/messages",
        wire=anthropic,
        limit="max_tokens",
        limit_elsewhere="max_tokens",
        default_model="claude-sonnet-4-5",
        base_url="https://api.anthropic.com",
        base_url_variable="ANTHROPIC_BASE_URL",
        key_variable="ANTHROPIC_API_KEY",
        alias="llm/anthropic",
        key_header="x-api-key",
        key_form="{}",
        headers={"anthropic-version": "2023-06-01"},
        official_host="api.anthropic.com",
        takes=(Image,),
    ),
    Provider(
        name="local",
        path="/chat/completions",
        wire=openai_chat,
        limit="max_tokens",
        limit_elsewhere="max_tokens",
        default_model="qwen2.5-coder-1.5b-instruct",
        extra={**_USAGE, "return_progress": True},
        limit_restarts=True,
        is_free=True,
        takes=(),
        writes_calls_as_text=True,
        prompt_catalog=False,
    ),
    Provider(  # an object of the program that opened the world; no request leaves the process
        name=PYTHON,
        path="",
        wire=openai_chat,
        limit="max_tokens",
        limit_elsewhere="max_tokens",
        default_model="",
    ),
)
_ALIASES = {"openai": "openai-responses"}

_JSON_ROWS = tuple(row.with_json_tools() for row in _ROWS if row.name in ("openai-chat", "local"))

PROVIDERS: Mapping[str, Provider] = {row.name: row for row in (*_ROWS, *_JSON_ROWS)}

_FAMILIES = tomllib.loads((files(__package__) / "models.toml").read_text("utf-8"))


def provider(name: str) -> Provider:
    """Returns the row of a provider or alias. Raises UsageError for any other name."""
    row = PROVIDERS.get(_ALIASES.get(name, name))
    if row is None:
        known = ", ".join(sorted((*PROVIDERS, *_ALIASES)))
        raise UsageError(f"There is no provider {name}; the known ones are {known}.", code="unknown_provider")
    return row


def is_reasoning(model: str) -> bool:
    """Returns whether a model reasons before it answers, and so refuses a temperature (`models.toml`)."""
    name = model.rpartition("/")[2].lower()
    return any(fnmatchcase(name, pattern) for pattern in _FAMILIES["reasoning"])
