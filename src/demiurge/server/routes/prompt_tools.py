"""The catalog of prompt tools, their approved versions, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap.backend.layer_sync import LayerStatus
from demiurge.bootstrap.backend.review_views import ToolProposalView, ToolVersion
from demiurge.registry.tool_diff import to_json
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.routes.proposals import ToolDifferences
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["prompt tools"], route_class=StrictJsonRoute)

PromptToolId = Annotated[str, Path(min_length=1, max_length=256)]
Layer = Literal["user", "project"]
ChosenLayer = Annotated[Layer | None, Query(description="Needed if the version is in both layers.")]

_READ = responses(401, 403, 404, 422, 503)
_FILES = responses(401, 403, 409, 422, 503)


class PromptToolEntry(BaseModel):
    """A prompt tool of the catalog: the eight fields as a proposal has them, and what is known of the tool. `layer`:
    global (shipped), user or project. `locked`: it is a core tool. `version`: its number in the registry, None for a
    core tool. `overrides`: the layers whose tool of the same id it hides."""

    id: str
    name: str
    archetype: str
    scope: str
    usageNotes: str  # noqa: N815 (the name of the field in a proposal)
    goals: str
    guardrails: str
    prompt: str
    layer: str
    locked: bool
    digest: str
    version: int | None
    overrides: tuple[str, ...]
    approved_by: str | None
    approved_at_ms: int | None
    proposal: str | None


class PromptToolCatalog(BaseModel):
    """The prompt tools of the catalog: the core tools, then the approved ones by id."""

    tools: list[PromptToolEntry]


class PromptToolHistory(BaseModel):
    """The approved versions of a prompt tool in all layers, newest first."""

    tool: str
    versions: list[ToolVersion]


class GivenRollback(BaseModel):
    """The approved version to propose again, and why."""

    model_config = ConfigDict(extra="forbid")
    version: int = Field(ge=1, le=2**53)
    rationale: str = Field(min_length=20, max_length=2000)
    layer: Layer | None = Field(None, description="Needed if the version is in both layers.")


class LayerFiles(BaseModel):
    """The states of the files of prompt tools."""

    layers: list[LayerStatus]


class WrittenFiles(BaseModel):
    """The paths that were written. `kept`: for each layer, the ids of the entries that belong to other worlds."""

    files: Sequence[str]
    history: Sequence[str]
    kept: Mapping[str, Sequence[str]]


@router.get("/prompt-tools", responses=responses(401, 403, 422, 503))
async def catalog(world: CurrentWorld) -> PromptToolCatalog:
    """Lists the prompt tools with their texts."""
    return PromptToolCatalog(tools=[PromptToolEntry(**tool.to_json()) for tool in await world.prompt_tools.catalog()])


@router.get("/prompt-tools/{tool_id}", responses=_READ)
async def one(world: CurrentWorld, tool_id: PromptToolId) -> PromptToolEntry:
    """Returns a prompt tool. Any spelling of a core tool's id is taken. The answer can be changed and sent to
    `POST /api/proposals`."""
    return PromptToolEntry(**(await world.prompt_tools.show(tool_id)).to_json())


@router.get("/prompt-tools/{tool_id}/history", responses=_READ)
async def history(world: CurrentWorld, tool_id: PromptToolId) -> PromptToolHistory:
    """Lists the approved versions of a prompt tool. A core tool has none: 403 `core_tool_locked`."""
    return PromptToolHistory(tool=tool_id, versions=await world.prompt_tools.history(tool_id))


@router.get("/prompt-tools/{tool_id}/versions/{version}", responses=_READ)
async def version_of(
    world: CurrentWorld,
    tool_id: PromptToolId,
    version: Annotated[int, Path(ge=1, le=2**53)],
    layer: ChosenLayer = None,
) -> dict[str, Any]:
    """Returns the document of an approval: the tool, who proposed, reviewed and approved it, and when."""
    return await world.prompt_tools.version(tool_id, version, layer)


@router.get("/prompt-tools/{tool_id}/diff", responses=_READ)
async def diff(
    world: CurrentWorld,
    tool_id: PromptToolId,
    old: Annotated[int, Query(ge=1, le=2**53)],
    new: Annotated[int, Query(ge=1, le=2**53)],
    layer: ChosenLayer = None,
) -> ToolDifferences:
    """Returns the differences between two approved versions."""
    return ToolDifferences(fields=to_json(await world.prompt_tools.diff(tool_id, old, new, layer)))


@router.post(
    "/prompt-tools/{tool_id}/rollback", status_code=201, responses=responses(400, 401, 403, 404, 409, 422, 503)
)
async def rollback(world: CurrentWorld, tool_id: PromptToolId, given: GivenRollback) -> ToolProposalView:
    """Proposes an approved version again. Nothing is live before that proposal is approved."""
    return await world.prompt_tools.rollback(tool_id, given.version, given.rationale, given.layer)


@router.get("/prompt-tool-files", responses=responses(401, 403, 503))
async def files(world: CurrentWorld) -> LayerFiles:
    """Returns the state of each file of prompt tools. Takes the role `user`."""
    return LayerFiles(layers=await world.prompt_tools.files())


@router.post("/prompt-tool-files/sync", responses=_FILES)
async def sync(world: CurrentWorld) -> LayerFiles:
    """Reads the files; each change in them becomes a proposal, once. Takes the role `user`."""
    return LayerFiles(layers=await world.prompt_tools.sync())


@router.post("/prompt-tool-files/export", responses=_FILES)
async def export(world: CurrentWorld) -> WrittenFiles:
    """Writes the live tools of the user and of the project to their files, on the server. Takes the role `user`."""
    written = await world.prompt_tools.export()
    return WrittenFiles(**written._asdict())
