"""`introspect.*`: lets a world inspect itself. The host reads; the receipt names what it read.

Of a cell it names unit, number and state hash; of a definition, the manifest it is in. The state hash of a cell that
was only listed is text: knowing that a state exists gives no access to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from itertools import islice
from typing import Any

from demiurge.errors import DemiurgeError, NotFound
from demiurge.tools.capabilities import FindableTools
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.authority.admission import decide_tool
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.introspect import INTROSPECT
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import ALLOWED_HOSTS, Manifest, ModuleType
from demiurge.world.mcp_servers import MCP_SERVER
from demiurge.world.state import OpenIntent
from demiurge.world.toolset import read_toolset
from demiurge.world.unit import Unit

__all__ = ["Introspect", "WorldIntrospection"]

UNTRUSTED_CELLS = (MCP_SERVER,)
"""The modules whose states no tool may read: they hold what servers list, trusted or not."""

CELLS, MAX_CELLS = 100, 1000
"""How many cells one answer lists by default, and at most."""


class Introspect:
    """The adapter of `introspect.*`."""

    kinds = INTROSPECT.names

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @classmethod
    def bind(cls, parts: WorldParts) -> Introspect:
        return cls(parts.clock)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        try:
            if call.intent.kind == "introspect.tools":
                return await _tools(call, self._clock.now_ns())
            return await _ANSWERS[call.intent.kind](call, call.intent.params)
        except DemiurgeError as error:
            return failed(error.code, error.message)


def _module(manifest: Manifest, name: str) -> ModuleType:
    try:
        return manifest.modules[name]
    except KeyError:
        raise NotFound(f"There is no module {name}.") from None


async def _manifest(call: EffectCall, _params: Mapping[str, Any]) -> Result:
    return succeeded(manifest_ref=call.services.manifest.ref)


async def _state(call: EffectCall, params: Mapping[str, Any]) -> Result:
    if params["module"] in UNTRUSTED_CELLS:
        return failed("policy_denied", "This state holds texts of a server that no person has trusted.")
    module = _module(call.manifest, params["module"])
    reading = await call.read_cell(Unit(module.name, params["key"]))
    if reading.cell is None:
        return succeeded(state_ref=None, reading=reading.to_node())
    view = call.manifest.schemas.validator(module.state).to_json(reading.cell)
    return succeeded(state_ref=await call.put_blob(canonical_json.encode(view)), reading=reading.to_node())


async def _journal_head(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns the head of a unit's chain; of the asking unit if no module is named."""
    name = params["module"]
    unit = call.unit if name is None else Unit(_module(call.manifest, name).name, params["key"] or "")
    reading = await call.read_cell(unit)
    return succeeded(head=ref_from_digest(reading.head), manifest_ref=reading.manifest, reading=reading.to_node())


async def _list_cells(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Returns a page of a module's cells by key, after `cursor`. A unit that cannot be read is listed with its
    problem."""
    module, after = _module(call.manifest, params["module"]), params["cursor"]
    most = min(params["limit"] or CELLS, MAX_CELLS)
    keys = (key for key in call.services.keys(module.name) if after is None or key > after)
    page = list(islice(keys, most + 1))
    cells = [await _cell(call, Unit(module.name, key)) for key in page[:most]]
    return succeeded(
        cells=[c for c in cells if c is not None], next_cursor=page[most - 1] if len(page) > most else None
    )


async def _cell(call: EffectCall, unit: Unit) -> dict[str, Any] | None:
    try:
        reading = await call.read_cell(unit)
    except DemiurgeError as error:
        nothing = {"unit": str(unit), "unit_seq": 0, "state_hash": None}
        return {"key": unit.key, "reading": nothing, "problem": error.code}
    if reading.cell is None:
        return None
    return {"key": unit.key, "reading": reading.to_node(), "problem": None}


async def _schemas(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Stores the types whose names begin with `prefix` as a JSON blob `{name: type}`."""
    manifest, prefix = call.services.manifest, params["prefix"] or ""
    found = {name: manifest.schemas.get(name) for name in manifest.schemas.names if name.startswith(prefix)}
    ref = await call.put_blob(canonical_json.encode(found))
    return succeeded(schemas_ref=ref, count=len(found), manifest_ref=manifest.ref)


async def _tools(call: EffectCall, now_ns: int) -> Result:
    """Stores the specs of the deferred tools of this turn's toolset; of a call outside a chat, of all tools that the
    caller may call. Both as far as the tool policy allows them now."""
    asking = call.services.state(call.unit)
    turn = asking.cell.get("turn") if asking.cell is not None else None
    toolset = call.manifest.toolset
    names: Iterable[str] = toolset
    if isinstance(turn, Mapping):
        ref = turn.get("tools_ref") or (asking.cell or {}).get("tools_ref")
        names = read_toolset(call.get_blob(Ref(ref))).deferred if ref is not None else ()
    found = [
        spec.to_json()
        for name in names
        if (spec := toolset.get(name)) is not None
        and not spec.quarantined
        and spec.mcp_item is None
        and decide_tool(call.manifest, name, caller=call.caller, now_ns=now_ns).verdict != "deny"
    ]
    reading = {"unit": str(call.unit), "unit_seq": asking.seq, "state_hash": None}
    tools_ref = await call.put_blob(canonical_json.encode(found))
    return succeeded(tools_ref=tools_ref, in_turn=isinstance(turn, Mapping), reading=reading)


async def _one_module(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Stores a module's declaration as a JSON blob; `source` is the address that its code is pinned to."""
    manifest = call.services.manifest
    module = _module(manifest, params["name"])
    view = {
        "name": module.name,
        "state": module.state,
        "event": module.event,
        "key_schema": module.key_schema,
        "arms": {tag: schema for schema, tag in module.arms.items()},
        "source": manifest.sources[module.name],
        "is_pinned_source": module.name not in manifest.unchecked_modules(),
    }
    return succeeded(module_ref=await call.put_blob(canonical_json.encode(view)), manifest_ref=manifest.ref)


_ANSWERS: Mapping[str, Callable[[EffectCall, Mapping[str, Any]], Awaitable[Result]]] = {
    "introspect.manifest": _manifest,
    "introspect.state": _state,
    "introspect.journal_head": _journal_head,
    "introspect.list_cells": _list_cells,
    "introspect.schemas": _schemas,
    "introspect.module": _one_module,
}


_NAMED = {
    "schemas": "defschema",
    "modules": "defmodule",
    "plans": "defplan",
    "caps": "defcap",
    "policies": "defpolicy",
    "secrets": "defsecret",
    "toolsets": "deftoolset",
}
"""Parts of a manifest that are shown by name alone -> the kind of their definitions."""


def _policy_view(policy: Mapping[str, Any], caller: Caller) -> Mapping[str, Any]:
    """Returns the tool policy as far as `caller` may know it: its lists, and the rules that match this caller, without
    the roles, tenants and actors that they name."""
    if "rules" not in policy:
        return policy
    context = ToolPolicyContext.of(caller)
    rules = [rule.to_json() for rule in ToolPolicy.from_json(policy).rules if rule.matches(context)]
    about_callers = ("roles", "tenants", "actors")
    return {**policy, "rules": [{k: v for k, v in rule.items() if k not in about_callers} for rule in rules]}


def _without_names(policy: Mapping[str, Any], hidden: Container[str]) -> dict[str, Any]:
    """Returns the tool policy without the ids of quarantined tools, which a server has written."""
    return {
        name: [item for item in value if item not in hidden] if name.endswith("_tools") else value
        for name, value in policy.items()
    }


def _manifest_view(node: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
    definitions, root = node["definitions"], node["root"]
    defaults = root.get("defaults", {})
    in_force = [d["rules"] for d in definitions if d["$kind"] == "defpolicy" and d["name"] == defaults.get("policy")]
    effects = [d["kind"] for d in (*node["system"], *definitions) if d["$kind"] == "defeffect"]
    hidden = {spec["name"] for spec in node["toolset"] if spec.get("quarantined") or "mcp_item" in spec}
    return {
        **{name: sorted(d["name"] for d in definitions if d["$kind"] == kind) for name, kind in _NAMED.items()},
        "effects": sorted(effects),
        "grants": defaults.get("cap_grants", []),
        "policy": in_force[0] if in_force else [],
        "routing": root.get("routing", {}).get("events", []),
        "settings": root.get("settings", {}),
        "triggers": root.get("triggers", []),
        "tools": [spec["name"] for spec in node["toolset"] if spec["name"] not in hidden],
        "tool_policy": _without_names(_policy_view(node["tool_policy"], caller), hidden),
        **({ALLOWED_HOSTS: node[ALLOWED_HOSTS]} if ALLOWED_HOSTS in node else {}),
    }


class WorldIntrospection:
    """The `Introspection` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def manifest(self) -> Mapping[str, Any]:
        """Returns the manifest: definitions by name, and in full what may happen in the world and who decides."""
        found = await ask(self._call, "introspect.manifest")
        node = cbor.decode(self._call.get_blob(Ref(found["manifest_ref"])))
        return {**_manifest_view(node, self._call.caller), "ref": found["manifest_ref"]}

    async def state(self, module: str | None, key: str | None) -> Mapping[str, Any]:
        unit = self._call.unit
        wanted = module or unit.module
        which = key if key is not None else (unit.key if wanted == unit.module else "")
        found = await ask(self._call, "introspect.state", module=wanted, key=which)
        state = canonical_json.parse(self._call.get_blob(found["state_ref"])) if found["state_ref"] else None
        if any(spec.untrusted for spec in self._call.manifest.toolset.values()):
            self._call.untrusted.add("introspect__state")  # it may repeat what another chat was told
        return {"module": wanted, "key": which, "state": state, **found["reading"]}

    async def schemas(self, prefix: str | None) -> Mapping[str, Any]:
        found = await ask(self._call, "introspect.schemas", prefix=prefix)
        types = canonical_json.parse_object(self._call.get_blob(Ref(found["schemas_ref"])))
        names = sorted(types)
        return {"names": names} if prefix is None else {"names": names, "types": types}

    async def tools(self) -> FindableTools:
        found = await ask(self._call, "introspect.tools")
        specs = canonical_json.parse(self._call.get_blob(Ref(found["tools_ref"])))
        return FindableTools(specs, found["in_turn"])

    async def module(self, name: str) -> Mapping[str, Any]:
        found = await ask(self._call, "introspect.module", name=name)
        return canonical_json.parse_object(self._call.get_blob(Ref(found["module_ref"])))
