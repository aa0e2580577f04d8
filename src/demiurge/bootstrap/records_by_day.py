"""The first record of a day, found by a binary search, so that reading some days costs what those days hold."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from demiurge.bootstrap.backend import Backend
from demiurge.errors import InvalidValue
from demiurge.world.record import Record, decode_record
from demiurge.world.unit import Unit

__all__ = ["day_of", "first_day", "first_record", "record_at"]


def first_day(until: date, days: int) -> date:
    """Returns the first of the `days` that end with the day `until`. Raises InvalidValue for days that are no whole
    number of at least 1."""
    if not isinstance(days, int) or isinstance(days, bool) or days < 1:
        raise InvalidValue(f"must be a whole number of at least 1, not {days!r}", path="days")
    try:
        return until - timedelta(days=days - 1)
    except OverflowError:
        return date.min


def first_record(backend: Backend, unit: Unit | None, since: date) -> int:
    """Returns the position, or sequence number in `unit`, of the first record of the day `since` (UTC) or a later
    one."""
    name = str(unit) if unit is not None else None
    low, high = 0, 1
    while (found := record_at(backend, name, high)) is not None and day_of(found) < since:
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        found = record_at(backend, name, middle)
        if found is not None and day_of(found) < since:
            low = middle + 1
        else:
            high = middle
    return low


def record_at(backend: Backend, unit: str | None, start: int) -> Record | None:
    """Returns the first record from this position, or sequence number in `unit`, on; None if there is none."""
    rows = backend.read.rows(unit, start, 1)
    return decode_record(rows[0][1], position=rows[0][0]) if rows else None


def day_of(record: Record) -> date:
    """Returns the day (UTC) of a record."""
    return datetime.fromtimestamp(record.stamp.time_ns / 1e9, UTC).date()
