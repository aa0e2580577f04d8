"""The catalog of a caller as the tools of an MCP server."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from demiurge.tools.effect import ToolEffect
from demiurge.tools.spec import ToolSpec

__all__ = ["PAGE", "page", "paged"]

T = TypeVar("T")

PAGE: Final = 100
"""How many tools one page of the list has."""


@lru_cache(maxsize=1024)
def _listed_tool(spec: ToolSpec, name: str) -> types.Tool:
    """Returns a tool of the catalog under `name`, which nobody may change. The annotations tell the effect level."""
    schema: dict[str, Any] = deepcopy(spec.input_schema)
    return types.Tool(
        name=name,
        description=spec.model_description,
        input_schema={"type": "object", **schema},
        annotations=_annotations(spec.effect),
    )


def _annotations(effect: ToolEffect) -> types.ToolAnnotations:
    if effect is ToolEffect.READ_ONLY:
        return types.ToolAnnotations(read_only_hint=True, destructive_hint=False)
    reaches_out = effect is ToolEffect.EXTERNAL_SIDE_EFFECT
    return types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=reaches_out)


def page(offered: Sequence[tuple[str, ToolSpec]], cursor: str | None) -> types.ListToolsResult:
    """Returns the page after `cursor` of the tools that are offered, which are sorted by name. A cursor names the last
    tool before it, so it stays good when the catalog changes. Raises MCPError for a cursor that is none."""
    shown, following = paged([(name, (spec, name)) for name, spec in offered], cursor)
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
