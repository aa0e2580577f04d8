"""`WorldTools`: the tools of one world, as its sources listed them last.

A world pins the specs of its tools in its manifest. So `get` and `specs` answer from one listing, and a source is
listed again only by `refresh`, which puts a manifest with the new specs in force. The tools that a model is offered,
the tools that the journal pins and the tools that run are therefore always the same.

The tools of the world's MCP servers stand behind those of the process. They belong to the world: the process that owns
it gives them here (`set_servers`, `replace_servers`), and two processes need not agree on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from demiurge.bootstrap.manifest_change import TOOLS_REFRESHED, ManifestChange
from demiurge.bootstrap.shipped_tools import SHIPPED_TOOLS
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.registry.core_ids import core_id_of
from demiurge.tools.authoring.tool import Tool, as_tool
from demiurge.tools.bound import BoundTool
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.source import AnyTool, AsyncToolSource, StaticToolSource, ToolSource, as_source
from demiurge.tools.spec import ToolSpec

__all__ = ["GivenTools", "ToolOrSource", "WorldTools", "is_tool_or_source"]

ToolOrSource: TypeAlias = AnyTool | ToolSource | AsyncToolSource

GivenTools: TypeAlias = ToolSource | AsyncToolSource | Iterable[ToolOrSource]
"""The types of tools that a world can be opened with: a source, or a list of tools, plain functions, bound tools and
sources."""


class WorldTools:
    """The shipped tools, and then those of `given`, in order. A source that lists asynchronously has no tools until the
    first `refresh`. Raises PromptValidationError, as StaticToolSource does, and for a tool with the id of a core tool
    in any spelling."""

    def __init__(self, given: GivenTools) -> None:
        self._given = _several(given)
        self._listed = _with_shipped(_present(self._given, {}))
        self._servers: Mapping[str, BoundTool] = MappingProxyType({})
        """The tools of the world's MCP servers."""
        self.is_waiting = any(isinstance(entry, AsyncToolSource) for entry in self._given)
        """True until every source has been listed once."""
        self._refreshing = asyncio.Lock()

    @property
    def any_given(self) -> bool:
        return bool(self._given)

    @property
    def may_change(self) -> bool:
        """True if there is a source, which may list other tools at the next `refresh`."""
        return any(isinstance(entry, ToolSource | AsyncToolSource) for entry in self._given)

    def get(self, tool_id: str) -> BoundTool | None:
        return self._listed.get(tool_id) or self._servers.get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        return (*self._listed.specs(), *(tool.spec for tool in self._servers.values()))

    def shadowed(self, tools: Iterable[BoundTool]) -> list[str]:
        """Returns the ids of those tools of the world's MCP servers that a tool of this process has too."""
        return [tool.spec.name for tool in tools if self._listed.get(tool.spec.name) is not None]

    def own_specs(self) -> tuple[ToolSpec, ...]:
        """The specs without those of the world's MCP servers."""
        return self._listed.specs()

    def set_servers(self, tools: Iterable[BoundTool]) -> bool:
        """Takes the tools of the world's MCP servers; one with the id of a tool of this process is left out. Returns
        whether a manifest with other specs or another policy follows from that."""
        found = self._without_own(tools)
        is_other = _decided(found) != _decided(self._servers)
        self._servers = found
        return is_other

    async def replace_servers(
        self, tools: Iterable[BoundTool], put_in_force: Callable[[ManifestChange], Awaitable[None]]
    ) -> None:
        """Takes the tools of the world's MCP servers, after a manifest with them was put in force if one is needed.
        Raises what `put_in_force` raises; then nothing has changed."""
        async with self._refreshing:
            found = self._without_own(tools)
            if _decided(found) != _decided(self._servers):
                await put_in_force(ManifestChange(TOOLS_REFRESHED, listed=_Joint(self._listed, lambda: found)))
            self._servers = found

    def _without_own(self, tools: Iterable[BoundTool]) -> Mapping[str, BoundTool]:
        found = {tool.spec.name: tool for tool in tools if self._listed.get(tool.spec.name) is None}
        return MappingProxyType(found)

    def result_types(self) -> list[Any]:
        """The types of the tools' results, for the events of sessions."""
        bound = (self._listed.get(spec.name) for spec in self._listed.specs() if spec.name not in _CORE)
        return [tool.result_type for tool in bound if tool is not None and tool.result_type is not None]

    async def listed(self) -> StaticToolSource:
        """Lists the sources and returns what there is now; nothing changes here. Raises as `refresh`."""
        asked = {at: entry for at, entry in enumerate(self._given) if isinstance(entry, AsyncToolSource)}
        answers = {at: await _asked(source) for at, source in asked.items()}
        return _with_shipped(_present(self._given, answers))

    async def refresh(self, put_in_force: Callable[[ManifestChange], Awaitable[None]]) -> bool:
        """Lists the sources again and puts what they list in force. Returns whether a spec differs.

        Raises PromptValidationError (two tools with one id), Unavailable (`tools_unlisted`: a source failed), Conflict
        (another process owns the world and runs it with other tools); then nothing has changed.
        """
        async with self._refreshing:
            listed = await self.listed()
            is_other = listed.specs() != self._listed.specs()
            whole = _Joint(listed, lambda: self._servers)
            change = ManifestChange(TOOLS_REFRESHED, tools=listed.specs(), listed=whole)
            await put_in_force(change)
            self._listed, self.is_waiting = listed, False
            self._servers = self._without_own(self._servers.values())
            return is_other


class _Joint:
    """The tools of a process, and behind them those of the world's MCP servers at the time."""

    def __init__(self, own: ToolSource, servers: Callable[[], Mapping[str, BoundTool]]) -> None:
        self._own, self._servers = own, servers

    def get(self, tool_id: str) -> BoundTool | None:
        return self._own.get(tool_id) or self._servers().get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        others = (tool.spec for name, tool in self._servers().items() if self._own.get(name) is None)
        return (*self._own.specs(), *others)


def _decided(tools: Mapping[str, BoundTool]) -> list[tuple[str, str | None]]:
    """Returns what a manifest says about tools: their specs, and whether a person is asked."""
    return [(tool.spec.spec_hash, tool.trust) for tool in tools.values()]


_CORE = frozenset(tool.name for tool in SHIPPED_TOOLS)


def is_tool_or_source(entry: object) -> bool:
    """Returns whether a world can be opened with this; a class is none of them, whatever methods it has."""
    return isinstance(entry, Tool | BoundTool | ToolSource | AsyncToolSource) and not isinstance(entry, type)


def _several(given: GivenTools) -> Sequence[ToolOrSource]:
    """The entries of a list, a plain function as a tool. Raises PromptValidationError for what is neither a list nor a
    source, and for an entry that is no tool."""
    if isinstance(given, ToolSource | AsyncToolSource):
        return [given]
    entries = list(given) if isinstance(given, Iterable) else [as_source(given)]
    return [entry if is_tool_or_source(entry) else as_tool(entry) for entry in entries]


def _with_shipped(given: Iterable[Tool[Any, Any] | BoundTool]) -> StaticToolSource:
    """Returns the shipped tools and those that were given. Raises PromptValidationError."""
    own = list(given)
    for name in (tool.spec.name if isinstance(tool, BoundTool) else tool.name for tool in own):
        core_id = core_id_of(name)
        if core_id is not None:
            raise PromptValidationError(
                f"{name!r} stands for the core tool {core_id}, which nobody shadows: give the tool another id",
                placeholder="name",
            )
    return StaticToolSource((*SHIPPED_TOOLS, *own))


def _present(
    given: Sequence[ToolOrSource], answers: Mapping[int, Sequence[Tool[Any, Any] | BoundTool]]
) -> Iterable[Tool[Any, Any] | BoundTool]:
    """The tools of all entries; `answers` are those of the sources that list asynchronously, by their place."""
    for at, entry in enumerate(given):
        if isinstance(entry, AsyncToolSource):
            yield from map(_listed_elsewhere, answers.get(at, ()))
        elif isinstance(entry, ToolSource):
            found = (entry.get(spec.name) for spec in entry.specs())
            is_fixed = type(entry) is StaticToolSource
            yield from (tool if is_fixed else _listed_elsewhere(tool) for tool in found if tool is not None)
        else:
            yield entry if isinstance(entry, BoundTool) else as_tool(entry)


def _listed_elsewhere(tool: Tool[Any, Any] | BoundTool) -> BoundTool:
    """Returns a tool of a source whose list may change: no code of this user, whoever wrote its handler, because the
    user has not named it."""
    bound = tool.bound if isinstance(tool, Tool) else tool
    return replace(bound, is_own_code=False) if isinstance(bound, BoundTool) else bound


async def _asked(source: AsyncToolSource) -> Sequence[Tool[Any, Any] | BoundTool]:
    try:
        return list(await source.list_tools())
    except DemiurgeError:
        raise
    except Exception as error:
        why = f"{type(source).__name__} can't list its tools ({type(error).__name__}): see to it, and try again."
        raise Unavailable(why, code="tools_unlisted") from error
