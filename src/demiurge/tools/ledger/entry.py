"""The public form of a ledger entry, made from the stored row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.params import ResultCodec
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ledger.store import LedgerRow
from demiurge.tools.result import ToolResult, plain_text
from demiurge.values.article import with_article
from demiurge.values.clock import SystemClock

__all__ = ["LedgerEntry", "encoded_result", "entry_of", "ns_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The result of a call as the ledger keeps it.

    `result_value` is a copy, JSON as Python data. From `expires_at` on the entry is ignored; None: it never expires."""

    idempotency_key: str
    tool_name: str
    params_hash: str
    result_message: str
    result_value: Any
    result_success: bool
    created_at: datetime
    expires_at: datetime | None
    effect_id: UUID
    exclude_value_from_context: bool = False

    def is_expired(self, now: datetime | None = None) -> bool:
        """Returns whether the entry has expired at `now`, which needs a time zone; by default the machine's time."""
        if now is None:
            now = _time(SystemClock().now_ns())
        return self.expires_at is not None and now >= self.expires_at


def encoded_result(result: ToolResult[Any]) -> tuple[str, bytes]:
    """Returns message and value as they are stored. Raises InvalidValue."""
    kind = type(result.value)
    try:
        return plain_text(result.message), ResultCodec(kind).dump(result.value)
    except (ToolValidationError, TypeError, UnicodeEncodeError) as error:
        raise InvalidValue(
            f"{with_article(kind.__name__)} can't be written as JSON and read back", path="result"
        ) from error


def entry_of(row: LedgerRow) -> LedgerEntry:
    """Returns the public form of a stored row."""
    return LedgerEntry(
        idempotency_key=row.slot.key,
        tool_name=row.slot.tool_name,
        params_hash=row.params_hash,
        result_message=row.message,
        result_value=from_json(row.value),
        result_success=row.success,
        created_at=_time(row.created_ns),
        expires_at=None if row.expires_ns is None else _time(row.expires_ns),
        effect_id=UUID(bytes=row.effect_id, version=4),
        exclude_value_from_context=row.excluded,
    )


def _time(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)


def ns_of(time: datetime) -> int:
    """Returns the nanoseconds since 1970 of a time with a time zone."""
    return (time - _EPOCH) // _MICROSECOND * 1000
