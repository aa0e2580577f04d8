"""Tools whose schema was written elsewhere: by an MCP server, in a catalog.

They run on the same path as authored ones; what differs is trust. The schema is kept as it came, so that a hash
names exactly what was reviewed, and is checked with a real validator (`foreign.schema`). What is told to a model
may hide nothing from a reader: it is taken out of a description, and a schema with it is refused. What a source
does not say is taken at its strictest: the effect is `external_side_effect`, and without a redaction there is no tool.

A property named `connection_id` is the server's own word and stays: the connection of a call comes from the caller,
reaches the tool in its context only, and is never taken from arguments or put into them (#26).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.hidden_text import without_hidden
from demiurge.tools.authoring.params import ResultCodec
from demiurge.tools.authoring.signature import is_async_callable, is_generator
from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.ids import is_reserved, is_tool_id
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec

__all__ = ["MAX_FOREIGN_DESCRIPTION", "foreign_id", "foreign_tool"]

MAX_FOREIGN_DESCRIPTION = 8192
"""The longest description of a foreign tool, in characters; a longer one is cut."""

_LONGEST = 64
_OUTSIDE = re.compile(r"[^a-zA-Z0-9_-]+")
_LIKE_A_STAND_IN = re.compile(r"_[0-9a-f]{8}$")
_RESULTS = ResultCodec(Any)


def foreign_tool(
    name: str,
    description: str | None,
    input_schema: Mapping[str, Any],
    call: Callable[[dict[str, Any], ToolContext], Any],
    *,
    redaction: Redaction | None,
    effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT,
    check_formats: bool = False,
) -> BoundTool:
    """A tool that runs `call(arguments, context)`, `def` or `async def`, which gives a ToolResult whose value is JSON.

    `name`: a tool id, made by `foreign_id`; of the reserved prefixes only `mcp__`. `check_formats`: refuse arguments
    that break a `format`. Raises PromptValidationError: `redaction_missing`, `tool_schema` for a schema that is
    none, hides characters or is too large (`MAX_SCHEMA_BYTES`, `MAX_SCHEMA_DEPTH`, `MAX_SCHEMA_VALUES`)."""
    if not is_tool_id(name) or (is_reserved(name) and not name.startswith("mcp__")):
        raise PromptValidationError(f"a foreign tool can't have the id {name!r}", placeholder="name")
    if not isinstance(redaction, Redaction):
        raise PromptValidationError(
            f"tool {name!r} has no redaction", placeholder="redaction", code="redaction_missing"
        )
    if not callable(call) or is_generator(call):
        raise PromptValidationError(
            f"tool {name!r}: 'call' is a function that returns a ToolResult", placeholder="call"
        )
    words = _words(name, description)
    try:
        effect = ToolEffect(effect)
    except ValueError as error:
        raise PromptValidationError(f"tool {name!r}: {error}", placeholder="effect") from None
    try:
        schema = ForeignSchema(input_schema, check_formats=check_formats)
    except InvalidValue as error:
        raise PromptValidationError(
            f"tool {name!r}: {error}", placeholder="input_schema", code="tool_schema"
        ) from error

    def parse(text: str | bytes) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(text)
        schema.check(arguments, len(text))
        return arguments

    return BoundTool(
        spec=ToolSpec(name, words, schema.verbatim, effect, redaction),
        parse=parse,
        call=call,
        dump=_RESULTS.dump,
        load=_RESULTS.load,
        is_async=is_async_callable(call),
    )


def foreign_id(*names: str) -> str:
    """A tool id for any names, outermost first: `foreign_id("mcp", server, tool)` is `mcp__<server>__<tool>`.

    Equal names give equal ids. Names that can be read back from the joined id stay as they are. All others (other
    characters, too long, a `__` in all but the last) are mapped, cut, and end in `_` and 8 hex digits of
    their SHA-256, so two of them meet by accident once in four billion; then the source raises. A source keeps the
    map from ids back to names."""
    plain = "__".join(names)
    if is_tool_id(plain) and _can_be_split(names) and not _LIKE_A_STAND_IN.search(plain):
        return plain
    digest = sha256(json.dumps(names).encode()).hexdigest()[:8]
    mapped = "__".join(_OUTSIDE.sub("_", name) for name in names)
    return f"{mapped[: _LONGEST - 9]}_{digest}"


def _can_be_split(names: tuple[str, ...]) -> bool:
    """Is each name but the last followed by the first `__` after it?"""
    return all(names) and not any("__" in name or name.endswith("_") for name in names[:-1])


def _words(name: str, description: str | None) -> str:
    if description is not None and not isinstance(description, str):
        raise PromptValidationError(f"tool {name!r}: a description is text", placeholder="description")
    text = without_hidden(description or "").strip()
    return text if len(text) <= MAX_FOREIGN_DESCRIPTION else f"{text[: MAX_FOREIGN_DESCRIPTION - 1]}…"
