"""The capabilities of `tools.capabilities`, bound to the kernel: every method is an effect under a grant.

A handler that holds one of these can do exactly what the world's caps and policy let its open `tool.call` do, and each
use is journaled (architecture.md 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demiurge.tools.capabilities import WorkspaceCommit, WorkspaceEntry, WorkspaceFile
from demiurge.tools.errors import ToolUserError
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall

__all__ = ["WorldIntrospection", "WorldWorkspaces"]


async def _ask(call: EffectCall, kind: str, **params: Any) -> Mapping[str, Any]:
    """The receipt's payload. Raises ToolUserError with what the effect said."""
    result = await call.request(kind, params)
    payload: Mapping[str, Any] = result["payload"]
    if result["status"] != "ok":
        raise ToolUserError(payload["message"])
    return payload


class WorldWorkspaces:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]:
        found = await _ask(self._call, "workspace.list", workspace=workspace, version=None, path=path)
        return [WorkspaceEntry(e["path"], e["kind"], e["size"]) for e in found["entries"]]

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile:
        found = await _ask(self._call, "workspace.read_bytes", workspace=workspace, version=None, path=path)
        try:
            text = self._call.get_blob(found["bytes_ref"]).decode()
        except UnicodeDecodeError:
            raise ToolUserError(f"{path} is not a text file.") from None
        return WorkspaceFile(path, text, found["version"], found["size"])

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit:
        ref = await self._call.put_blob(text.encode())
        made = await _ask(
            self._call, "workspace.write_bytes", workspace=workspace, version=None, path=path, bytes_ref=ref
        )
        done = await _ask(
            self._call,
            "workspace.commit",
            workspace=workspace,
            expected_head=made["version"] if expected_version is None else expected_version,
            root_hash=made["new_root_hash"],
            owner=self._call.actor,
        )
        if done["ok"]:
            return WorkspaceCommit(path, done["version"], ok=True)
        return WorkspaceCommit(path, done["version"], False, done["expected"], done["version"])


class WorldIntrospection:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def manifest(self) -> Mapping[str, Any]:
        """Names, not bodies: what this world is made of."""
        found = await _ask(self._call, "introspect.manifest")
        node = cbor.decode(self._call.get_blob(Ref(found["manifest_ref"])))
        kinds: dict[str, list[str]] = {}
        for definition in node["definitions"]:
            kinds.setdefault(definition["$kind"].removeprefix("def") + "s", []).append(definition["name"])
        tools = [spec["name"] for spec in node["toolset"]]
        return {
            **{kind: sorted(names) for kind, names in kinds.items()},
            "tools": tools,
            "ref": found["manifest_ref"],
        }

    async def state(self, module: str | None, key: str | None) -> Mapping[str, Any]:
        unit = self._call.unit
        wanted = module or unit.module
        which = key if key is not None else (unit.key if wanted == unit.module else "")
        found = await _ask(self._call, "introspect.state", module=wanted, key=which)
        state = canonical_json.parse(self._call.get_blob(found["state_ref"])) if found["state_ref"] else None
        return {"module": wanted, "key": which, "state": state, **found["reading"]}

    async def schemas(self, prefix: str | None) -> Mapping[str, Any]:
        found = await _ask(self._call, "introspect.schemas", prefix=prefix)
        types = canonical_json.parse_object(self._call.get_blob(Ref(found["schemas_ref"])))
        names = sorted(types)
        return {"names": names} if prefix is None else {"names": names, "types": types}

    async def module(self, name: str) -> Mapping[str, Any]:
        found = await _ask(self._call, "introspect.module", name=name)
        return canonical_json.parse_object(self._call.get_blob(Ref(found["module_ref"])))
