"""The rows of one process: what is deleted or over is found by nobody."""

from __future__ import annotations

import pytest

from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot, MemoryLedgerStore

SLOT = LedgerSlot("", "t", "k")


def row(slot: LedgerSlot = SLOT, state: EntryState = EntryState.DONE, expires_ns: int | None = None) -> LedgerRow:
    return LedgerRow(slot, state, slot.tool_name.encode(), "h", 0, expires_ns)


@pytest.mark.parametrize("state", list(EntryState))
def test_a_deleted_row_is_found_by_no_key(state: EntryState) -> None:
    other = SLOT._replace(tool_name="other")
    with MemoryLedgerStore() as store:
        store.put(row(SLOT, state))
        store.put(row(other))
        store.delete(SLOT)
        assert (store.get(SLOT), store.slots("k")) == (None, [other])
        store.delete(SLOT)
        store.delete(other)
        assert (store.get(other), store.slots("k")) == (None, [])


@pytest.mark.parametrize("state", [EntryState.DONE, EntryState.IN_DOUBT])
def test_rows_that_are_over_are_counted_when_they_go(state: EntryState) -> None:
    slots = [SLOT._replace(tool_name=str(number)) for number in range(4)]
    with MemoryLedgerStore() as store:
        for number, slot in enumerate(slots):
            store.put(row(slot, state, 10 + number))
        assert store.expire(9) == 0
        assert store.expire(12) == 3
        assert store.slots("k") == [slots[3]]
        assert store.expire(12) == 0


def test_a_row_that_was_replaced_does_not_go_with_the_one_before_it() -> None:
    with MemoryLedgerStore() as store:
        store.put(row(expires_ns=10))
        store.put(row(expires_ns=20))
        assert store.expire(10) == 0
        assert store.get(SLOT) == row(expires_ns=20)
        assert store.expire(20) == 1


def test_the_expiry_queue_of_a_memory_store_is_bounded() -> None:
    slots = [SLOT._replace(key=str(number)) for number in range(600)]
    most = 0
    with MemoryLedgerStore() as store:
        for time in range(5):
            for number, slot in enumerate(slots):
                store.put(row(slot, EntryState.DONE if number % 2 else EntryState.IN_DOUBT, 10 + time))
                most = max(most, len(store._ends))
        assert most == 2 * len(slots) + 1024
        assert (store.expire(13), store.expire(14)) == (0, len(slots))


def test_a_row_that_was_deleted_does_not_go_once_more() -> None:
    with MemoryLedgerStore() as store:
        store.put(row(expires_ns=10))
        store.delete(SLOT)
        assert store.expire(10) == 0


def test_a_claim_in_memory_needs_no_owner_and_never_goes_by_itself() -> None:
    with MemoryLedgerStore() as store:
        assert store.hold(b"e") == ""
        store.put(row(state=EntryState.CLAIMED, expires_ns=10))
        assert store.expire(10**30) == 0
        assert store.delete_all() == 0
        assert store.get(SLOT) is not None
