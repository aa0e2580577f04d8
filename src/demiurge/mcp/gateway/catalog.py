"""The catalog of a caller as the tools of an MCP server. The tool of a server is listed as that server lists it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from demiurge.mcp.definition import effect_by_annotations
from demiurge.tools.authoring.hidden_text import plain_json
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import in_lists
from demiurge.tools.spec import ToolSpec

__all__ = ["LEFT_OUT", "PAGE", "lists_output", "page", "paged"]

T = TypeVar("T")

LEFT_OUT: Final = "demiurge/left_out"
"""The key in `_meta` of a tool or a result: the fields that a person did not make public."""

PAGE: Final = 100
"""How many tools one page of the list has."""


@lru_cache(maxsize=1024)
def _listed_tool(spec: ToolSpec, name: str) -> types.Tool:
    """Returns a tool of the catalog under `name`, which nobody may change. The annotations tell the effect level."""
    node = {"name": name, "description": spec.model_description, "annotations": _annotations(spec.effect)}
    if spec.mcp_listing is not None:
        node = {"name": name, **_as_its_server_lists_it(spec, spec.mcp_listing)}
    schema: dict[str, Any] = deepcopy(spec.input_schema)
    return types.Tool.model_validate({**node, "inputSchema": {"type": "object", **schema}})


def _annotations(effect: ToolEffect) -> dict[str, bool]:
    if effect is ToolEffect.READ_ONLY:
        return {"readOnlyHint": True, "destructiveHint": False}
    reaches_out = effect is ToolEffect.EXTERNAL_SIDE_EFFECT
    return {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": reaches_out}


def _as_its_server_lists_it(spec: ToolSpec, listing: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a server's definition for a client, without hidden characters. The hints are ours where a
    person gave the tool another effect level than the server's hints do."""
    node: dict[str, Any] = plain_json(listing)
    hints = node.get("annotations") or {}
    if (effect_by_annotations(hints) or ToolEffect.EXTERNAL_SIDE_EFFECT) is not spec.effect:
        kept = {key: value for key, value in hints.items() if not key.endswith("Hint")}
        node["annotations"] = {**kept, **_annotations(spec.effect)}
    if node.get("execution", {}).get("taskSupport") != "forbidden":
        node.pop("execution", None)  # the tasks of this gateway are those of the extension
    if "outputSchema" in node and not lists_output(spec):
        del node["outputSchema"]
        node["_meta"] = {**node.get("_meta", {}), LEFT_OUT: ["outputSchema"]}
    return node


def lists_output(spec: ToolSpec | None) -> bool:
    """Returns whether a tool is listed with the schema of its structured content, so that each of its results has to
    fit: whether a person made public all that the schema declares."""
    schema = (spec.mcp_listing or {}).get("outputSchema") if spec is not None else None
    if spec is None or schema is None:
        return False
    redaction = spec.redaction
    declared = schema.get("properties")
    return "*" in redaction.fields or (bool(declared) and set(declared) <= {*redaction.fields})


def page(offered: Sequence[tuple[str, ToolSpec]], cursor: str | None) -> types.ListToolsResult:
    """Returns the page after `cursor` of the tools that are offered, which are in the order of `in_lists`. A cursor
    names the last tool before it, so it stays good when the catalog changes. Raises MCPError for a cursor that is
    none."""
    named = [("{} {}".format(*in_lists(name)), (spec, name)) for name, spec in offered]
    shown, following = paged(named, cursor)
    tools = [_listed_tool(spec, name) for spec, name in shown]
    return types.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=0, cache_scope="private")


def paged(named: Sequence[tuple[str, T]], cursor: str | None) -> tuple[list[T], str | None]:
    """Returns the page of a list, sorted by name, after `cursor`, and the cursor of the next page. Raises as `page`."""
    after = _read_cursor(cursor) if cursor is not None else ""
    rest = [(name, each) for name, each in named if name > after]
    following = _cursor(rest[PAGE - 1][0]) if len(rest) > PAGE else None
    return [each for _, each in rest[:PAGE]], following


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _read_cursor(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), b"-_", validate=True).decode()
    except ValueError:
        raise MCPError(types.INVALID_PARAMS, "The cursor is not one of this server.") from None
