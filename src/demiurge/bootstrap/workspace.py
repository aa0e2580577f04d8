"""`Workspace`: the versions of a named tree of files, to read and to edit.

Like a chat it has no state of its own: it reads its unit and blobs, and an edit is an event to the unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.values.projection import Only
from demiurge.values.refs import Ref
from demiurge.world import trees
from demiurge.world.trees import Change, TreeEntry, TreeError
from demiurge.world.workspace import COMMITTED, EDIT, EDIT_REFUSED, MAX_FILE, REJECTED, WORKSPACE

if TYPE_CHECKING:
    from demiurge.bootstrap.world import World

__all__ = ["Version", "Workspace", "workspace_names"]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a workspace: `number` from 1; `created_ns` is wall time, in nanoseconds since 1970."""

    number: int
    root: Ref
    owner: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace by its name. Methods raise NotFound for one that nobody has written to, a version that it lacks or a
    path that is not there, TreeError for what is no path."""

    world: World = field(repr=False)
    name: str

    async def versions(self) -> list[Version]:
        """Returns all versions, oldest first."""
        versions: list[Any] = await self._versions((0, None))
        return [_version(number, version) for number, version in enumerate(versions, 1)]

    async def version(self, number: int | None = None) -> Version:
        """Returns the version with this number, or the newest."""
        count: int = await self._versions("length")
        at = count if number is None else number
        if not 1 <= at <= count:
            raise NotFound(f"Workspace {self.name} has the versions 1 to {count}.", code="no_version")
        [found] = await self._versions((at - 1, at))
        return _version(at, found)

    async def _versions(self, only: Only) -> Any:
        """Returns a part of the list of versions. Raises NotFound, UsageError (`role_missing`)."""
        state = await self.world.state(WORKSPACE, self.name, only={"versions": only})
        if state is None:
            names = ", ".join(await workspace_names(self.world)) or "none"
            raise NotFound(f"There is no workspace {self.name}; there are: {names}.", code="no_workspace")
        if "versions" not in state:
            raise UsageError(
                "The files of workspaces are withheld from this caller: it takes the role agent, chief or user.",
                code="role_missing",
            )
        return state["versions"]

    async def find(self, path: str, number: int | None = None) -> TreeEntry:
        """Returns the file or folder at `path` ("" is the root)."""
        version = await self.version(number)
        entry = trees.find(self._get, version.root, path)
        if entry is None:
            where = f"{self.name}@{version.number}"
            raise NotFound(f"There is no {path} in {where}; `demiurge ws ls {where}` lists what is.", code="no_path")
        return entry

    async def children(self, path: str, number: int | None = None) -> Sequence[TreeEntry]:
        """Returns the entries of a folder, by name; of a file, the file alone."""
        entry = await self.find(path, number)
        return (entry,) if entry.kind == "file" else tuple(trees.walk(self._get, entry))

    async def read(self, path: str, number: int | None = None) -> bytes:
        """Returns the bytes of a file."""
        entry = await self.find(path, number)
        if entry.kind != "file":
            where = "/".join(part for part in (self.name, path) if part)
            raise NotFound(f"{path or 'The root'} is a folder; `demiurge ws ls {where}` lists it.", code="no_path")
        return self._get(entry.ref)

    async def diff(self, old: int, new: int | None = None, path: str = "") -> list[Change]:
        """Returns the differences between two versions at and below `path`, sorted by path."""
        roots = [(await self.version(number)).root for number in (old, new)]
        before, after = (trees.find(self._get, root, path) for root in roots)
        return sorted(trees.diff(self._get, before, after), key=lambda change: (change.path, change.new is not None))

    async def write(self, path: str, data: bytes, expected: int | None = None) -> Version:
        """Puts `data` at `path`, in a new version after the newest, which must be `expected` (0: no version yet; None:
        whichever it is). The workspace, and folders, are made when they are missing; what was there is replaced.

        At most 16 MiB. Raises Conflict (`version_conflict`), TreeError, InvalidValue
        (`invalid_workspace_name`), Unavailable.
        """
        trees.check_new_name(self.name)
        trees.check_new_path(path)
        if len(data) > MAX_FILE:
            raise TreeError(f"A file takes at most {MAX_FILE} bytes.", code="too_large")
        return await self._edit(path, self.world.blobs.put(data), expected)

    async def remove(self, path: str, expected: int | None = None) -> Version:
        """Removes the file or empty folder at `path`, in a new version. Raises as `write`."""
        trees.check_new_name(self.name)
        trees.split(path)
        return await self._edit(path, None, expected)

    async def _edit(self, path: str, ref: Ref | None, expected: int | None) -> Version:
        wanted = {"workspace": self.name, "expected_head": expected, "path": path, "bytes_ref": ref}
        accepted = await self.world.submit(EDIT, wanted)
        for record in self.world.journal.read(accepted.unit, accepted.seq + 1):
            body = record.body
            if record.kind == "step" and "error" in body:
                raise InvalidValue(body["error"]["message"], code=body["error"]["code"])
            if record.kind == "event" and body["schema"] == COMMITTED:
                return await self.version(body["value"]["version"])
            if record.kind == "event" and body["schema"] == REJECTED:
                said = body["value"]
                message = f"Workspace {self.name} is at version {said['actual']}, not {said['expected']}."
                raise Conflict(message, code="version_conflict")
            if record.kind == "event" and body["schema"] == EDIT_REFUSED:
                raise TreeError(body["value"]["message"], code=body["value"]["code"])
        raise DemiurgeError(f"Workspace {self.name} did not answer the edit.", code="internal")

    def _get(self, ref: Ref) -> bytes:
        return self.world.blobs.get(ref)


async def workspace_names(world: World) -> list[str]:
    """Returns the names of the workspaces that have a version. A refused edit leaves a unit without one."""
    names = await world.keys(WORKSPACE)
    return [name for name in names if await world.state(WORKSPACE, name, only={"versions": "length"}) is not None]


def _version(number: int, found: Mapping[str, Any]) -> Version:
    return Version(number, Ref(found["root_hash"]), found["owner"], _nanoseconds(found["created_at"]))


def _nanoseconds(time: Any) -> int:
    return int(time)
