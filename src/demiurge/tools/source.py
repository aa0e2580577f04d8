"""Sources of tools: anything that can look one up by id and list the specs.

An id names one tool. Two tools with one id are an error wherever sources are made or joined; nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from demiurge.tools.authoring.tool import Tool, as_tool
from demiurge.tools.bound import BoundTool
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.ids import is_tool_id
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec

__all__ = [
    "AnyTool",
    "AsyncToolSource",
    "CompositeToolSource",
    "StaticToolProvider",
    "StaticToolSource",
    "ToolProvider",
    "ToolSource",
    "Tools",
    "as_source",
]


AnyTool: TypeAlias = Tool[Any, Any] | BoundTool | Callable[..., Any]
"""The types of one tool, wherever tools are taken: a plain function becomes one by `Tool.wrap`."""


@runtime_checkable
class ToolSource(Protocol):
    """A set of tools. `get` returns the tool with this id, or None; `specs` lists all specs in a stable order."""

    def get(self, tool_id: str) -> BoundTool | None: ...

    def specs(self) -> tuple[ToolSpec, ...]: ...


@runtime_checkable
class AsyncToolSource(Protocol):
    """A source that has to fetch its tools, for example from a server. A world accepts one
    (`World.open(tools=...)`)."""

    async def list_tools(self) -> Iterable[Tool[Any, Any] | BoundTool]:
        """Returns the tools that exist now."""
        ...


ToolProvider: TypeAlias = ToolSource
"""Another name of ToolSource."""


class StaticToolSource:
    """A fixed set of tools; a plain function is one, as `Tool.wrap` makes it. Raises PromptValidationError
    (`tool_id_collision`, `redaction_missing`)."""

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        found: dict[str, BoundTool] = {}
        for entry in tools:
            bound = entry if isinstance(entry, BoundTool) else as_tool(entry).bound
            _check(bound.spec)
            if bound.spec.name in found:
                raise _collision(bound.spec.name)
            found[bound.spec.name] = bound
        self._tools = MappingProxyType(found)
        self._specs = tuple(bound.spec for bound in found.values())

    def get(self, tool_id: str) -> BoundTool | None:
        return self._tools.get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs


StaticToolProvider: TypeAlias = StaticToolSource
"""Another name of StaticToolSource."""


class CompositeToolSource:
    """Several sources as one, in order. Ids are compared when it is made and whenever the specs are listed, because
    a source may change."""

    def __init__(self, *sources: ToolSource) -> None:
        self._sources = sources
        self.specs()

    def get(self, tool_id: str) -> BoundTool | None:
        for source in self._sources:
            if (bound := source.get(tool_id)) is not None:
                return bound
        return None

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the specs of all sources. Raises PromptValidationError (`tool_id_collision`)."""
        return tuple(_unique(spec for source in self._sources for spec in source.specs()))


Tools: TypeAlias = ToolSource | Iterable[AnyTool]


def as_source(tools: Tools) -> ToolSource:
    """Returns a source unchanged, tools and plain functions as a StaticToolSource. Raises PromptValidationError."""
    if isinstance(tools, ToolSource):
        return tools
    if not isinstance(tools, Iterable):
        raise PromptValidationError("tools are given as a list: put this one into a list", placeholder="tools")
    return StaticToolSource(tools)


def _unique(specs: Iterable[ToolSpec]) -> Iterator[ToolSpec]:
    seen = set()
    for spec in specs:
        if spec.name in seen:
            raise _collision(spec.name)
        seen.add(spec.name)
        yield spec


def _check(spec: ToolSpec) -> None:
    if not is_tool_id(spec.name):
        raise PromptValidationError("a tool id is 1 to 64 letters, digits, '_' or '-'", placeholder="name")
    if not isinstance(spec.redaction, Redaction):
        raise PromptValidationError(
            f"tool {spec.name!r} has no redaction", placeholder="redaction", code="redaction_missing"
        )


def _collision(name: str) -> PromptValidationError:
    return PromptValidationError(f"two tools have the id {name!r}", placeholder=name, code="tool_id_collision")
