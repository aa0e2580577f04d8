"""`workspace.*`: their parameters, and which of them a grant of type `workspace` covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.capabilities.http.urls import is_inside
from demiurge.tools.capabilities import Workspaces
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter, in_list
from demiurge.world.effect_kinds.types import BOOL, HASH, NAT, TEXT, list_of, map_of, option, record, ref, set_of

__all__ = ["WORKSPACE_FILES"]

_OPS = {
    "read_bytes": "read",
    "read_ref": "read",
    "annotations_get": "read",
    "write_bytes": "write",
    "remove": "write",
    "annotations_set": "write",
    "commit": "write",
}
"""The last part of a kind's name -> its word in a grant's `ops`, where the two differ."""


def _op(grant: Mapping[str, Any], kind: str, _params: Mapping[str, Any]) -> str | None:
    name = kind.partition(".")[2]
    ops = grant.get("ops")
    return "op_not_allowed" if ops is not None and _OPS.get(name, name) not in ops else None


def _path(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    prefixes = grant.get("path_prefixes")
    if prefixes is None or "path" not in params:
        return None
    inside = any(is_inside(params["path"], prefix) for prefix in prefixes)
    return None if inside else "path_not_allowed"


_VERSION = option(NAT)
_READING = ref("sys/UnitReading@1")
_WRITTEN = ref("sys/WorkspaceWriteReceipt@1")

WORKSPACE_FILES: Final = EffectFamily(
    cap_type="workspace",
    kinds=(
        EffectKind(
            name="workspace.resolve",
            params=record(workspace=TEXT, version=_VERSION),
            receipt=record(
                exists=BOOL,
                resolved_version=option(NAT),
                head=option(NAT),
                root_hash=option(TEXT),
                reading=_READING,
            ),
        ),
        EffectKind(
            name="workspace.list",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT),
            receipt=record(version=NAT, entries=list_of(ref("sys/WorkspaceEntry@1")), reading=_READING),
        ),
        EffectKind(
            name="workspace.read_ref",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT),
            receipt=record(version=NAT, entry=option(ref("sys/WorkspaceNode@1")), reading=_READING),
            notes={"entry": "`kind`, `hash`, `size`, `mode`"},
        ),
        EffectKind(
            name="workspace.read_bytes",
            title="WorkspaceRead",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT),
            receipt=record(version=NAT, bytes_ref=HASH, size=NAT, reading=_READING),
        ),
        EffectKind(
            name="workspace.write_bytes",
            title="WorkspaceWrite",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT, bytes_ref=HASH),
            receipt=record(version=NAT, new_root_hash=HASH, reading=_READING),
        ),
        EffectKind(
            name="workspace.remove",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT),
            receipt=_WRITTEN,
        ),
        EffectKind(
            name="workspace.annotations_get",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT),
            receipt=record(version=NAT, annotations=map_of(TEXT, TEXT), reading=_READING),
        ),
        EffectKind(
            name="workspace.annotations_set",
            params=record(workspace=TEXT, version=_VERSION, path=TEXT, patch=map_of(TEXT, option(TEXT))),
            receipt=_WRITTEN,
        ),
        EffectKind(
            name="workspace.diff",
            params=record(workspace=TEXT, version_a=NAT, version_b=_VERSION, path=TEXT),
            receipt=record(
                version_a=NAT, version_b=NAT, changes=list_of(ref("sys/WorkspaceChange@1")), reading=_READING
            ),
            notes={"changes": "`path`, `kind`, `old_hash?`, `new_hash?`"},
        ),
        EffectKind(
            name="workspace.commit",
            params=record(workspace=TEXT, expected_head=option(NAT), root_hash=HASH, owner=TEXT),
            receipt=record(ok=BOOL, version=NAT, expected=option(NAT)),
            changes=True,
            stays_inside=True,
        ),
    ),
    schemas={
        "sys/WorkspaceEntry@1": record(path=TEXT, kind=TEXT, size=NAT),
        "sys/WorkspaceNode@1": record(kind=TEXT, hash=HASH, size=NAT, mode=NAT),
        "sys/WorkspaceChange@1": record(path=TEXT, kind=TEXT, old_hash=option(TEXT), new_hash=option(TEXT)),
    },
    grant=record(
        workspaces=option(set_of(TEXT)),
        path_prefixes=option(set_of(TEXT)),
        ops=option(set_of(TEXT)),
        max_bytes=option(NAT),
        max_entries=option(NAT),
    ),
    grant_notes={
        "ops": "`resolve` `list` `read` `write` `diff`",
        "max_bytes": "of a file",
        "max_entries": "of a listing or comparison",
    },
    compared={"workspace": Parameter(TEXT), "path": Parameter(TEXT, absent=True)},
    checks=(in_list("workspaces", "workspace", "workspace_not_allowed"), _op, _path),
    adapter="demiurge.world.effects.workspace:WorkspaceEffects",
    restart="performed again, with the same key: a commit is taken once, whatever happens",
    capability=Capability(
        Workspaces, "demiurge.world.effects.workspace:WorldWorkspaces", "`list`, `read`, `write` text files"
    ),
)
