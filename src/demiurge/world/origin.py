"""Where the units of a forked world come from: the world that each was born in.

What a unit asks for is named after the world that it is in (docs/architecture.md, rule 4), so the records that a fork
took over check only under the world that wrote them. Where a unit went over to another world its own chain says, in its
`fork` records; only where it began has to be known before the chain is read, and is kept beside it.
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
    """The units whose first record has a position up to `until`, and after that of the origin before, were born in
    `world`."""

    world: str
    until: int


def origins(store: Store) -> tuple[Origin, ...]:
    """Oldest first; none for a world that is no fork."""
    kept = store.get_meta(KEY)
    found = canonical_json.parse_object(kept.encode())["worlds"] if kept is not None else []
    return tuple(Origin(world, until) for world, until in found)


def set_origins(store: Store, found: tuple[Origin, ...]) -> None:
    """Durable on return."""
    node = {"worlds": [[origin.world, origin.until] for origin in found]}
    store.set_meta(KEY, canonical_json.encode(node).decode())


def newborn(store: Store, unit: Unit) -> UnitState:
    """A unit before its first record."""
    known = origins(store)
    first = next(store.outline(str(unit), 0, 1), None) if known else None
    if first is not None:
        for origin in known:
            if first.position <= origin.until:
                return UnitState(origin.world, unit)
    return UnitState(store.world_id, unit)
