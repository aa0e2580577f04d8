"""`workspace__*`: tools for the versioned text files of a world's workspace, through the Workspaces capability.

The path rules are here and not in each adapter: segments of letters, digits and `. _ ~ -`, joined by "/", never "."
or "..". So no adapter ever gets a path that could leave its root. Texts are private, paths public.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticKnownError

from demiurge.tools.capabilities import WorkspaceCommit, Workspaces
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.execution.portable import MAX_INTEGER
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = [
    "Files",
    "ListFiles",
    "ReadWorkspaceFile",
    "WorkspaceFileText",
    "WorkspaceListEntry",
    "WorkspaceWriteResult",
    "WriteWorkspaceFile",
    "list_files",
    "read",
    "workspace_name",
    "workspace_path",
    "write",
]

_DEFAULT = "main"
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
_WORKSPACE = {"description": "Workspace name. Leave out for main."}


@dataclass(frozen=True, slots=True)
class ListFiles:
    path: str = field(
        default="", metadata={"description": "Path of the folder that the request names. Left out: the top folder."}
    )
    workspace: str = field(default=_DEFAULT, metadata=_WORKSPACE)


@dataclass(frozen=True, slots=True)
class WorkspaceListEntry:
    path: str
    kind: Literal["file", "dir"]
    size: int


@dataclass(frozen=True, slots=True)
class Files:
    workspace: str
    path: str
    entries: tuple[WorkspaceListEntry, ...]


@dataclass(frozen=True, slots=True)
class ReadWorkspaceFile:
    path: str = field(metadata={"description": "File path."})
    workspace: str = field(default=_DEFAULT, metadata=_WORKSPACE)


@dataclass(frozen=True, slots=True)
class WorkspaceFileText:
    """A file; the model sees only its text."""

    workspace: str
    path: str
    version: int
    size: int
    text: str

    def render(self) -> str:
        return self.text


def _checked_version(version: int) -> int:
    """Refuses a version out of range. The schema leaves the range out: 2^53 numbers tell a model nothing and make a
    large grammar."""
    if not 0 <= version <= MAX_INTEGER:
        raise PydanticKnownError("less_than_equal", {"le": MAX_INTEGER})
    return version


@dataclass(frozen=True, slots=True)
class WriteWorkspaceFile:
    path: str = field(metadata={"description": "File path."})
    text: str = field(metadata={"description": "The whole new content of the file."})
    workspace: str = field(default=_DEFAULT, metadata=_WORKSPACE)
    expected_version: Annotated[int, AfterValidator(_checked_version)] | None = field(
        default=None, metadata={"description": "Leave out unless the request names a version."}
    )


@dataclass(frozen=True, slots=True)
class WorkspaceWriteResult:
    """The outcome of a write. `ok` false: another write came first and nothing was changed; `expected` and `actual`
    are the two versions."""

    workspace: str
    path: str
    ok: bool
    version: int
    expected: int | None
    actual: int | None


async def _list(params: ListFiles, *, context: ToolContext) -> ToolResult[Files]:
    workspace, path = workspace_name(params.workspace), _folder(params.path)
    found = await _workspaces(context).list(path, workspace=workspace)
    entries = tuple(WorkspaceListEntry(entry.path, entry.kind, entry.size) for entry in found)
    where = f"{path} of workspace {workspace}" if path else f"workspace {workspace}"
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    return ToolResult(message=f"{count} in {where}.", value=Files(workspace, path, entries))


async def _read(params: ReadWorkspaceFile, *, context: ToolContext) -> ToolResult[WorkspaceFileText]:
    workspace = workspace_name(params.workspace)
    file = await _workspaces(context).read(workspace_path(params.path), workspace=workspace)
    value = WorkspaceFileText(workspace, file.path, file.version, file.size, file.text)
    return ToolResult(message=f"{file.path}, version {file.version}:", value=value)


async def _write(params: WriteWorkspaceFile, *, context: ToolContext) -> ToolResult[WorkspaceWriteResult]:
    workspace, path = workspace_name(params.workspace), workspace_path(params.path)
    commit = await _workspaces(context).write(
        path, params.text, workspace=workspace, expected_version=params.expected_version
    )
    value = WorkspaceWriteResult(workspace, commit.path, commit.ok, commit.version, commit.expected, commit.actual)
    return ToolResult(message=_message(commit), value=value)


def _message(commit: WorkspaceCommit) -> str:
    if commit.ok:
        return f"Wrote {commit.path}, now version {commit.version}."
    versions = f"version {commit.expected} was expected, but it is {commit.actual}"
    return f"Nothing was written: {versions}. Read it again first."


def _workspaces(context: ToolContext) -> Workspaces:
    found = context.resources.get(Workspaces)
    if found is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    return found


def workspace_name(text: str) -> str:
    """Returns the name of a workspace. Raises ToolUserError for a text that is none."""
    if not _is_segment(text):
        raise ToolUserError("A workspace name is letters, digits and . _ ~ - only.")
    return text


def workspace_path(text: str) -> str:
    """Returns a path inside a workspace. Raises ToolUserError for a text that is none."""
    if not all(_is_segment(part) for part in text.split("/")):
        raise ToolUserError(
            "A path is names joined by /, with no / in front; a name is letters, digits and . _ ~ - only."
        )
    return text


def _folder(text: str) -> str:
    """Returns a path, or "" for the root. Models also write "/", "." and "./docs/" for it."""
    plain = text.strip().removeprefix("./").strip("/")
    return "" if plain in ("", ".") else workspace_path(plain)


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None and text not in (".", "..")


list_files = CoreTool[ListFiles, Files](
    name="workspace__list",
    description="List the files and folders in the folder that the request names, "
    "or in the top folder of the workspace.",
    handler=_list,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("workspace", "path", "entries"),
    capabilities=(Workspaces,),
)

read = CoreTool[ReadWorkspaceFile, WorkspaceFileText](
    name="workspace__read",
    description="Read a text file from the workspace.",
    handler=_read,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("workspace", "path", "version", "size"),
    capabilities=(Workspaces,),
)

write = CoreTool[WriteWorkspaceFile, WorkspaceWriteResult](
    name="workspace__write",
    description="Create a text file in the workspace, or replace its content.",
    handler=_write,
    effect=ToolEffect.STATE_CHANGE,
    redaction=Redaction.allow("workspace", "path", "ok", "version", "expected", "actual"),
    capabilities=(Workspaces,),
)
