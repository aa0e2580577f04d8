"""The files of workspaces, now and at each version."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from demiurge.bootstrap.workspace import Workspace, workspace_names
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/workspace", tags=["workspaces"], route_class=StrictJsonRoute)

_BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

FilePath = Annotated[str, Query(max_length=4096, description="Such as `notes/today.txt`.")]
Number = Annotated[int | None, Query(ge=1, le=2**53, description="The newest version, when there is none.")]
Expected = Annotated[int | None, Query(ge=0, le=2**53, description="The version that the newest must be.")]


class WorkspaceList(BaseModel):
    """The workspaces of the world, by name."""

    workspaces: list[dict[str, Any]]


class VersionView(BaseModel):
    """A version of a workspace, from 1 on."""

    version: int
    root_hash: str
    owner: str
    created_ns: int


class Versions(BaseModel):
    """The versions of a workspace, oldest first."""

    workspace: str
    versions: list[VersionView]


class EntryView(BaseModel):
    """A file or folder."""

    path: str
    kind: Literal["file", "dir"]
    size: int
    hash: str


class Entries(BaseModel):
    """The entries of a folder."""

    workspace: str
    version: int
    entries: list[EntryView]


class ChangeView(BaseModel):
    """A file that differs between two versions; a hash is None where there is no file."""

    path: str
    old_hash: str | None
    new_hash: str | None


class ChangedFiles(BaseModel):
    """The files that differ between two versions."""

    workspace: str
    old: int
    new: int
    changes: list[ChangeView]


@router.get("", responses=responses(401, 403, 503))
async def workspaces(world: CurrentWorld) -> WorkspaceList:
    """Lists the workspaces with their newest versions."""
    newest = [(name, await Workspace(world, name).version()) for name in await workspace_names(world)]
    return WorkspaceList(workspaces=[{"workspace": name, "version": version.number} for name, version in newest])


@router.get("/{name}/versions", responses=responses(401, 403, 404, 422, 503))
async def versions(world: CurrentWorld, name: str) -> Versions:
    """Lists the versions of a workspace."""
    found = await Workspace(world, name).versions()
    shown = [VersionView(version=v.number, root_hash=v.root, owner=v.owner, created_ns=v.created_ns) for v in found]
    return Versions(workspace=name, versions=shown)


@router.get("/{name}/tree", responses=responses(401, 403, 404, 422, 503))
async def tree(world: CurrentWorld, name: str, path: FilePath = "", version: Number = None) -> Entries:
    """Lists what is in a folder; a file is by itself."""
    workspace = Workspace(world, name)
    number = (await workspace.version(version)).number
    found = await workspace.children(path, number)
    entries = [
        EntryView(path=e.path, kind="dir" if e.kind == "dir" else "file", size=e.size, hash=e.ref) for e in found
    ]
    return Entries(workspace=name, version=number, entries=entries)


@router.get(
    "/{name}/file",
    response_class=Response,
    responses={200: {"description": "The bytes of the file.", **_BYTES}, **responses(401, 403, 404, 422, 503)},
)
async def read(world: CurrentWorld, name: str, path: FilePath, version: Number = None) -> Response:
    """Returns the bytes of a file, as a download."""
    data = await Workspace(world, name).read(path, version)
    headers = {"content-security-policy": "default-src 'none'; sandbox", "content-disposition": "attachment"}
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.get("/{name}/diff", responses=responses(401, 403, 404, 422, 503))
async def diff(
    world: CurrentWorld,
    name: str,
    old: Annotated[int, Query(ge=1, le=2**53)],
    new: Number = None,
    path: FilePath = "",
) -> ChangedFiles:
    """Lists the files that differ between two versions."""
    workspace = Workspace(world, name)
    number = (await workspace.version(new)).number
    found = await workspace.diff(old, number, path)
    changes = [
        ChangeView(
            path=change.path,
            old_hash=change.old,
            new_hash=change.new,
        )
        for change in found
    ]
    return ChangedFiles(workspace=name, old=old, new=number, changes=changes)


@router.put(
    "/{name}/file",
    responses=responses(400, 401, 403, 404, 409, 413, 422, 503),
    openapi_extra={"requestBody": {"required": True, **_BYTES}},
)
async def write(
    world: CurrentWorld, request: Request, name: str, path: FilePath, expected: Expected = None
) -> VersionView:
    """Writes a file in a new version. Fails with 409 when the newest version is not the expected one."""
    made = await Workspace(world, name).write(path, await request.body(), expected)
    return VersionView(version=made.number, root_hash=made.root, owner=made.owner, created_ns=made.created_ns)


@router.delete("/{name}/file", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def remove(world: CurrentWorld, name: str, path: FilePath, expected: Expected = None) -> VersionView:
    """Removes a file or an empty folder, in a new version."""
    made = await Workspace(world, name).remove(path, expected)
    return VersionView(version=made.number, root_hash=made.root, owner=made.owner, created_ns=made.created_ns)
