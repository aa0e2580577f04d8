"""Who would wait for himself is told so, however long the way round is."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import ExitStack

import pytest

from demiurge.tools import LedgerSlot, ToolErrorCode, ToolFailure
from demiurge.tools.ledger import waiting
from demiurge.tools.ledger.store import EntryState, LedgerRow
from demiurge.tools.ledger.waiting import LoopWakeUp, end_hold, hold, waiting_for


class Holder:
    """A call that has a claim, with the context that its handler runs in."""

    def __init__(self, name: str) -> None:
        self.claim = LedgerRow(LedgerSlot("", "t", name), EntryState.CLAIMED, name.encode(), "h", 0, None)
        self.context = contextvars.copy_context()
        self.token = self.context.run(hold, self.claim, None)

    def waits_for(self, other: Holder, until: ExitStack) -> None:
        self.context.run(until.enter_context, waiting_for(other.claim))


def test_a_call_does_not_wait_for_itself() -> None:
    a = Holder("a")
    with ExitStack() as waits, pytest.raises(ToolFailure) as caught:
        a.waits_for(a, waits)
    assert caught.value.error_code is ToolErrorCode.REPEATED_CALL


@pytest.mark.parametrize("closing", ["b", "c", "d"])
def test_a_circle_is_found_whichever_of_several_waits_closes_it(closing: str) -> None:
    a, b, c, d, other = (Holder(name) for name in ("a", "b", "c", "d", "other"))
    with ExitStack() as waits:
        a.waits_for(b, waits)
        a.waits_for(c, waits)
        c.waits_for(d, waits)
        other.waits_for(a, waits)
        with pytest.raises(ToolFailure) as caught:
            {"b": b, "c": c, "d": d}[closing].waits_for(a, waits)
        assert caught.value.error_code is ToolErrorCode.REPEATED_CALL


def test_a_wait_that_has_ended_closes_no_circle() -> None:
    a, b = Holder("a"), Holder("b")
    with ExitStack() as waits:
        a.waits_for(b, waits)
    with ExitStack() as waits:
        b.waits_for(a, waits)
    assert waiting._waits == {}


def test_a_waiter_without_a_claim_may_wait_for_any_claim() -> None:
    a, b = Holder("a"), Holder("b")
    with ExitStack() as waits:
        a.waits_for(b, waits)
        with waiting_for(a.claim), waiting_for(b.claim):
            assert len(waiting._waits) == 1


def test_nothing_is_remembered_of_a_hold_that_has_ended() -> None:
    claim = Holder("loop").claim
    token = hold(claim, threading.get_ident())
    assert claim.effect_id in waiting._loops
    end_hold(claim, token)
    assert claim.effect_id not in waiting._loops
    with waiting_for(claim):
        assert waiting._waits == {}


def test_a_hold_may_end_in_another_context() -> None:
    a = Holder("a")
    end_hold(a.claim, a.token)


def test_a_wake_up_of_a_closed_loop_does_nothing() -> None:
    async def made() -> LoopWakeUp:
        return LoopWakeUp()

    wake_up = asyncio.run(made())
    wake_up.set()
    assert wake_up.place.is_closed()
