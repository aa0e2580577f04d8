"""The check of a new manifest: finds all problems at once.

Forms are checked first, then references between the parts that have a correct form. So one mistake is reported once,
and hides as few others as possible.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import cbor
from demiurge.values.schema import Schemas
from demiurge.values.type_expr import TypeExpr, endless, kind_of, type_problems
from demiurge.world.manifest.cap_types import cap_problems, effect_problems
from demiurge.world.manifest.expressions import NoField, type_at
from demiurge.world.manifest.folder import LISTS, Folder, ManifestPart
from demiurge.world.manifest.known import NO_SOURCE, Known, listed
from demiurge.world.manifest.parts import ORIGINS, origins_of
from demiurge.world.manifest.plans import plan_problems
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import NAME, did_you_mean, form_problems, is_readable
from demiurge.world.manifest.system import (
    ANY_RECEIPT,
    RESERVED,
    SYSTEM_ROUTES,
    receipt_schema,
    system_definitions,
)

__all__ = ["problems", "unproven_triggers"]


def problems(folder: Folder, modules: Container[str] | None = None) -> tuple[Problem, ...]:
    """Returns all problems of a manifest. `modules` are the modules that code is registered for; None skips that
    check."""
    known = Known.of(folder)
    return (*folder.problems, *_forms(folder), *_duplicates(folder), *_references(folder, known, modules))


def unproven_triggers(folder: Folder, of_code: Container[str]) -> tuple[Problem, ...]:
    """Returns the triggers of a sound manifest which fire only if a reducer of its own emits their event. `of_code` are
    events that known code emits."""
    known = Known.of(folder)
    found = ((str(trigger["event"]), place.at("event")) for trigger, place in listed(folder, "triggers"))
    return tuple(
        place.wrong(f"{event} comes only if a reducer emits it: {NO_SOURCE}", f"else route {event} to a module")
        for event, place in found
        if not known.arises(event) and event not in of_code
    )


def _forms(folder: Folder) -> Iterator[Problem]:
    for part in folder.parts:
        yield from form_problems(part.content, part.place)
        try:
            cbor.encode(part.content)
        except InvalidValue as error:
            yield part.place.wrong(f"can't be kept: {error.message}", "correct the text")
        if folder.base is None and part.content["$kind"] == "manifest":
            yield from _needs_base(part)
    if not folder.fragments:
        where = folder.parts[0].place.file if folder.parts else "manifest.json"
        yield Problem(where, "", "no file has the root", 'add {"$kind": "manifest", "defaults": ..., "routing": ...}')


def _needs_base(fragment: ManifestPart) -> Iterator[Problem]:
    if "extends" in fragment.content:
        yield fragment.place.at("extends").wrong("the base is not here", "join it with the folder by `extended`")
    elif "without" in fragment.content:
        yield fragment.place.at("without").wrong("there is nothing to leave out", 'add "extends": "demiurge"')


def _duplicates(folder: Folder) -> Iterator[Problem]:
    seen: dict[tuple[str, str], ManifestPlace] = {}
    for definition in system_definitions():
        if definition["$kind"] == "defeffect":
            seen["effect", definition["kind"]] = ManifestPlace("the built-in definitions")
    for content, place in folder.definitions:
        name = content.get("name")
        if isinstance(name, str) and name.startswith(RESERVED):
            yield place.at("name").wrong(f"{name}: {RESERVED}* is reserved for built-in definitions", "rename it")
        elif isinstance(name, str):
            yield from _second(seen, content["$kind"], name, place, f"{name} is defined twice")
        if content["$kind"] == "defeffect" and isinstance(content.get("kind"), str):
            kind = content["kind"]
            yield from _second(seen, "effect", kind, place.at("kind"), f"the effect {kind} is defined twice")
    for grant, place in listed(folder, "defaults", "cap_grants"):
        name = str(_field(grant, "name"))
        yield from _second(seen, "grant", name, place, f"the grant {name} is given twice")
    for content, place in folder.fragments:
        for path in _single(content):
            yield from _second(seen, "root", ".".join(path), place.at(*path), f"{'.'.join(path)} is set twice")


def _single(fragment: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the paths that a fragment sets and that only one fragment may set."""
    for section in ("settings", "defaults", "routing"):
        found = fragment.get(section)
        for name in found if isinstance(found, Mapping) else ():
            if (section, name) not in LISTS:
                yield section, str(name)
    for section in ("tool_policy", "extends"):
        if section in fragment:
            yield (section,)


def _second(
    seen: dict[tuple[str, str], ManifestPlace], kind: str, name: str, place: ManifestPlace, wrong: str
) -> Iterator[Problem]:
    first = seen.setdefault((kind, name), place)
    if first is not place:
        yield place.wrong(wrong, f"keep one (the other: {' '.join(first).strip()})")


def _references(folder: Folder, known: Known, modules: Container[str] | None) -> Iterator[Problem]:
    yield from _schemas(folder, known)
    for part in folder.definitions:
        check = _CHECKS.get(part.content["$kind"])
        if check is not None and (part.content["$kind"] in LENIENT or is_readable(part.content, part.place)):
            yield from check(part, known)
            if modules is not None and part.content["$kind"] == "defmodule" and part.content["name"] not in modules:
                fix = "name the Python that has it with --tools, or with reducers="
                yield part.place.wrong("no code is registered for this module", fix)
    yield from _defaults(folder, known)
    yield from _routing(folder, known)
    yield from _triggers(folder, known)


# -- definitions ------------------------------------------------------------------------------------------------------


def _schemas(folder: Folder, known: Known) -> Iterator[Problem]:
    named = {name: d.get("type") for name, d in known.names("defschema").items()}
    wrong: set[str] = set()
    for content, place in folder.definitions:
        if content["$kind"] in ("defschema", "defcap"):
            field = "type" if content["$kind"] == "defschema" else "schema"
            for line in type_problems(content.get(field), named, field):
                path, _, sentence = line.partition(": ")
                wrong.add(str(content.get("name")) if field == "type" else "")
                yield ManifestPlace(place.file, f"{place.path}.{path}".removeprefix(".")).wrong(
                    sentence, "correct the type"
                )
    places = {str(d.content.get("name")): d.place for d in folder.definitions if d.content["$kind"] == "defschema"}
    sound = {name: d for name, d in named.items() if d is not None and NAME.fullmatch(name) and name not in wrong}
    for name in endless(sound):
        what = "no finite value has this type, it needs itself"
        yield places.get(name, ManifestPlace(name)).wrong(what, "make a part of it an option or a list")


def _module(part: ManifestPart, known: Known) -> Iterator[Problem]:
    content, place = part
    abi, at = content["abi"], place.at("abi")
    yield from known.missing("schema", content.get("key_schema"), place.at("key_schema"))
    for name in ("state", "event"):
        yield from known.missing("schema", abi[name], at.at(name))
    state, event = known.schemas.get(abi["state"]), known.schemas.get(abi["event"])
    if state is not None and "record" not in state:
        yield at.at("state").wrong(f"{abi['state']} is no record", "make the state a record")
    yield from _requests(part, known)
    if event is None:
        return
    if "variant" not in event:
        if "record" not in event:
            yield at.at("event").wrong(
                f"{abi['event']} is neither a record nor a variant", "make the event one of these"
            )
        return
    seen: dict[str, str] = {}
    for tag, arm in event["variant"].items():
        if "ref" not in arm:
            what = f"the arm {tag} of {abi['event']} is no schema of its own"
            yield at.at("event").wrong(what, 'define one, and write {"ref": NAME}')
        elif seen.setdefault(arm["ref"], tag) != tag:
            what = f"the arms {seen[arm['ref']]} and {tag} of {abi['event']} are of one schema"
            yield at.at("event").wrong(what, "give each arm its own")


def _requests(part: ManifestPart, known: Known) -> Iterator[Problem]:
    """Checks the effects that a reducer may ask for: each is open to reducers, under a grant, with an arm that brings
    its receipt back."""
    content, place = part
    event, seen = content["abi"]["event"], dict[tuple[str, str], ManifestPlace]()
    arms = _arms(known, event)
    for index, request in enumerate(content.get("effects", ())):
        kind, cap, at = request["kind"], request["cap"], place.at("effects", index)
        yield from _second(seen, kind, cap, at, f"{kind} is declared twice under the grant {cap}")
        effect = known.effects.get(kind)
        if effect is None:
            fix = did_you_mean(kind, known.effects, "define it")
            yield at.at("kind").wrong(f"there is no effect {kind}", fix)
        elif (origins := origins_of(effect.get("origin_scope"))) and "reducer" not in origins:
            yield at.at("kind").wrong(f"reducers may not ask for {kind}", "let a plan ask for it")
        if effect is not None and cap in known.grants and known.grants[cap] not in (None, effect.get("cap_type")):
            what = f"the grant {cap} is of type {known.grants[cap]}, and {kind} needs {effect.get('cap_type')}"
            yield at.at("cap").wrong(what, f"name a grant of type {effect.get('cap_type')}")
        elif cap not in known.grants:
            fix = did_you_mean(cap, known.grants, "add it to defaults.cap_grants")
            yield at.at("cap").wrong(f"there is no grant {cap}", fix)
        typed = receipt_schema(kind)
        if event in known.schemas and typed not in arms and ANY_RECEIPT not in arms:
            fix = " or ".join(f'"{name[4:-2]}": {{"ref": "{name}"}}' for name in dict.fromkeys((typed, ANY_RECEIPT)))
            yield at.wrong(f"no arm of {event} brings back what comes of {kind}", f"add the arm {fix}")


def _effect(part: ManifestPart, known: Known) -> Iterator[Problem]:
    content, place = part
    for name in ("params_schema", "receipt_schema"):
        yield from known.missing("schema", content[name], place.at(name))
    types = frozenset(str(cap.get("cap_type")) for cap in known.names("defcap").values())
    if content["cap_type"] not in types:
        what = f"no cap is of type {content['cap_type']}"
        yield place.at("cap_type").wrong(what, did_you_mean(content["cap_type"], types, "define one with defcap"))
    yield from effect_problems(part, known)


def _policy(part: ManifestPart, known: Known) -> Iterator[Problem]:
    """Checks that the names in rules exist. A rule that names something unknown matches nothing: a denial that denies
    nothing."""
    content, place = part
    cap_types = frozenset(str(cap.get("cap_type")) for cap in known.names("defcap").values())
    words: Mapping[str, Mapping[str, Any] | frozenset[str]] = {
        "effect_kind": known.effects,
        "cap_name": known.grants,
        "cap_type": cap_types,
        "origin_kind": ORIGINS,
    }
    rules = content.get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        when, at = _field(rule, "when"), place.at("rules", index, "when")
        if not isinstance(when, Mapping):
            continue
        for field, value in when.items():
            if field in words and isinstance(value, str) and value and value not in words[field]:
                fix = did_you_mean(value, words[field], "correct it, or leave the rule out")
                yield at.at(field).wrong(f"there is no {value}, so the rule matches nothing", fix)
        if when.get("origin_kind") == "plan":
            yield from known.missing("plan", when.get("origin_name"), at.at("origin_name"))
        if when.get("origin_kind") == "reducer":
            yield from known.missing("module", when.get("origin_name"), at.at("origin_name"))


def _secret(part: ManifestPart, known: Known) -> Iterator[Problem]:
    content, place = part
    for binding in (content["binding_id"], *content.get("else_binding_ids", ())):
        if content["name"].endswith("@*") and not binding.startswith("vault:"):
            yield place.at("name").wrong(f"{binding} has no versions", "bind alias@* to vault:NAME alone")
    for index, name in enumerate(content.get("allowed_caps") or ()):
        if name not in known.grants:
            fix = did_you_mean(name, known.grants, "add it to defaults.cap_grants")
            yield place.at("allowed_caps", index).wrong(f"there is no grant {name}", fix)
    for index, name in enumerate(content.get("allowed_plans") or ()):
        yield from known.missing("plan", name, place.at("allowed_plans", index))


_CHECKS = {
    "defmodule": _module,
    "defplan": lambda part, known: plan_problems(part.content, part.place, known),
    "defeffect": _effect,
    "defcap": cap_problems,
    "defpolicy": _policy,
    "defsecret": _secret,
}

LENIENT = frozenset({"defplan", "defpolicy"})
"""Kinds whose checks skip parts of a wrong form, so that one bad step or rule hides none of the others."""


# -- the root ---------------------------------------------------------------------------------------------------------


def _defaults(folder: Folder, known: Known) -> Iterator[Problem]:
    for content, place in folder.fragments:
        defaults = content.get("defaults")
        yield from known.missing("policy", _field(defaults, "policy", None), place.at("defaults", "policy"))
    schemas = Schemas(known.schemas)
    for grant, place in listed(folder, "defaults", "cap_grants"):
        if isinstance(grant, Mapping):
            yield from known.missing("cap", grant.get("cap"), place.at("cap"))
            yield from _grant(grant, place, known, schemas)
    for name, place in listed(folder, "toolsets"):
        yield from known.missing("toolset", name, place)


def _grant(grant: Mapping[str, Any], place: ManifestPlace, known: Known, schemas: Schemas) -> Iterator[Problem]:
    schema = known.names("defcap").get(str(grant.get("cap")), {}).get("schema")
    if not isinstance(schema, Mapping):
        return
    try:
        schemas.validator(schema).normalise(grant.get("params", {}))
    except InvalidValue as error:
        if error.code == "invalid_value":  # else the cap's own schema is wrong, which is reported there
            sentence = str(error).removeprefix(f"{error.path}: ") if error.path else str(error)
            where = ManifestPlace(place.file, f"{place.at('params').path}{'.' if error.path else ''}{error.path}")
            yield where.wrong(sentence, f"see the parameters of {grant['cap']}")


def _routing(folder: Folder, known: Known) -> Iterator[Problem]:
    routed = {route["event"] for route in SYSTEM_ROUTES}
    by_arm: dict[str, str] = {}
    routes = [(route, place) for route, place in listed(folder, "routing", "events") if isinstance(route, Mapping)]
    for route, place in routes:
        event, name = str(route.get("event")), str(route.get("module"))
        if event in routed:
            yield place.wrong(f"{event} has two routes", "keep one: an event goes to one module")
        routed.add(event)
        module = known.names("defmodule").get(name)
        if module is None:
            yield from known.missing("module", route.get("module"), place.at("module"))
            continue
        yield from _route(route, module, place, known)
    explicit = {str(route.get("event")) for route, _ in routes}
    for route, place in routes:
        for arm in _arms(known, str(route.get("event"))):
            if (
                arm not in explicit
                and not arm.startswith(RESERVED)
                and by_arm.setdefault(arm, str(route)) != str(route)
            ):
                yield place.wrong(f"{arm} is an arm of two routed events", f"add a route of its own for {arm}")


def _arms(known: Known, event: str) -> dict[str, str]:
    """Returns schema -> tag of the arms of an event."""
    variant = known.schemas.get(event, {}).get("variant", {})
    return {arm["ref"]: tag for tag, arm in variant.items() if "ref" in arm}


def _route(
    route: Mapping[str, Any], module: Mapping[str, Any], place: ManifestPlace, known: Known
) -> Iterator[Problem]:
    event, own = str(route.get("event")), str(_field(module.get("abi"), "event"))
    arms = _arms(known, own)
    if own not in known.schemas:
        return
    if event != own and event not in arms:
        fix = did_you_mean(event, frozenset({own, *arms}), f"route {own}")
        yield place.at("event").wrong(f"{event} is no event of module {module.get('name')}", fix)
        return
    key_field, key_schema = route.get("key_field"), module.get("key_schema")
    if (key_schema is None) != (key_field is None):
        fix = "add key_field" if key_field is None else "leave key_field out"
        yield place.wrong("a route has a key_field exactly when its module has keys", fix)
        return
    if key_field is None:
        return
    chosen = [event] if event in arms else [arm for arm in arms if not arm.startswith(RESERVED)]
    for arm in chosen or [own]:
        path = str(key_field).split(".")
        if arms and path[0] != "$value":
            fix = f"write $value.{key_field}"
            yield place.at("key_field").wrong("the event is a variant, whose fields are in $value", fix)
            return
        yield from _key(known, arm, path[1:] if arms else path, str(key_schema), place.at("key_field"))


def _key(known: Known, schema: str, path: list[str], key_schema: str, place: ManifestPlace) -> Iterator[Problem]:
    try:
        found = type_at({"ref": schema}, tuple(path), known.schemas)
    except NoField as error:
        yield place.wrong(f"{schema} has no field {error}", "name a field that every event of the module has")
        return
    wanted = known.schemas.get(key_schema)
    if found is not None and wanted is not None:
        kind, want = _kind(found, known), _kind(wanted, known)
        if kind != want:
            yield place.wrong(f"{schema} has {kind} there, and a key is {want}", "name a field of the key's type")


def _kind(expr: TypeExpr, known: Known) -> str:
    kind, body = kind_of(expr)
    return _kind(known.schemas[body], known) if kind == "ref" and body in known.schemas else kind


def _triggers(folder: Folder, known: Known) -> Iterator[Problem]:
    seen: dict[tuple[str, str], ManifestPlace] = {}
    for trigger, place in listed(folder, "triggers"):
        if not isinstance(trigger, Mapping):
            continue
        event, name = str(trigger.get("event")), str(trigger.get("plan"))
        yield from known.missing("schema", trigger.get("event"), place.at("event"))
        yield from known.missing("plan", trigger.get("plan"), place.at("plan"))
        yield from _second(seen, event, name, place, f"{event} triggers {name} twice")
        yield from known.never_comes(event, place.at("event"))
        plan = known.names("defplan").get(name)
        if plan is not None and plan.get("input") != event:
            fix = f"trigger it by {plan.get('input')}"
            yield place.at("plan").wrong(f"{name} is no plan with input {event}", fix)
        field = trigger.get("correlate_by")
        if isinstance(field, str) and event in known.schemas:
            try:
                type_at({"ref": event}, tuple(field.split(".")), known.schemas)
            except NoField as error:
                what = f"{event} has no field {error} to correlate by"
                yield place.at("correlate_by").wrong(what, "name a field of the event")


def _field(content: Any, name: str, otherwise: Any = "") -> Any:
    return content.get(name, otherwise) if isinstance(content, Mapping) else otherwise
