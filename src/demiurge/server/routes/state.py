"""The state of modules."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from demiurge.errors import NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/state", tags=["state"], route_class=StrictJsonRoute)


NAMED = 20
"""The most keys that an error names."""


class Cells(BaseModel):
    """The keys of a module's cells."""

    module: str
    keys: list[str]


@router.get("/{module:path}/cells", responses=responses(401, 403, 404, 422, 503))
async def cells(world: CurrentWorld, module: str) -> Cells:
    """Lists the keys of a module."""
    await world.state(module, only={})
    return Cells(module=module, keys=await world.keys(module))


@router.get("/{module:path}", responses=responses(401, 403, 404, 422, 503))
async def state(
    world: CurrentWorld,
    module: str,
    key: Annotated[str | None, Query(max_length=1024, description="For a module with several cells.")] = None,
    at: Annotated[int | None, Query(ge=0, le=2**53, description="As it was at this position of the journal.")] = None,
) -> dict[str, Any]:
    """Returns a cell of a module, such as `demiurge/Demiurge@1`, as far as the caller may see it."""
    found = await world.state(module, key, at)
    if found is None and key is None and len(keys := await world.keys(module)) > 1:
        names = ", ".join(keys[:NAMED]) + (" ..." if len(keys) > NAMED else "")
        raise NotFound(f"{module} has several cells: say `key` with one of: {names}.", code="no_cell")
    if found is None:
        raise NotFound(f"{module} has no cell {key or ''!r} here.", code="no_cell")
    return dict(found)
