"""`Known`: the names that a manifest declares, gathered before it is checked, so that references can be looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.values.type_expr import TypeExpr, endless, type_problems
from demiurge.world.manifest.folder import Folder
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import NAME, did_you_mean
from demiurge.world.manifest.system import RESERVED, system_definitions

__all__ = ["NO_SOURCE", "Known", "listed"]

NO_SOURCE: Final = "no module takes it, and no plan raises it"
"""Why an event does not come, unless a reducer emits it."""

Definition = Mapping[str, Any]


def listed(folder: Folder, *section: str) -> Iterator[tuple[Any, ManifestPlace]]:
    """Yields the objects of a list section of the root, from all fragments, with their places."""
    for fragment in folder.fragments:
        found: Any = fragment.content
        for name in section:
            found = found.get(name) if isinstance(found, Mapping) else None
        for index, part in enumerate(found if isinstance(found, list) else ()):
            yield part, fragment.place.at(*section, index)


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a manifest declares. `by_kind` holds every named definition; `schemas` the sound types, of which
    all references resolve; `effects` are by their kind, `grants` by name with the type of their cap."""

    by_kind: Mapping[str, Mapping[str, Definition]]
    schemas: Mapping[str, TypeExpr]
    effects: Mapping[str, Definition]
    grants: Mapping[str, str | None]
    correlated: frozenset[str]
    """World plans that a trigger correlates."""
    arising: frozenset[str]
    """Events that a route takes, that a plan raises, or that the code of the base may emit. Any other event arises only
    if a reducer of the manifest's own emits it."""
    has_reducers: bool
    """The manifest has a module of its own, whose reducer may emit any event, or a file that can't be read."""

    @classmethod
    def of(cls, folder: Folder) -> Known:
        by_kind: dict[str, dict[str, Definition]] = {}
        for definition in (*system_definitions(), *(part.content for part in folder.definitions)):
            if isinstance(definition.get("name"), str):
                by_kind.setdefault(definition["$kind"], {}).setdefault(definition["name"], definition)
        caps = by_kind["defcap"]
        grants = [part for part, _ in listed(folder, "defaults", "cap_grants") if isinstance(part, Mapping)]
        triggers = [part for part, _ in listed(folder, "triggers") if isinstance(part, Mapping)]
        return cls(
            by_kind,
            _sound({name: d.get("type") for name, d in by_kind["defschema"].items()}),
            {str(d.get("kind")): d for d in by_kind["defeffect"].values()},
            {str(g.get("name")): caps.get(str(g.get("cap")), {}).get("cap_type") for g in grants},
            frozenset(str(t.get("plan")) for t in triggers if t.get("correlate_by")),
            frozenset(_arising(folder, by_kind)),
            bool(folder.problems)
            or any(name not in _of_base(folder) and not name.startswith(RESERVED) for name in by_kind["defmodule"]),
        )

    def names(self, kind: str) -> Mapping[str, Definition]:
        return self.by_kind.get(kind, {})

    def missing(self, kind: str, name: object, place: ManifestPlace) -> Iterator[Problem]:
        """Yields a problem if nothing of this kind (such as `schema`) has this name; none if `name` is not a text."""
        found = self.names(f"def{kind}")
        if isinstance(name, str) and name not in found:
            yield place.wrong(f"there is no {kind} {name}", did_you_mean(name, found, "define it"))

    def arises(self, event: str) -> bool:
        """Returns whether something that the manifest says, or the code of its base, brings the event about."""
        return event.startswith(RESERVED) or event in self.arising

    def never_comes(self, event: object, place: ManifestPlace) -> Iterator[Problem]:
        """Yields a problem if the event is defined and nothing can bring it about."""
        is_defined = isinstance(event, str) and event in self.names("defschema")
        if is_defined and not self.has_reducers and not self.arises(str(event)):
            yield place.wrong(f"{event} never comes: {NO_SOURCE}", f"route {event} to a module")


def _arising(folder: Folder, by_kind: Mapping[str, Mapping[str, Definition]]) -> Iterator[str]:
    yield from _of_base(folder)
    for route, _ in listed(folder, "routing", "events"):
        if isinstance(route, Mapping):
            module = by_kind["defmodule"].get(str(route.get("module")), {})
            yield str(route.get("event"))
            yield from _event_and_arms(module, by_kind["defschema"])
    for plan in by_kind.get("defplan", {}).values():
        steps = plan.get("steps")
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, Mapping) and step.get("op") == "raise_event":
                yield str(step.get("event"))


def _event_and_arms(module: Definition, schemas: Mapping[str, Definition]) -> Iterator[str]:
    abi = module.get("abi")
    event = abi.get("event") if isinstance(abi, Mapping) else None
    yield str(event)
    expr = schemas.get(str(event), {}).get("type")
    arms = expr.get("variant") if isinstance(expr, Mapping) else None
    for arm in arms.values() if isinstance(arms, Mapping) else ():
        if isinstance(arm, Mapping):
            yield str(arm.get("ref"))


def _of_base(folder: Folder) -> frozenset[str]:
    return folder.base.definitions if folder.base is not None else frozenset()


def _sound(types: Mapping[str, Any]) -> dict[str, TypeExpr]:
    left = {name: expr for name, expr in types.items() if NAME.fullmatch(name)}
    while bad := [name for name, expr in left.items() if any(type_problems(expr, left, ""))] or list(endless(left)):
        for name in bad:
            del left[name]
    return left
