"""`workspace.*`: versioned trees of files, addressed by name so that the grant can check which are touched.

Reads name the version they saw. A write makes a new root and changes nothing; a commit publishes it if the head is the
expected one, and a conflict is a result. Only a root that an effect made for this workspace and this unit can be
committed: a hand-written tree could name any blob of the world, and so reveal it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from demiurge.capabilities.http.urls import is_inside
from demiurge.errors import DemiurgeError
from demiurge.tools.capabilities import WorkspaceCommit, WorkspaceEntry, WorkspaceFile
from demiurge.tools.errors import ToolUserError
from demiurge.values.refs import Ref, ref_of
from demiurge.world import trees
from demiurge.world.effect import CellReading, EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.workspace import WORKSPACE_FILES
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.effects.blob import resolve_input_blob
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent
from demiurge.world.trees import Changed, TreeError
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE

__all__ = ["WorkspaceEffects", "WorldWorkspaces"]

ENTRIES = 10_000
"""The most entries that one listing or comparison returns; a grant may set a lower limit."""


class WorkspaceEffects:
    """The adapter of `workspace.*`."""

    kinds = WORKSPACE_FILES.names

    @classmethod
    def bind(cls, _parts: WorldParts) -> WorkspaceEffects:
        return cls()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "retry": all are repeatable, and a commit's event is taken once."""
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            return await _ANSWERS[call.intent.kind](call, call.intent.params)
        except DemiurgeError as error:
            return failed(error.code, error.message)


class _Versions(NamedTuple):
    """A workspace as it was read: the roots of its versions, oldest first; version 0 is empty."""

    name: str
    reading: CellReading
    roots: list[Ref]

    def pick(self, version: int | None) -> tuple[int, Ref]:
        """Returns a version's number and root; None is the newest. Raises TreeError."""
        number = len(self.roots) if version is None else version
        if number > len(self.roots):
            raise TreeError(f"Workspace {self.name} has no version {number}.", code="not_found")
        return number, self.roots[number - 1] if number else ref_of(trees.EMPTY)


async def _versions(call: EffectCall, name: str) -> _Versions:
    reading = await call.read_cell(Unit(WORKSPACE, name))
    versions = reading.cell["versions"] if reading.cell is not None else []
    return _Versions(name, reading, [Ref(version["root_hash"]) for version in versions])


async def _root(call: EffectCall, params: Mapping[str, Any]) -> tuple[CellReading, int, Ref]:
    """Returns the tree to work on: (what was read, version, root)."""
    versions = await _versions(call, params["workspace"])
    return versions.reading, *versions.pick(params["version"])


def _limit(call: EffectCall, name: str, size: int, what: str, otherwise: int | None = None) -> None:
    """Raises TreeError (`too_large`) if `size` is more than the grant's field `name`, or `otherwise`, allows."""
    granted = call.grant.get(name)
    most = min((limit for limit in (granted, otherwise) if limit is not None), default=None)
    if most is not None and size > most:
        raise TreeError(f"{what} is more than the {most} that are allowed.", code="too_large")


# -- reading -----------------------------------------------------------------------------------------------------------


async def _resolve(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns whether a workspace has a version, and its root as text, because the root alone gives no access."""
    versions = await _versions(call, params["workspace"])
    reading, head = versions.reading.to_node(), len(versions.roots)
    version = head if params["version"] is None else params["version"]
    if not head or version > head:
        nothing = dict.fromkeys(("resolved_version", "head", "root_hash"))
        return succeeded(exists=False, **nothing, reading=reading)
    root = versions.pick(version)[1]
    return succeeded(exists=True, resolved_version=version, head=head, root_hash=root, reading=reading)


async def _list(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    folder = trees.find(call.get_blob, root, params["path"])
    if folder is None or folder.kind != "dir":
        raise TreeError(f"There is no folder {params['path']} in workspace {params['workspace']}.", code="not_found")
    entries = [
        {"path": entry.path, "kind": entry.kind, "size": entry.size} for entry in trees.walk(call.get_blob, folder)
    ]
    _limit(call, "max_entries", len(entries), "The number of entries", ENTRIES)
    return succeeded(version=version, entries=entries, reading=reading.to_node())


async def _read_ref(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the entry at a path, by address; None if there is none."""
    reading, version, root = await _root(call, params)
    entry = trees.find(call.get_blob, root, params["path"])
    node = None
    if entry is not None:
        _limit(call, "max_bytes", entry.size, "The file's size")
        node = {"kind": entry.kind, "hash": entry.ref, "size": entry.size, "mode": entry.mode}
    return succeeded(version=version, entry=node, reading=reading.to_node())


async def _read(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    entry = trees.find(call.get_blob, root, params["path"])
    if entry is None or entry.kind != "file":
        what = "is a folder" if entry is not None else "does not exist"
        raise TreeError(f"{params['path']} {what} in workspace {params['workspace']}.", code="not_found")
    _limit(call, "max_bytes", entry.size, "The file's size")
    return succeeded(version=version, bytes_ref=entry.ref, size=entry.size, reading=reading.to_node())


async def _diff(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the differences between two versions at and below a path."""
    versions = await _versions(call, params["workspace"])
    (a, old), (b, new) = versions.pick(params["version_a"]), versions.pick(params["version_b"])
    entries = (trees.find(call.get_blob, root, params["path"]) for root in (old, new))
    found = list(islice(trees.diff(call.get_blob, *entries), ENTRIES + 1))
    _limit(call, "max_entries", len(found), "The number of changes", ENTRIES)
    changes = [
        {"path": change.path, "kind": change.kind, "old_hash": change.old, "new_hash": change.new}
        for change in sorted(found, key=lambda change: (change.path, change.new is not None))
    ]
    return succeeded(version_a=a, version_b=b, changes=changes, reading=versions.reading.to_node())


async def _annotations_get(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    entry = trees.find(call.get_blob, root, params["path"])
    if entry is None:
        raise TreeError(f"There is no {params['path']} in workspace {params['workspace']}.", code="not_found")
    return succeeded(version=version, annotations=dict(entry.annotations), reading=reading.to_node())


# -- changing ----------------------------------------------------------------------------------------------------------


async def _changed(call: EffectCall, params: Mapping[str, Any], change: Callable[[trees.Get, Ref], Changed]) -> Result:
    trees.check_new_name(params["workspace"])
    reading, version, root = await _root(call, params)
    new_root, nodes = change(call.get_blob, root)
    for node in nodes:
        await call.put_blob(node)
    return succeeded(version=version, new_root_hash=new_root, reading=reading.to_node())


async def _write(call: EffectCall, params: Mapping[str, Any]) -> Result:
    ref = await resolve_input_blob(call, params["bytes_ref"])
    size = len(call.get_blob(ref))
    _limit(call, "max_bytes", size, "The file's size")
    trees.check_new_path(params["path"])
    return await _changed(call, params, lambda get, root: trees.write(get, root, params["path"], ref, size))


async def _remove(call: EffectCall, params: Mapping[str, Any]) -> Result:
    return await _changed(call, params, lambda get, root: trees.remove(get, root, params["path"]))


async def _annotations_set(call: EffectCall, params: Mapping[str, Any]) -> Result:
    return await _changed(call, params, lambda get, root: trees.annotate(get, root, params["path"], params["patch"]))


async def _commit(call: EffectCall, params: Mapping[str, Any]) -> Result:
    commit = {name: params[name] for name in ("workspace", "expected_head", "root_hash", "owner")}
    commit["expected_head"] = await _checked_head(call, params)
    records = await call.send("sys/WorkspaceCommit@1", commit)
    for record in records:
        if record.kind == "event" and record.body["schema"] == "sys/WorkspaceCommitted@1":
            return succeeded(ok=True, version=record.body["value"]["version"], expected=None)
        if record.kind == "event" and record.body["schema"] == "sys/WorkspaceCommitRejected@1":
            value = record.body["value"]
            return succeeded(ok=False, version=value["actual"], expected=value["expected"])
    return failed("commit_failed", "The workspace did not take the commit.")


async def _checked_head(call: EffectCall, params: Mapping[str, Any]) -> int | None:
    """Returns the head to expect. Raises TreeError for a root that may not be committed.

    Under a grant for some paths only those may differ from the head, so then a head is always expected.
    """
    versions = await _versions(call, params["workspace"])
    root, expected = Ref(params["root_hash"]), params["expected_head"]
    if root == ref_of(trees.EMPTY):
        await call.services.put_blob(trees.EMPTY)
    elif root not in versions.roots and not await _is_made(call, params["workspace"], root):
        raise TreeError("No effect made this tree for this workspace.", code="not_found")
    prefixes = call.grant.get("path_prefixes")
    if prefixes is None or (expected is not None and expected != len(versions.roots)):
        return None if expected is None else int(expected)
    head, old = versions.pick(None)
    whole = (trees.find(call.get_blob, tree, "") for tree in (old, root))
    for change in trees.diff(call.get_blob, *whole):
        if not any(is_inside(change.path, prefix) for prefix in prefixes):
            raise TreeError(f"The grant {call.intent.grant} does not cover {change.path}.", code="path_not_allowed")
    return head


async def _is_made(call: EffectCall, workspace: str, root: Ref) -> bool:
    def by_an_effect(record: Record) -> bool:
        if record.kind != "receipt" or record.body["payload"].get("new_root_hash") != root:
            return False
        assert isinstance(record.cause, int)
        intent = next(iter(call.services.records(call.unit, record.cause))).body
        return bool(intent["kind"].startswith("workspace.") and intent["params"]["workspace"] == workspace)

    return await call.services.granting_record(call.unit, root, by_an_effect) is not None


_ANSWERS: Mapping[str, Callable[[EffectCall, Mapping[str, Any]], Awaitable[Result]]] = {
    "workspace.resolve": _resolve,
    "workspace.list": _list,
    "workspace.read_ref": _read_ref,
    "workspace.read_bytes": _read,
    "workspace.write_bytes": _write,
    "workspace.remove": _remove,
    "workspace.diff": _diff,
    "workspace.annotations_get": _annotations_get,
    "workspace.annotations_set": _annotations_set,
    "workspace.commit": _commit,
}


class WorldWorkspaces:
    """The `Workspaces` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]:
        found = await ask(self._call, "workspace.list", workspace=workspace, version=None, path=path)
        return [WorkspaceEntry(e["path"], e["kind"], e["size"]) for e in found["entries"]]

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile:
        found = await ask(self._call, "workspace.read_bytes", workspace=workspace, version=None, path=path)
        try:
            text = self._call.get_blob(found["bytes_ref"]).decode()
        except UnicodeDecodeError:
            raise ToolUserError(f"{path} is not a text file.") from None
        return WorkspaceFile(path, text, found["version"], found["size"])

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit:
        ref = await self._call.put_blob(text.encode())
        made = await ask(
            self._call, "workspace.write_bytes", workspace=workspace, version=None, path=path, bytes_ref=ref
        )
        done = await ask(
            self._call,
            "workspace.commit",
            workspace=workspace,
            expected_head=made["version"] if expected_version is None else expected_version,
            root_hash=made["new_root_hash"],
            owner=self._call.caller.actor,
        )
        if done["ok"]:
            return WorkspaceCommit(path, done["version"], ok=True)
        return WorkspaceCommit(path, done["version"], False, done["expected"], done["version"])
