"""Origins: in which world each unit of a forked world was born.

An effect's identity includes the world of its unit (docs/architecture.md, rule 4), so the records that a fork took over
verify only under the world that wrote them. The `fork` records in a unit's chain say when the unit moved to another
world. The world of its first record must be known before the chain is read, so it is stored beside the chain.
"""

from __future__ import annotations

from dataclasses import dataclass

from demiurge.stores.protocol import Store
from demiurge.values import canonical_json
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["Origin", "newborn", "origins", "set_origins"]

KEY = "origins"


@dataclass(frozen=True, slots=True)
class Origin:
    """A world and the range of positions of the units born in it: those whose first record lies after the previous
    origin's `until`, up to and including this `until`."""

    world: str
    until: int


def origins(store: Store) -> tuple[Origin, ...]:
    """Returns the origins of a world's units, oldest first; none if the world is no fork."""
    kept = store.get_meta(KEY)
    found = canonical_json.parse_object(kept.encode())["worlds"] if kept is not None else []
    return tuple(Origin(world, until) for world, until in found)


def set_origins(store: Store, found: tuple[Origin, ...]) -> None:
    """Stores the origins; durable on return."""
    node = {"worlds": [[origin.world, origin.until] for origin in found]}
    store.set_meta(KEY, canonical_json.encode(node).decode())


def newborn(store: Store, unit: Unit) -> UnitState:
    """Returns the state of a unit before its first record, under the world that it was born in."""
    known = origins(store)
    first = next(store.outline(str(unit), 0, 1), None) if known else None
    if first is not None:
        for origin in known:
            if first.position <= origin.until:
                return UnitState(origin.world, unit)
    return UnitState(store.world_id, unit)
