"""What a ledger keeps of a result, and what its readers get of a row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools import ToolResult
from demiurge.tools.ledger.entry import encoded_result, entry_of, ns_of
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot

ROW = LedgerRow(LedgerSlot("", "t", "k"), EntryState.DONE, bytes(16), "h", 1_999, 3_000, message="m", value=b"[1]")


def test_a_row_reads_with_all_that_it_holds() -> None:
    entry = entry_of(ROW._replace(success=False, excluded=True))
    assert (entry.idempotency_key, entry.tool_name, entry.params_hash) == ("k", "t", "h")
    assert (entry.result_message, entry.result_value, entry.result_success) == ("m", [1], False)
    assert (entry.effect_id, entry.exclude_value_from_context) == (UUID(bytes=bytes(16), version=4), True)


def test_times_are_whole_microseconds_that_have_begun() -> None:
    entry = entry_of(ROW)
    assert entry.created_at == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert entry.expires_at == datetime(1970, 1, 1, 0, 0, 0, 3, tzinfo=UTC)
    assert ns_of(entry.created_at) == 1_000
    assert entry_of(ROW._replace(expires_ns=None)).expires_at is None


def test_an_entry_is_expired_from_its_moment_on() -> None:
    entry = entry_of(ROW)
    assert not entry.is_expired(datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC))
    assert entry.is_expired(datetime(1970, 1, 1, 0, 0, 0, 3, tzinfo=UTC))
    assert entry.is_expired()
    assert not entry_of(ROW._replace(expires_ns=None)).is_expired()


def test_a_result_that_is_not_json_is_refused_by_the_name_of_its_type() -> None:
    value: Any = object()
    with pytest.raises(InvalidValue) as caught:
        encoded_result(ToolResult("m", value))
    assert caught.value.path == "result"
    assert caught.value.message == "result: an object can't be written as JSON and read back"
