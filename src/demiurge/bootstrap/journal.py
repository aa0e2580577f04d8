"""`world.journal`: the records of a world, read in the owner's process or another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from contextlib import aclosing
from typing import Any, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.fork import absolute
from demiurge.tools.display import Table, View, shown
from demiurge.values.refs import ref_from_digest
from demiurge.world.history.seal import Proof
from demiurge.world.history.verify import Verified
from demiurge.world.record import Record, decode_record, may_be_kind
from demiurge.world.unit import Unit

__all__ = ["Journal"]


PAGE = 1000
"""The number of records that are read at once."""


@shown
class LastRecords(list[Record]):
    """Records that notebooks show as a table. Each record of it shows its body."""

    __slots__ = ()

    def _view(self) -> View:
        rows = [
            (each.position, each.unit, each.unit_seq, each.kind, each.stamp.actor if each.is_ingress else None)
            for each in self
        ]
        return View(f"Records: {len(self)}", parts=[Table(("position", "unit", "number", "kind", "caller"), rows)])


class Journal(NamedTuple):
    """The world's records. Reading runs nothing."""

    backend: Backend

    def read(
        self, unit: str | Unit | None = None, from_seq: int = 0, *, kinds: Collection[str] = ()
    ) -> Iterator[Record]:
        """Yields a unit's records by sequence number; those of all units by position if `unit` is None. With `kinds`
        only records of these kinds: others are read and not decoded. Raises Damaged."""
        name = str(unit) if unit is not None else None
        while True:
            rows = self.backend.read.rows(name, from_seq, PAGE)
            for position, data in rows:
                if not kinds or any(may_be_kind(data, kind) for kind in kinds):
                    record = decode_record(data, position=position)
                    if not kinds or record.kind in kinds:
                        yield record
            if len(rows) < PAGE:
                return
            position, data = rows[-1]
            from_seq = (position if name is None else decode_record(data).unit_seq) + 1

    def last(self, count: int = 20, unit: str | Unit | None = None) -> LastRecords:
        """Returns the last `count` records of a unit, or of all units, oldest first. Raises Damaged."""
        name = str(unit) if unit is not None else None
        heads = self.backend.read.heads(name or "", 1 if name else None)
        ends = [head.next_seq if name else head.position + 1 for head in heads if name in (None, head.unit)]
        return LastRecords(list(self.read(unit, max(0, max(ends) - count)))[-count:] if ends else ())

    def views(self, unit: str | Unit | None = None, from_seq: int = 0) -> Iterator[dict[str, Any]]:
        """Yields the same records as data, as the caller may see them: `{redacted, position, unit, seq, kind, cause,
        time_ns, caller, hash, refs, body}`. In a redacted one `{"$withheld": true}` stands in the place of what is not
        public."""
        name = str(unit) if unit is not None else None
        while True:
            views = self.backend.read.records(name, from_seq, PAGE)
            yield from views
            if len(views) < PAGE:
                return
            from_seq = views[-1]["position" if name is None else "seq"] + 1

    async def follow(self, from_position: int = 0) -> AsyncGenerator[Record, None]:
        """Yields records as they become durable, until the world is closed."""
        async with aclosing(self.backend.read.appends()) as appends:
            async for told in appends:
                while from_position <= told["length"]:
                    rows = await asyncio.to_thread(self.backend.read.rows, None, from_position, PAGE)
                    if not rows:
                        break
                    for position, data in rows:
                        from_position = position + 1
                        yield decode_record(data, position=position)

    def head(self) -> list[tuple[str, int, str]]:
        """Returns (unit, number of records, hash of the last one) for every unit."""
        return [(head.unit, head.next_seq, ref_from_digest(head.hash)) for head in self.backend.read.heads()]

    def verify(self, seal: str | None = None, archives: Iterable[str | os.PathLike[str]] = ()) -> Verified:
        """Checks every record and every blob; the outcome names the first that is damaged. `archives`: files that were
        moved away, to be read as if they were here. Raises NotFound, InvalidValue, Damaged for one that is none."""
        return self.backend.keep.verify(seal, [str(absolute(path)) for path in archives])

    def seal(self, size: int | None = None) -> str:
        """Returns the seal of the first `size` records, now or whenever there were so many; of all for None. Reads what
        is new since the last seal and checks nothing. Raises NotFound, Damaged, Unavailable."""
        return self.backend.keep.seal(size)

    def prove(self, position: int, seal: str | None = None) -> Proof:
        """Returns the proof that the record at `position` is under `seal`, one that this world had, or under its
        newest.

        Raises NotFound, InvalidValue (`invalid_seal`), Conflict (`seal`: it never had that), Damaged, Unavailable."""
        return self.backend.keep.prove(position, seal)

    def archives(self) -> list[dict[str, Any]]:
        """Returns the archives, oldest first: `{first, last, records, bytes, packed, seal, file, here}`. The first two
        are positions, `packed` is the size of the file, and `here` is false while it is away."""
        return self.backend.read.archives()
