"""The records of a world as its owner shows them, in this process or in another one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.values.refs import Ref
from demiurge.world.record import Record, decode_record
from demiurge.world.unit import Unit

__all__ = ["ShownRecords"]


class ShownRecords(NamedTuple):
    """Reads records through a backend, in the form that sessions take (`world.sessions.sessions.Records`)."""

    backend: Backend

    def count(self, unit: Unit) -> int:
        """Returns the number of records of the unit. No name that begins with its own comes before it."""
        return next((head.next_seq for head in self.backend.read.heads(str(unit), 1) if head.unit == str(unit)), 0)

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterator[Record]:
        """Returns the receipts among at most `limit` records from `start` on."""
        records = (decode_record(data, position=at) for at, data in self.backend.read.rows(str(unit), start, limit))
        return (record for record in records if record.kind == "receipt")

    def record(self, unit: Unit, seq: int) -> Record:
        """Returns record number `seq` of the unit."""
        [(position, data)] = self.backend.read.rows(str(unit), seq, 1)
        return decode_record(data, position=position)

    def get_blob(self, ref: Ref) -> bytes:
        return self.backend.read.get_blob(ref)
