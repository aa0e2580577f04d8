"""`Known`: the names that a manifest declares, gathered before it is checked, so that references can be looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.values.type_expr import TypeExpr, endless, type_problems
from demiurge.world.manifest.folder import Folder
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import NAME, did_you_mean
from demiurge.world.manifest.system import system_definitions

__all__ = ["Known", "listed"]

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
        )

    def names(self, kind: str) -> Mapping[str, Definition]:
        return self.by_kind.get(kind, {})

    def missing(self, kind: str, name: object, place: ManifestPlace) -> Iterator[Problem]:
        """Yields a problem if nothing of this kind (such as `schema`) has this name; none if `name` is not a text."""
        found = self.names(f"def{kind}")
        if isinstance(name, str) and name not in found:
            yield place.wrong(f"there is no {kind} {name}", did_you_mean(name, found, "define it"))


def _sound(types: Mapping[str, Any]) -> dict[str, TypeExpr]:
    left = {name: expr for name, expr in types.items() if NAME.fullmatch(name)}
    while bad := [name for name, expr in left.items() if any(type_problems(expr, left, ""))] or list(endless(left)):
        for name in bad:
            del left[name]
    return left
