"""How a person ends a doubt: what equal calls are answered with from then on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.tools import EffectLedger, LedgerSlot, ToolResult
from demiurge.tools.ledger.ledger import not_in_doubt
from demiurge.tools.ledger.store import EntryState, LedgerRow
from demiurge.values.clock import FixedClock

SLOT = LedgerSlot("", "t", "k")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(100)


@pytest.fixture
def ledger(clock: FixedClock) -> EffectLedger:
    return EffectLedger(clock=clock)


def take(ledger: EffectLedger, **options: Any) -> LedgerRow:
    mine = ledger.claim(SLOT, **{"params_hash": "h", "ttl_ns": 10, "now_ns": 100, **options}).claimed
    assert mine is not None
    return mine


@pytest.mark.parametrize(("ttl_ns", "expires_ns"), [(10, 115), (None, None)])
def test_a_doubt_settled_as_done_keeps_its_expiry(
    ledger: EffectLedger, clock: FixedClock, ttl_ns: int | None, expires_ns: int | None
) -> None:
    mine = take(ledger, ttl_ns=ttl_ns)
    ledger.doubt(mine)
    clock.advance(5)
    result = ToolResult("ordered", 3, exclude_value_from_context=True)
    ledger.settle_doubt(SLOT, done=True, result=result, ttl=timedelta(days=9))
    assert ledger.find(SLOT, 105) == LedgerRow(
        SLOT,
        EntryState.DONE,
        mine.effect_id,
        "h",
        105,
        expires_ns,
        message="ordered",
        value=b"3",
        excluded=True,
    )


@pytest.mark.parametrize(("ttl", "expires_ns"), [(timedelta(microseconds=1), 1100), (None, None)])
def test_a_forgotten_doubt_settled_as_done_expires_after_the_given_ttl(
    ledger: EffectLedger, ttl: timedelta | None, expires_ns: int | None
) -> None:
    ledger.settle_doubt(SLOT, done=True, ttl=ttl)
    found = ledger.find(SLOT, 100)
    assert found is not None
    assert len(found.effect_id) == 16
    assert found == LedgerRow(
        SLOT, EntryState.DONE, found.effect_id, "", 100, expires_ns, message="A person found that this was done."
    )


@pytest.mark.parametrize("done", [True, False])
def test_waiters_are_woken_when_a_doubt_is_settled(ledger: EffectLedger, done: bool) -> None:
    ledger.doubt(take(ledger))
    woken: list[str] = []
    for name in ("one", "two"):
        ledger.watch(SLOT, lambda name=name: woken.append(name))  # type: ignore[misc]
    ledger.settle_doubt(SLOT, done=done)
    assert woken == ["one", "two"]


def test_a_doubt_is_not_settled_with_what_can_not_be(ledger: EffectLedger) -> None:
    ledger.doubt(take(ledger))
    with pytest.raises(
        UsageError, match=r"^A call that was not done has no result\. Leave out the result\.$"
    ) as refused:
        ledger.settle_doubt(SLOT, done=False, result=ToolResult("m"))
    assert refused.value.code == "bad_result"
    with pytest.raises(InvalidValue):
        ledger.settle_doubt(SLOT, done=True, ttl=timedelta())
    with pytest.raises(InvalidValue):
        ledger.settle_doubt(SLOT, done=True, result=ToolResult("m", object()))
    assert ledger.in_doubt() == (SLOT,)


@pytest.mark.parametrize(
    ("state", "code", "message"),
    [
        (EntryState.CLAIMED, "running", "An equal call runs now: wait for its end, and look again."),
        (EntryState.DONE, "known", "The ledger has learned since that this was done, so the doubt is over."),
    ],
)
def test_settling_an_entry_that_is_not_in_doubt_is_refused(
    ledger: EffectLedger, state: EntryState, code: str, message: str
) -> None:
    mine = take(ledger)
    if state is EntryState.DONE:
        ledger.settle(mine, message="m", value=b"1", excluded=False, ttl_ns=None, now_ns=100)
    with pytest.raises(Conflict) as refused:
        ledger.settle_doubt(SLOT, done=True)
    assert (refused.value.code, str(refused.value)) == (code, message)
    assert str(not_in_doubt(state)) == message
