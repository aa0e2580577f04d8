"""`workspace.*`: versioned trees of files, addressed by name so that the cap can check what is touched.

Reads name the version they saw. A write makes a new root and changes nothing; a commit publishes it when the head is
the expected one, and a conflict is a result (seed 000).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.values.refs import Ref
from demiurge.world import trees
from demiurge.world.effect import EffectCall, Reading, Restart, Result, failed, succeeded
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE

__all__ = ["WorkspaceEffects"]

ENTRIES = 10_000
"""Most entries that one listing returns."""


class WorkspaceEffects:
    kinds = ("workspace.list", "workspace.read_bytes", "workspace.write_bytes", "workspace.commit")

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """All are repeatable: a commit's event is taken once, whatever happens."""
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        perform = {
            "workspace.list": _list,
            "workspace.read_bytes": _read,
            "workspace.write_bytes": _write,
            "workspace.commit": _commit,
        }[call.intent.kind]
        try:
            return await perform(call, call.intent.params)
        except DemiurgeError as error:
            return failed(error.code, error.message)


async def _root(call: EffectCall, params: Mapping[str, Any]) -> tuple[Reading, int, Ref]:
    """The tree to work on: (what was read, version, root); version 0 is empty."""
    reading = await call.services.read_cell(Unit(WORKSPACE, params["workspace"]))
    versions = reading.cell["versions"] if reading.cell is not None else []
    version = len(versions) if params["version"] is None else params["version"]
    if version > len(versions):
        raise trees.TreeError(f"Workspace {params['workspace']} has no version {version}.", code="not_found")
    root = versions[version - 1]["root_hash"] if version else await call.services.put_blob(trees.EMPTY)
    return reading, version, root


async def _list(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    folder = trees.find(call.get_blob, root, params["path"])
    if folder is None or folder.kind != "dir":
        raise trees.TreeError(
            f"There is no folder {params['path']} in workspace {params['workspace']}.", code="not_found"
        )
    entries = [
        {"path": entry.path, "kind": entry.kind, "size": entry.size} for entry in trees.walk(call.get_blob, folder)
    ]
    if len(entries) > ENTRIES:
        raise trees.TreeError(f"The folder has more than {ENTRIES} entries.", code="too_large")
    return succeeded(version=version, entries=entries, reading=reading.to_node())


async def _read(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    entry = trees.find(call.get_blob, root, params["path"])
    if entry is None or entry.kind != "file":
        what = "is a folder" if entry is not None else "does not exist"
        raise trees.TreeError(f"{params['path']} {what} in workspace {params['workspace']}.", code="not_found")
    return succeeded(version=version, bytes_ref=entry.ref, size=entry.size, reading=reading.to_node())


async def _write(call: EffectCall, params: Mapping[str, Any]) -> Result:
    reading, version, root = await _root(call, params)
    size = len(call.get_blob(params["bytes_ref"]))
    new_root, nodes = trees.write(call.get_blob, root, params["path"], params["bytes_ref"], size)
    for node in nodes:
        await call.put_blob(node)
    return succeeded(version=version, new_root_hash=new_root, reading=reading.to_node())


async def _commit(call: EffectCall, params: Mapping[str, Any]) -> Result:
    commit = {name: params[name] for name in ("workspace", "expected_head", "root_hash", "owner")}
    cause = {"unit": str(call.unit), "seq": call.intent.seq, "index": 0}
    records = await call.services.send(
        "sys/WorkspaceCommit@1",
        commit,
        ingress_id=f"intent:{call.intent.id.hex()}",
        actor=params["owner"],
        cause=cause,
    )
    for record in records:
        if record.kind == "event" and record.body["schema"] == "sys/WorkspaceCommitted@1":
            return succeeded(ok=True, version=record.body["value"]["version"], expected=None)
        if record.kind == "event" and record.body["schema"] == "sys/WorkspaceCommitRejected@1":
            value = record.body["value"]
            return succeeded(ok=False, version=value["actual"], expected=value["expected"])
    return failed("commit_failed", "The workspace did not take the commit.")
