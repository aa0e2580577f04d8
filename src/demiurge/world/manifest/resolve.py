"""Resolves a manifest's node into its parts. Nothing is checked here: a stored manifest was checked when it was new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values.refs import Ref
from demiurge.values.schema import Schemas
from demiurge.values.type_expr import TypeExpr
from demiurge.world.manifest.parts import (
    ALLOWED_HOSTS,
    OBSERVE,
    DeclaredSecret,
    EffectType,
    Grant,
    ModuleType,
    Route,
    Rule,
    Trigger,
    hosts_grant,
    origins_of,
    with_hosts_rule,
)
from demiurge.world.manifest.system import SYSTEM_ROUTES
from demiurge.world.plan import WorldPlan, parse_plan

__all__ = ["Resolved", "resolve"]

Definition = Mapping[str, Any]


class Resolved(NamedTuple):
    """The parts of a `Manifest`, by the names of its fields."""

    schemas: Schemas
    modules: Mapping[str, ModuleType]
    plans: Mapping[str, WorldPlan]
    effects: Mapping[str, EffectType]
    grants: Mapping[str, Grant]
    rules: tuple[Rule, ...] | None
    tool_policy: ToolPolicy
    toolset: Mapping[str, ToolSpec]
    secrets: Mapping[tuple[str, int | None], DeclaredSecret]
    routes: Mapping[str, Route]
    triggers: Mapping[str, tuple[Trigger, ...]]
    settings: Mapping[str, Any]
    observe_until_ns: int | None
    sources: Mapping[str, Ref]


def resolve(node: Mapping[str, Any]) -> Resolved:
    """Returns the parts of a node. Raises InvalidValue (`bad_manifest`) if the node is not a manifest."""
    try:
        return _resolve(node)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue(f"the manifest can't be read: {type(error).__name__}", code="bad_manifest") from error


def _resolve(node: Mapping[str, Any]) -> Resolved:
    root = node["root"]
    definitions = [*node["system"], *node["definitions"]]
    schemas = Schemas({d["name"]: d["type"] for d in _of(definitions, "defschema")})
    modules = {d["name"]: _module(d, schemas) for d in _of(definitions, "defmodule")}
    secrets = [DeclaredSecret.from_definition(d) for d in _of(definitions, "defsecret")]
    grants, rules = _grants(root, definitions, schemas), _rules(root, definitions)
    if hosts := node.get(ALLOWED_HOSTS):
        grants[ALLOWED_HOSTS], rules = hosts_grant(hosts), with_hosts_rule(rules or ())
    return Resolved(
        schemas=schemas,
        modules=MappingProxyType(modules),
        plans=MappingProxyType({d["name"]: parse_plan(d) for d in _of(definitions, "defplan")}),
        effects=MappingProxyType({d["kind"]: _effect(d) for d in _of(definitions, "defeffect")}),
        grants=MappingProxyType(grants),
        rules=rules,
        tool_policy=ToolPolicy.from_json(node["tool_policy"]),
        toolset=MappingProxyType({spec["name"]: ToolSpec.from_json(spec) for spec in node["toolset"]}),
        secrets=MappingProxyType({(secret.alias, secret.version): secret for secret in secrets}),
        routes=MappingProxyType(_routes(root, modules)),
        triggers=MappingProxyType(_triggers(root)),
        settings=MappingProxyType(dict(root.get("settings", {}))),
        observe_until_ns=int(node[OBSERVE]) if OBSERVE in node else None,
        sources=MappingProxyType(dict(node["sources"])),
    )


def _of(definitions: Iterable[Definition], kind: str) -> list[Definition]:
    return [definition for definition in definitions if definition["$kind"] == kind]


def _module(definition: Definition, schemas: Schemas) -> ModuleType:
    abi = definition["abi"]
    event: TypeExpr = schemas.get(abi["event"])
    tags = {tag: arm["ref"] for tag, arm in event.get("variant", {}).items() if "ref" in arm}
    arms = {schema: tag for tag, schema in tags.items()}
    effects: dict[str, tuple[str, ...]] = {}
    for declared in definition.get("effects", ()):
        effects[declared["kind"]] = (*effects.get(declared["kind"], ()), declared["cap"])
    key_schema = definition.get("key_schema")
    return ModuleType(definition["name"], abi["state"], abi["event"], key_schema, arms, tags, MappingProxyType(effects))


def _effect(definition: Definition) -> EffectType:
    return EffectType(
        definition["kind"],
        definition["params_schema"],
        definition["receipt_schema"],
        definition["cap_type"],
        origins_of(definition["origin_scope"]),
        definition.get("changes", False),
        definition.get("answers_refusals", False),
    )


def _grants(root: Mapping[str, Any], definitions: Iterable[Definition], schemas: Schemas) -> dict[str, Grant]:
    caps = {d["name"]: d for d in _of(definitions, "defcap")}
    grants: dict[str, Grant] = {}
    for grant in root.get("defaults", {}).get("cap_grants", ()):
        cap = caps[grant["cap"]]
        params = schemas.validator(cap["schema"]).normalise(grant.get("params", {}))
        grants[grant["name"]] = Grant(grant["name"], cap["cap_type"], params, grant.get("expiry_ns"))
    return grants


def _rules(root: Mapping[str, Any], definitions: Iterable[Definition]) -> tuple[Rule, ...] | None:
    name = root.get("defaults", {}).get("policy")
    if name is None:
        return None
    policy = {d["name"]: d for d in _of(definitions, "defpolicy")}[name]
    return tuple(Rule(rule.get("when", {}), rule.get("decision", "deny")) for rule in policy["rules"])


def _routes(root: Mapping[str, Any], modules: Mapping[str, ModuleType]) -> dict[str, Route]:
    """Returns the routes by schema. A route of a module's event serves its arms as well, unless an arm has a route of
    its own."""
    routes: dict[str, Route] = {}
    built_in = (route for route in SYSTEM_ROUTES if route["module"] in modules)
    for route in (*root.get("routing", {}).get("events", ()), *built_in):
        module, key_field = modules[route["module"]], route.get("key_field")
        if route["event"] == module.event:
            routes[route["event"]] = Route(module.name, key_field, None)
            for arm, tag in module.arms.items():
                routes.setdefault(arm, Route(module.name, key_field, tag))
        else:
            routes[route["event"]] = Route(module.name, key_field, module.arms[route["event"]])
    return routes


def _triggers(root: Mapping[str, Any]) -> dict[str, tuple[Trigger, ...]]:
    """Returns the triggers by schema, in the order of the plans' names."""
    triggers: dict[str, list[Trigger]] = {}
    for trigger in root.get("triggers", ()):
        found = triggers.setdefault(trigger["event"], [])
        found.append(Trigger(trigger["plan"], trigger.get("correlate_by")))
    return {event: tuple(sorted(found, key=lambda t: t.plan)) for event, found in triggers.items()}
