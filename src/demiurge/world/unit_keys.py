"""`unit_keys`: the keys of a module's units."""

from __future__ import annotations

from collections.abc import Iterator

from demiurge.stores.protocol import JournalStore
from demiurge.world.unit import Unit

__all__ = ["unit_keys"]


def unit_keys(journal: JournalStore, module: str, *, latest_first: bool) -> Iterator[str]:
    """Yields the keys, those of deleted cells included: in order, or those with the latest records first."""
    heads = journal.heads(f"{module}/")
    for head in sorted(heads, key=lambda head: -head.position) if latest_first else heads:
        yield Unit.parse(head.unit).key
