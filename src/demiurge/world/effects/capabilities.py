"""The capabilities of `tools.capabilities`, bound to the kernel: every method is an effect under a grant.

A handler that holds one of these can do exactly what the world's caps and policy let its open `tool.call` do, and each
use is journaled (architecture.md 1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.tools.capabilities import HttpAnswer, SecretName, WorkspaceCommit, WorkspaceEntry, WorkspaceFile
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref
from demiurge.world.authority.enforcers import INLINE_BYTES
from demiurge.world.authority.refusals import tool_code
from demiurge.world.effect import EffectCall
from demiurge.world.sealing import Sealing

__all__ = ["WorldBlobs", "WorldHttp", "WorldIntrospection", "WorldTimer", "WorldVaultAccess", "WorldWorkspaces"]


_ENDS = (ToolErrorCode.POLICY_DENIED, ToolErrorCode.BUDGET_EXCEEDED, ToolErrorCode.DEADLINE_EXCEEDED)
"""What the kernel refuses an effect of a running tool with; any other failure is the effect's own."""


async def _ask(call: EffectCall, kind: str, **params: Any) -> Mapping[str, Any]:
    """The receipt's payload. Raises ToolFailure when the effect was refused, had no budget left or is in doubt, else
    ToolUserError with what it said."""
    result = await call.request(kind, params)
    payload: Mapping[str, Any] = result["payload"]
    if result["status"] != "ok":
        code = tool_code(payload["code"])
        if code is ToolErrorCode.UNKNOWN_OUTCOME:
            raise ToolFailure(code)
        if code in _ENDS:
            raise ToolFailure(code, safe_message=payload["message"])
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


class WorldHttp:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str | SecretName] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        max_redirects: int = 0,
    ) -> HttpAnswer:
        found = await _ask(
            self._call,
            "http.request",
            method=method,
            url=url,
            headers={name: _header(value) for name, value in headers.items()} if headers else None,
            body_ref=await self._call.put_blob(body) if body is not None else None,
            max_redirects=max_redirects,
            timeout_ms=round(timeout_s * 1000) if timeout_s is not None else None,
        )
        answer = self._call.get_blob(found["body_ref"]) if found["body_ref"] else b""
        return HttpAnswer(found["status"], found["url"], found["headers"], answer)


def _header(value: str | SecretName) -> dict[str, Any]:
    if isinstance(value, SecretName):
        return {"$tag": "secret", "$value": {"alias": value.alias, "version": value.version}}
    return {"$tag": "literal", "$value": value}


class WorldBlobs:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def put(self, data: bytes) -> Ref:
        content = {"$tag": "bytes", "$value": data}
        return Ref((await _ask(self._call, "blob.put", blob_ref=None, content=content))["blob_ref"])

    async def get(self, ref: Ref) -> bytes:
        size = (await self._part(ref, 0, 0))["size"]
        parts = [await self._part(ref, at, min(at + INLINE_BYTES, size)) for at in range(0, size, INLINE_BYTES)]
        return b"".join([part["bytes"] for part in parts])

    async def _part(self, ref: Ref, start: int, end: int) -> Mapping[str, Any]:
        return await _ask(self._call, "blob.get", blob_ref=ref, range={"start": start, "end": end})


class WorldTimer:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def wait_until(self, time_ns: int) -> int:
        found = await _ask(self._call, "timer.set", deliver_at_ns=time_ns, key=None)
        return int(found["delivered_at_ns"])


class WorldVaultAccess:
    def __init__(self, call: EffectCall, sealing: Sealing) -> None:
        self._call, self._sealing = call, sealing

    async def put(self, alias: str, value: Secret) -> SecretName:
        """Sealed with the call as its salt, so that a handler that is run again asks for the same."""
        try:
            sealed = await asyncio.to_thread(self._sealing.seal, alias, value, self._call.intent.id)
        except DemiurgeError as error:
            raise ToolUserError(error.message) from None
        ref = await self._call.put_blob(sealed)
        return _name(await _ask(self._call, "vault.put", alias=alias, value_ref=ref, expected_digest=None))

    async def rotate(self, alias: str, *, size: int | None = None) -> SecretName:
        return _name(await _ask(self._call, "vault.rotate", alias=alias, bytes=size))


def _name(kept: Mapping[str, Any]) -> SecretName:
    return SecretName(kept["alias"], kept["version"])


_NAMED = {
    "schemas": "defschema",
    "modules": "defmodule",
    "plans": "defplan",
    "caps": "defcap",
    "policies": "defpolicy",
    "secrets": "defsecret",
    "toolsets": "deftoolset",
}
"""What a manifest shows by name alone, and the kind of its definitions."""


def _manifest_view(node: Mapping[str, Any]) -> dict[str, Any]:
    definitions, root = node["definitions"], node["root"]
    defaults = root.get("defaults", {})
    in_force = [d["rules"] for d in definitions if d["$kind"] == "defpolicy" and d["name"] == defaults.get("policy")]
    effects = [d["kind"] for d in (*node["system"], *definitions) if d["$kind"] == "defeffect"]
    return {
        **{name: sorted(d["name"] for d in definitions if d["$kind"] == kind) for name, kind in _NAMED.items()},
        "effects": sorted(effects),
        "grants": defaults.get("cap_grants", []),
        "policy": in_force[0] if in_force else [],
        "routing": root.get("routing", {}).get("events", []),
        "settings": root.get("settings", {}),
        "triggers": root.get("triggers", []),
        "tools": [spec["name"] for spec in node["toolset"]],
        "tool_policy": node["tool_policy"],
    }


class WorldIntrospection:
    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def manifest(self) -> Mapping[str, Any]:
        """What this world is made of: definitions by name, and in full what may happen in it and who decides."""
        found = await _ask(self._call, "introspect.manifest")
        node = cbor.decode(self._call.get_blob(Ref(found["manifest_ref"])))
        return {**_manifest_view(node), "ref": found["manifest_ref"]}

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
