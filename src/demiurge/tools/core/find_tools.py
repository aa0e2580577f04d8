"""`core__find_tools`: finds tools that a request to a model does not describe. Those that are found can be called.
docs/tools-on-demand.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from demiurge.tools.capabilities import Introspection
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ids import FIND_TOOLS
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult
from demiurge.tools.spec import ToolSpec
from demiurge.tools.tool_search import search_tools

__all__ = ["FindTools", "FoundTool", "FoundTools", "find_tools"]


@dataclass(frozen=True, slots=True)
class FindTools:
    query: str = field(metadata={"description": "What the tool should do."})


@dataclass(frozen=True, slots=True)
class FoundTool:
    """`description`: its first line. `arguments`: the names of its arguments; those that may be left out end in `?`.
    `input_schema`: the JSON Schema of the arguments; None if the next request describes the tool."""

    id: str
    description: str
    arguments: tuple[str, ...]
    input_schema: dict[str, Any] | None = None

    @classmethod
    def of(cls, spec: ToolSpec, *, with_schema: bool) -> FoundTool:
        required = spec.input_schema.get("required", ())
        names = tuple(name if name in required else f"{name}?" for name in spec.input_schema.get("properties", ()))
        schema = spec.to_json()["input_schema"] if with_schema else None
        return cls(spec.name, spec.description.partition("\n")[0], names, schema)


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The tools that were found, the best match first."""

    tools: tuple[FoundTool, ...]


async def _handle(params: FindTools, *, context: ToolContext) -> ToolResult[FoundTools]:
    world = context.resources.get(Introspection)
    if world is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    findable = await world.tools()
    specs = search_tools([ToolSpec.from_json(each) for each in findable.specs], params.query)
    found = tuple(FoundTool.of(spec, with_schema=not findable.are_described_next) for spec in specs)
    message = "You can call these now." if found else "No further tool matches. Try other words, or go on without it."
    return ToolResult(message=message, value=FoundTools(found))


find_tools = CoreTool[FindTools, FoundTools](
    name=FIND_TOOLS,
    description="Find more tools to call.",
    handler=_handle,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("tools"),
    capabilities=(Introspection,),
)
