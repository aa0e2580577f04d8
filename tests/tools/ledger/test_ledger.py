"""The ledger in memory: what the seed says of it, and that its cost does not grow. What all ledgers share is in
tests/stores/test_ledger.py."""

from __future__ import annotations

import gc
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.tools.order_shop import NAME, Order, Receipt, Shop, order_tool, runner_for

from demiurge.tools import EffectLedger, IdempotencyConfig, LedgerEntry, LedgerSlot, ToolResult, partition_of
from demiurge.values.clock import FixedClock, SeededEntropy

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def entry(expires_at: datetime | None) -> LedgerEntry:
    return LedgerEntry("k", "t", "h", "m", None, True, NOON, expires_at, UUID(int=1))


def test_an_entry_expires_at_its_moment_and_by_the_machines_clock() -> None:
    assert entry(NOON).is_expired(NOON)
    assert not entry(NOON).is_expired(NOON - timedelta(microseconds=1))
    assert not entry(None).is_expired(datetime.max.replace(tzinfo=UTC))
    assert entry(datetime(2020, 1, 1, tzinfo=UTC)).is_expired()
    assert not entry(datetime(2200, 1, 1, tzinfo=UTC)).is_expired()


def test_the_seeds_example() -> None:
    ledger = EffectLedger()
    assert ledger.lookup("session:create_order:abc123") is None
    ledger.record(
        idempotency_key="session:create_order:abc123",
        tool_name="create_order",
        params=Order("o"),
        result=ToolResult("Order created", Receipt("o")),
        ttl=timedelta(hours=1),
    )
    effect = ledger.lookup("session:create_order:abc123")
    assert effect is not None
    assert effect.result_message == "Order created"


def test_an_entry_recorded_by_hand_answers_a_call() -> None:
    ledger, shop = EffectLedger(), Shop()
    tool = order_tool(shop.place, idempotency=IdempotencyConfig("custom", key_fn=lambda order: order.order_id))
    ledger.record(idempotency_key="session:o", tool_name=NAME, params=Order("o"), result=ToolResult("m", Receipt("o")))
    ledger.record(
        idempotency_key="session:bad",
        tool_name=NAME,
        params=None,
        result=ToolResult("no stock", None, success=False),
    )
    runner = runner_for(tool, ledger)
    found = runner.exec_sync(NAME, {"order_id": "o"})
    failed = runner.exec_sync(NAME, {"order_id": "bad"})
    assert (found.ok, found.content, failed.error_code) == (True, "m\n\n<<o>>", "execution")
    assert "no stock" in failed.content
    assert shop.taken == []


def test_ids_and_times_come_from_what_it_was_given() -> None:
    made = [EffectLedger(clock=FixedClock(10**18), entropy=SeededEntropy(1)) for _ in range(2)]
    one, other = (
        ledger.record(idempotency_key="k", tool_name="t", params=None, result=ToolResult("m")) for ledger in made
    )
    assert one == other
    assert one.effect_id.version == 4


def test_the_default_partition_is_the_one_without_a_name() -> None:
    assert partition_of() == ""
    assert partition_of(tenant="ä", session="s") == '["ä", null, "s"]'


def work(ledger: EffectLedger, first: int, count: int, *, ttl_ns: int = 10**9) -> None:
    for number in range(first, first + count):
        claim = ledger.claim(LedgerSlot("", "t", str(number)), params_hash="h", ttl_ns=ttl_ns, now_ns=number).claimed
        assert claim is not None
        ledger.settle(claim, message="", value=b"1", excluded=False, ttl_ns=ttl_ns, now_ns=number)


def steps_of(call: Any) -> int:
    """How many calls of Python and C functions it takes. Without the collector's, which may strike anywhere and has
    callbacks of other tools."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return steps


def test_a_call_takes_as_many_steps_however_many_entries_there_are() -> None:
    ledger = EffectLedger()
    work(ledger, 0, 10)
    few = steps_of(lambda: work(ledger, 10, 10))
    work(ledger, 20, 20_000)
    assert steps_of(lambda: work(ledger, 20_020, 10)) == few


def test_an_entry_that_has_expired_makes_room_by_itself() -> None:
    """A few entries at a time, and those that were replaced before they expired as well."""
    ledger = EffectLedger(clock=FixedClock(0))
    work(ledger, 0, 1_000, ttl_ns=1)
    for _ in range(5_000):
        ledger.record(idempotency_key="k", tool_name="t", params=None, result=ToolResult("m"))
    work(ledger, 10_000, 200)
    store: Any = ledger._store
    assert len(ledger) == 201
    assert len(store._done) == 201
    assert len(store._ends) < 2_000


@pytest.mark.parametrize("scope", ["session", "billing", ""])
def test_the_key_of_a_call_is_the_seeds_and_can_be_looked_up(scope: str) -> None:
    ledger, shop = EffectLedger(), Shop()
    config = IdempotencyConfig("params", ("order_id",), scope=scope)
    runner_for(order_tool(shop.place, idempotency=config), ledger).exec_sync(NAME, {"order_id": "o"})
    (slot,) = list(ledger._store._done)  # type: ignore[attr-defined]
    assert slot.key.startswith(f"{scope}:{NAME}:" if scope else f"{NAME}:")
    assert slot.key in ledger
