"""An extension: a manifest folder that names a base, such as the shipped app, and holds only what differs from it.

`extended` joins the two. Each part keeps its place, so a problem of the joined manifest names the file of the extension
or that of the base.

| part | rule |
|---|---|
| definitions | a new one is added; a plan, a secret or a toolset replaces the base's of that name; nothing else may |
| policy | the rules of the extension come before those of the base; one that allows names the kind of effect |
| grants | a grant replaces the base's of that name, or is added |
| routing, triggers | are added; an equal one is a problem |
| settings | each replaces the base's |
| tool policy, toolsets | replace the base's |
| `without` | names the grants and triggers of the base that are left out |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from demiurge.world.manifest.folder import Base, Folder, ManifestPart
from demiurge.world.manifest.known import listed
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import did_you_mean

__all__ = ["Bases", "extended"]

Bases = Mapping[str, Callable[[], Folder]]
"""The manifests that can be extended: name -> a function that returns the folder."""

REPLACEABLE = frozenset({"defplan", "defsecret", "deftoolset"})
"""Kinds of definitions of the base that an extension may replace. The base's code and recorded history rely on the
others."""


def extended(folder: Folder, bases: Bases) -> Folder:
    """Returns the folder joined with the base that it extends; a folder that extends nothing as it is."""
    named = [part for part in folder.fragments if "extends" in part.content]
    if not named:
        return folder
    name, place = named[0].content["extends"], named[0].place.at("extends")
    if not isinstance(name, str) or name not in bases:
        unknown = place.wrong(f"there is nothing named {name} to extend", did_you_mean(name, bases, "leave it out"))
        return Folder((ManifestPart({"$kind": "manifest"}, place),), (*folder.problems, unknown))
    base = bases[name]()
    before = next((p for part in base.fragments if isinstance(p := _defaults(part).get("policy"), str)), None)
    own = next((p for part in folder.fragments if isinstance(p := _defaults(part).get("policy"), str)), None)
    kept = [_of_base(part, name, folder) for part in base.parts if not _is_replaced(part, folder)]
    return Folder(
        (*kept, *(part for part in folder.parts if not _is_refused(part, base))),
        (*folder.problems, *_problems(folder, name, base, own)),
        Base(name, own if own != before else None, before, frozenset(_key(part)[1] for part in base.definitions)),
    )


def _key(part: ManifestPart) -> tuple[str, str]:
    return part.content["$kind"], str(part.content.get("name"))


def _defaults(fragment: ManifestPart) -> Mapping[str, Any]:
    found = fragment.content.get("defaults")
    return found if isinstance(found, Mapping) else {}


def _is_replaced(part: ManifestPart, folder: Folder) -> bool:
    """Returns whether the folder has another definition in place of this one of the base."""
    return part.content["$kind"] in REPLACEABLE and _key(part) in set(map(_key, folder.definitions))


def _is_refused(part: ManifestPart, base: Folder) -> bool:
    """Returns whether the base has a definition of this name that stays."""
    kind = part.content["$kind"]
    return kind != "manifest" and kind not in REPLACEABLE and _key(part) in set(map(_key, base.definitions))


def _problems(folder: Folder, name: str, base: Folder, policy: str | None) -> Iterator[Problem]:
    theirs = {_key(part): part.content for part in base.definitions}
    for part in folder.definitions:
        kind, what = _key(part)
        if _is_refused(part, base):
            fix = "leave it out" if theirs[kind, what] == part.content else "give yours a name of its own"
            yield part.place.at("name").wrong(f"{what} is a definition of {name}, which stays", fix)
        elif kind == "defpolicy":
            yield from _policy_problems(part, name, policy)
    arms = {arm: event for route, _ in listed(base, "routing", "events") for arm, event in _arms(route, theirs)}
    for route, place in listed(folder, "routing", "events"):
        if isinstance(route, Mapping) and (event := arms.get(str(route.get("event")))):
            what = f"{route['event']} is an arm of {event}, which {name} routes"
            yield place.at("event").wrong(what, "define an event of your own")
    grants = [str(grant.get("name")) for grant, _ in listed(base, "defaults", "cap_grants")]
    for grant, place in listed(folder, "without", "cap_grants"):
        if isinstance(grant, str) and grant not in grants:
            fix = did_you_mean(grant, frozenset(grants), "leave it out of `without`")
            yield place.wrong(f"{name} has no grant {grant}", fix)
    triggers = [trigger for trigger, _ in listed(base, "triggers")]
    for wanted, place in listed(folder, "without", "triggers"):
        if isinstance(wanted, Mapping) and not any(_is_trigger(trigger, wanted) for trigger in triggers):
            what = f"{name} has no trigger of {wanted.get('plan')} by {wanted.get('event')}"
            yield place.wrong(what, "leave it out of `without`")


def _arms(route: Mapping[str, Any], definitions: Mapping[tuple[str, str], Any]) -> Iterator[tuple[str, str]]:
    """Yields `(arm, event)` for each arm of the event that a route of the base names."""
    event = str(route["event"])
    variant = definitions.get(("defschema", event), {}).get("type", {}).get("variant", {})
    return ((str(arm["ref"]), event) for arm in variant.values() if "ref" in arm)


def _policy_problems(part: ManifestPart, name: str, in_force: str | None) -> Iterator[Problem]:
    if part.content.get("name") != in_force:
        yield part.place.wrong("this policy is not in force", "name it in defaults.policy")
    rules = part.content.get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        when = rule.get("when", {}) if isinstance(rule, Mapping) and rule.get("decision") == "allow" else None
        if isinstance(when, Mapping) and "effect_kind" not in when:
            what = f"allows effects of every kind, before the rules of {name}"
            yield part.place.at("rules", index).wrong(what, "name an effect_kind in `when`")


def _is_trigger(trigger: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return (trigger.get("event"), trigger.get("plan")) == (wanted.get("event"), wanted.get("plan"))


def _of_base(part: ManifestPart, name: str, folder: Folder) -> ManifestPart:
    """Returns a part of the base without what the folder replaces or leaves out, at a place that names the base."""
    place = ManifestPlace(f"{name}/{part.place.file}", part.place.path)
    if part.content["$kind"] != "manifest":
        return ManifestPart(part.content, place)
    content, defaults = dict(part.content), dict(_defaults(part))
    grants = {str(grant.get("name")) for grant, _ in listed(folder, "defaults", "cap_grants") if _is_object(grant)}
    grants |= {str(grant) for grant, _ in listed(folder, "without", "cap_grants")}
    without = [wanted for wanted, _ in listed(folder, "without", "triggers") if _is_object(wanted)]
    for fragment in folder.fragments:
        settings, own = content.get("settings", {}), fragment.content.get("settings")
        if settings and _is_object(own):
            content["settings"] = {key: value for key, value in settings.items() if key not in own}
        for section in ("tool_policy", "toolsets"):
            if section in fragment.content:
                content.pop(section, None)
        if "policy" in _defaults(fragment):
            defaults.pop("policy", None)
    if "cap_grants" in defaults:
        defaults["cap_grants"] = [grant for grant in defaults["cap_grants"] if grant["name"] not in grants]
    if "triggers" in content:
        content["triggers"] = [
            trigger for trigger in content["triggers"] if not any(_is_trigger(trigger, wanted) for wanted in without)
        ]
    return ManifestPart({**content, "defaults": defaults} if "defaults" in content else content, place)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)
