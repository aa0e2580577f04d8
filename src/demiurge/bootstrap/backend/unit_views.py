"""`UnitViews`: what callers are shown of all units of a module, kept from one reading to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from demiurge.stores.protocol import Store
from demiurge.world.host import Host
from demiurge.world.unit import Unit

__all__ = ["UnitViews"]

View = TypeVar("View")


class UnitViews(Generic[View]):
    """The views of a module's units. A unit whose head has not moved is not read again, so a list costs what has
    changed, and not the whole history. `view` makes one of a key and a cell, and of nothing else."""

    def __init__(self, module: str, view: Callable[[str, Mapping[str, Any]], View]) -> None:
        self._prefix: Final = f"{module}/"
        self._view = view
        self._kept: dict[str, tuple[bytes, View | None]] = {}

    def read(self, host: Host, store: Store) -> list[View]:
        """Returns the views of the units that have a cell, by key."""
        kept: dict[str, tuple[bytes, View | None]] = {}
        for head in list(store.heads(self._prefix)):
            known = self._kept.get(head.unit)
            kept[head.unit] = known if known is not None and known[0] == head.hash else self._made(host, head.unit)
        self._kept = kept
        return [view for _, view in kept.values() if view is not None]

    def _made(self, host: Host, name: str) -> tuple[bytes, View | None]:
        unit = Unit.parse(name)
        state = host.state(unit)
        return state.head, None if state.cell is None else self._view(unit.key, state.cell)
