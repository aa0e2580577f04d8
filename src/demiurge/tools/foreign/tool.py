"""Makes foreign tools, whose schema was written elsewhere: by an MCP server, in a catalog.

They run on the same path as authored tools; the difference is trust. The schema is kept as it came, so that a hash
names exactly what was reviewed, and arguments are checked with a full validator (`foreign.schema`). A text for a
model may hide nothing from a reader: hidden characters are removed from a description, and a schema that has some is
refused. What a source does not declare has the strictest value: the effect is `external_side_effect`, and a tool
without a redaction is refused.

A property named `connection_id` belongs to the server and is kept: the connection of a call comes from the caller,
reaches the tool in its context only, and is never read from arguments or written into them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from demiurge.tools.ids import foreign_id, is_reserved, is_tool_id
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec

__all__ = ["MAX_FOREIGN_DESCRIPTION", "foreign_id", "foreign_tool"]

MAX_FOREIGN_DESCRIPTION = 8192
"""The maximum length of a foreign tool's description, in characters; a longer one is cut."""

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
    untrusted: bool = False,
    quarantined: bool = False,
    mcp_item: Mapping[str, Any] | None = None,
    mcp_listing: Mapping[str, Any] | None = None,
) -> BoundTool:
    """Returns a tool that runs `call(arguments, context)`, `def` or `async def`, which returns a ToolResult whose value
    is JSON.

    `name`: a tool id, made by `foreign_id`; of the reserved prefixes only `mcp__`. `check_formats`: refuse arguments
    that break a `format`. `untrusted`, `quarantined`, `mcp_item`, `mcp_listing`: as of ToolSpec. Raises
    PromptValidationError: `redaction_missing`; `tool_schema` for a schema that is not valid, hides characters or is too
    large (`MAX_SCHEMA_BYTES`, `MAX_SCHEMA_DEPTH`, `MAX_SCHEMA_VALUES`)."""
    if not is_tool_id(name) or (is_reserved(name) and not name.startswith("mcp__")):
        raise PromptValidationError(f"a foreign tool can't have the id {name!r}", placeholder="name")
    if not isinstance(redaction, Redaction):
        raise PromptValidationError(
            f"tool {name!r} has no redaction", placeholder="redaction", code="redaction_missing"
        )
    if not callable(call) or is_generator(call):
        raise PromptValidationError(
            f"tool {name!r}: 'call' must be a function that returns a ToolResult", placeholder="call"
        )
    words = _checked_description(name, description)
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
        spec=ToolSpec(
            name,
            words,
            schema.verbatim,
            effect,
            redaction,
            untrusted=untrusted,
            quarantined=quarantined,
            mcp_item=mcp_item,
            mcp_listing=mcp_listing,
        ),
        parse=parse,
        call=call,
        dump=_RESULTS.dump,
        load=_RESULTS.load,
        is_async=is_async_callable(call),
    )


def _checked_description(name: str, description: str | None) -> str:
    if description is not None and not isinstance(description, str):
        raise PromptValidationError(f"tool {name!r}: a description must be text", placeholder="description")
    text = without_hidden(description or "").strip()
    return text if len(text) <= MAX_FOREIGN_DESCRIPTION else f"{text[: MAX_FOREIGN_DESCRIPTION - 1]}…"
