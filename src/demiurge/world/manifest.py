"""A manifest: all that a world may do, as hashed data.

Schemas, modules, plans, effects, caps and grants, policy, tool policy, toolset, secrets, routing, triggers and
settings are one canonical node. Its address is in the stamp of every ingress, so each record says under which rules it
was made (seed 001, architecture.md 3). `sys/*` definitions are built in and can't be redefined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.values.schema import Schemas
from demiurge.world.plan import Plan, parse_plan
from demiurge.world.reducer import Reducer

__all__ = ["EffectType", "Grant", "Manifest", "ModuleType", "Route", "Rule", "Secret", "Trigger"]


@dataclass(frozen=True, slots=True)
class ModuleType:
    """A reducer's declaration: its state and event schemas, and the schema of its key (None: one cell, key "")."""

    name: str
    state: str
    event: str
    key_schema: str | None
    arms: Mapping[str, str]
    """Schema of each arm of the event variant -> the arm's tag, so that an arm's own schema is routed as well."""


@dataclass(frozen=True, slots=True)
class EffectType:
    kind: str
    params: str
    receipt: str
    cap_type: str
    origins: frozenset[str]
    changes: bool
    """Whether it changes what others see; a `read_only` tool may not ask for it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A cap with its parameters. `expires_ns` is wall time; None never expires."""

    name: str
    cap_type: str
    params: Mapping[str, Any]
    expires_ns: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the world's policy. An absent field of `when` matches anything; the first match decides."""

    when: Mapping[str, str]
    decision: str


@dataclass(frozen=True, slots=True)
class Route:
    module: str
    key_field: str | None
    tag: str | None
    """Set when the event is an arm of the module's event variant, to be wrapped before delivery."""


@dataclass(frozen=True, slots=True)
class Trigger:
    plan: str
    correlate_by: str | None


@dataclass(frozen=True, slots=True)
class Secret:
    """`alias@version` bound to places where its value may be found, tried in order: `env:NAME`, `file:PATH`,
    `vault:NAME`. Only effects under `allowed_caps` (grants by name), asked for by `allowed_plans`, get it; None: any,
    empty: none."""

    alias: str
    version: int
    bindings: tuple[str, ...]
    allowed_caps: frozenset[str] | None = None
    allowed_plans: frozenset[str] | None = None

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> Secret:
        """From a `defsecret`. Raises InvalidValue."""
        alias, _, version = str(definition["name"]).rpartition("@")
        if not alias or not version.isdecimal():
            raise InvalidValue("a secret's name is alias@version", path=str(definition["name"]))
        bindings = (definition["binding_id"], *definition.get("else_binding_ids", ()))
        for binding in bindings:
            if not _BINDING.fullmatch(binding):
                raise InvalidValue(
                    f"{binding!r} is none of env:NAME, file:/PATH, file:~/PATH, vault:NAME", path=definition["name"]
                )
        allowed = [definition.get(name) for name in ("allowed_caps", "allowed_plans")]
        return cls(alias, int(version), bindings, *(None if names is None else frozenset(names) for names in allowed))

    def __str__(self) -> str:
        return f"{self.alias}@{self.version}"


_BINDING = re.compile(r"env:[^=\0]+|file:~?/[^\0]+|vault:[^\0]+")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A resolved manifest. Make one with `build` (from definitions) or `load` (from a stored node)."""

    ref: Ref
    node: bytes
    schemas: Schemas
    modules: Mapping[str, ModuleType]
    plans: Mapping[str, Plan]
    effects: Mapping[str, EffectType]
    grants: Mapping[str, Grant]
    rules: tuple[Rule, ...] | None
    tool_policy: ToolPolicy
    toolset: Mapping[str, ToolSpec]
    secrets: Mapping[tuple[str, int], Secret]
    routes: Mapping[str, Route]
    triggers: Mapping[str, tuple[Trigger, ...]]
    settings: Mapping[str, Any]
    reducers: Mapping[str, Reducer] = field(repr=False)
    sources: Mapping[str, Ref] = field(repr=False)
    """Address of each module's source as pinned by this manifest."""

    @classmethod
    def build(
        cls,
        definitions: Iterable[Mapping[str, Any]],
        root: Mapping[str, Any],
        reducers: Mapping[str, Reducer],
        *,
        tool_policy: ToolPolicy,
        toolset: Sequence[ToolSpec] = (),
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Manifest:
        """Make a manifest from an app's definitions and its root (`defaults`, `routing`, `triggers`, `settings`).

        Raises InvalidValue with every unresolved reference at once.
        """
        node = {
            "root": dict(root) | {"settings": {**root.get("settings", {}), **settings}},
            "system": [dict(definition) for definition in system_definitions()],
            "definitions": [dict(definition) for definition in definitions],
            "sources": {name: ref_of(reducer.source) for name, reducer in sorted(reducers.items())},
            "tool_policy": tool_policy.to_json(),
            "toolset": [spec.to_json() for spec in toolset],
        }
        return cls.load(cbor.encode(node), reducers)

    @classmethod
    def load(cls, node: bytes, reducers: Mapping[str, Reducer]) -> Manifest:
        """Resolve a stored manifest node; `reducers` is the code at hand, by module name."""
        return _Loader(cbor.decode(node), node, reducers).manifest()

    def route(self, schema: str) -> Route | None:
        return self.routes.get(schema)

    def unchecked_modules(self) -> list[str]:
        """Modules whose source is not the one that this manifest pins: their history can't be checked by it."""
        return sorted(
            name
            for name, ref in self.sources.items()
            if name not in self.reducers or ref_of(self.reducers[name].source) != ref
        )


RULE_FIELDS = frozenset({"effect_kind", "cap_name", "cap_type", "origin_kind", "origin_name"})
"""What a rule of the policy may ask about; a field that nothing fills would make a denial match nothing."""


@cache
def system_definitions() -> tuple[Mapping[str, Any], ...]:
    """The `sys/*` definitions that every new manifest is given; one that is stored keeps its own."""
    text = resources.files("demiurge.world").joinpath("air/sys.json").read_text("utf-8")
    return tuple(json.loads(text))


class _Loader:
    """Resolves references, gathering problems, so that an author sees all of them at once."""

    def __init__(self, node: Mapping[str, Any], data: bytes, reducers: Mapping[str, Reducer]) -> None:
        self.node, self.data, self.reducers = node, data, reducers
        self.root: Mapping[str, Any] = node["root"]
        self.problems: list[str] = []
        self.by_kind: dict[str, dict[str, Mapping[str, Any]]] = {}
        for definition in node["system"]:
            self.add(definition)
        for definition in node["definitions"]:
            if str(definition.get("name", "")).startswith("sys/"):
                self.problems.append(f"{definition['name']}: sys/* is reserved for built-in definitions")
            else:
                self.add(definition)

    def add(self, definition: Mapping[str, Any]) -> None:
        named = self.by_kind.setdefault(str(definition.get("$kind")), {})
        name = str(definition.get("name"))
        if name in named:
            self.problems.append(f"{name}: defined twice")
        named[name] = definition

    def manifest(self) -> Manifest:
        schemas = Schemas({name: d["type"] for name, d in self.by_kind["defschema"].items()})
        kinds = [d["kind"] for d in self.by_kind["defeffect"].values()]
        self.problems += [f"the effect {kind} is defined twice" for kind in sorted(set(kinds)) if kinds.count(kind) > 1]
        effects = {
            d["kind"]: EffectType(
                d["kind"],
                d["params_schema"],
                d["receipt_schema"],
                d["cap_type"],
                frozenset({"plan", "tool"} if d["origin_scope"] == "both" else {d["origin_scope"]}),
                d.get("changes", False),
            )
            for d in self.by_kind["defeffect"].values()
        }
        modules = {name: self.module(name, d, schemas) for name, d in self.by_kind["defmodule"].items()}
        grants = self.grants(schemas)
        plans = {name: parse_plan(d) for name, d in self.by_kind.get("defplan", {}).items()}
        for plan in plans.values():
            self.problems += plan.problems(effects=effects, grants=grants, schemas=schemas)
        manifest = Manifest(
            ref=ref_of(self.data),
            node=self.data,
            schemas=schemas,
            modules=MappingProxyType(modules),
            plans=MappingProxyType(plans),
            effects=MappingProxyType(effects),
            grants=MappingProxyType(grants),
            rules=self.rules(),
            tool_policy=ToolPolicy.from_json(self.node["tool_policy"]),
            toolset=MappingProxyType({s["name"]: ToolSpec.from_json(s) for s in self.node["toolset"]}),
            secrets=MappingProxyType(self.secrets()),
            routes=MappingProxyType(self.routes(modules)),
            triggers=MappingProxyType(self.triggers(plans, schemas)),
            settings=MappingProxyType(dict(self.root.get("settings", {}))),
            reducers=self.reducers,
            sources=MappingProxyType(dict(self.node["sources"])),
        )
        if self.problems:
            raise InvalidValue("the manifest does not resolve: " + "; ".join(self.problems), code="bad_manifest")
        return manifest

    def module(self, name: str, definition: Mapping[str, Any], schemas: Schemas) -> ModuleType:
        abi = definition["abi"]
        for schema in (abi["state"], abi["event"]):
            if schema not in schemas:
                self.problems.append(f"{name}: there is no schema {schema}")
        if abi["state"] in schemas and "record" not in schemas.get(abi["state"]):
            self.problems.append(f"{name}: the state {abi['state']} is not a record")
        if name not in self.node["sources"]:
            self.problems.append(f"{name}: no code is registered for this module")
        event = schemas.get(abi["event"]) if abi["event"] in schemas else {}
        arms = {arm["ref"]: tag for tag, arm in event.get("variant", {}).items() if "ref" in arm}
        return ModuleType(name, abi["state"], abi["event"], definition.get("key_schema"), arms)

    def grants(self, schemas: Schemas) -> dict[str, Grant]:
        caps = self.by_kind.get("defcap", {})
        grants: dict[str, Grant] = {}
        for grant in self.root.get("defaults", {}).get("cap_grants", ()):
            cap = caps.get(grant["cap"])
            if cap is None:
                self.problems.append(f"grant {grant['name']}: there is no cap {grant['cap']}")
                continue
            params = schemas.validator(cap["schema"]).normalise(grant.get("params", {}))
            grants[grant["name"]] = Grant(grant["name"], cap["cap_type"], params, grant.get("expiry_ns"))
        return grants

    def rules(self) -> tuple[Rule, ...] | None:
        name = self.root.get("defaults", {}).get("policy")
        if name is None:
            return None
        policy = self.by_kind.get("defpolicy", {}).get(name)
        if policy is None:
            self.problems.append(f"defaults: there is no policy {name}")
            return None
        for index, rule in enumerate(policy["rules"]):
            unknown = sorted(set(rule.get("when", {})) - RULE_FIELDS)
            if unknown or rule.get("decision") not in ("allow", "deny"):
                wrong = ", ".join(unknown) if unknown else "its decision"
                self.problems.append(f"{name}: rule {index} can't be read ({wrong})")
        return tuple(Rule(rule.get("when", {}), rule.get("decision", "deny")) for rule in policy["rules"])

    def secrets(self) -> dict[tuple[str, int], Secret]:
        found: dict[tuple[str, int], Secret] = {}
        for definition in self.by_kind.get("defsecret", {}).values():
            try:
                secret = Secret.from_definition(definition)
            except InvalidValue as error:
                self.problems.append(error.message)
            else:
                found[secret.alias, secret.version] = secret
        return found

    def routes(self, modules: Mapping[str, ModuleType]) -> dict[str, Route]:
        routes: dict[str, Route] = {}
        for route in (*self.root.get("routing", {}).get("events", ()), _WORKSPACE_ROUTE):
            module = modules.get(route["module"])
            if module is None or route["event"] not in (module.event, *module.arms):
                self.problems.append(f"routing: {route['event']} is no event of module {route['module']}")
                continue
            if (module.key_schema is None) != (route.get("key_field") is None):
                self.problems.append(f"routing: {route['event']} needs a key_field exactly when its module has keys")
            key_field = route.get("key_field")
            if route["event"] == module.event:
                routes[route["event"]] = Route(module.name, key_field, None)
                for arm, tag in module.arms.items():
                    routes.setdefault(arm, Route(module.name, key_field, tag))
            else:
                routes[route["event"]] = Route(module.name, key_field, module.arms[route["event"]])
        return routes

    def triggers(self, plans: Mapping[str, Plan], schemas: Schemas) -> dict[str, tuple[Trigger, ...]]:
        triggers: dict[str, list[Trigger]] = {}
        for trigger in self.root.get("triggers", ()):
            plan = plans.get(trigger["plan"])
            if plan is None or plan.input != trigger["event"]:
                self.problems.append(f"triggers: {trigger['plan']} is no plan with input {trigger['event']}")
                continue
            field = trigger.get("correlate_by")
            if field is not None and field not in schemas.get(trigger["event"]).get("record", {}):
                self.problems.append(f"triggers: {trigger['event']} has no field {field} to correlate by")
            triggers.setdefault(trigger["event"], []).append(Trigger(plan.name, trigger.get("correlate_by")))
        return {event: tuple(sorted(found, key=lambda t: t.plan)) for event, found in triggers.items()}


_WORKSPACE_ROUTE = {
    "event": "sys/WorkspaceEvent@1",
    "module": "sys/Workspace@1",
    "key_field": "$value.workspace",
}
