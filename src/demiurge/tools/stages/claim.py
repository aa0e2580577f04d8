"""Stage: claims the call's slot in the ledger, or waits for the equal call that holds the slot.

This is the last stage before the handler that uses the ledger, and it is atomic: of equal calls made at the
same time, in tasks, threads or processes, one runs. The others wait, at most as long as the call may take, and get
the first one's result. If that call changed nothing, the next one runs. A slot in doubt can be claimed by a tool
that has `reconcile`, which then runs in the handler's place, and by a tool that only reads, which runs again.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ledger.ledger import Claim, Ledger
from demiurge.tools.ledger.reconcile import reconciling
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot
from demiurge.tools.ledger.waiting import LoopWakeUp, ThreadWakeUp, WakeUp, hold, waiting_for
from demiurge.tools.stages.recall import answer_from, call_ledger, uses_ledger_thread

__all__ = ["claim"]

_LONGEST_WAIT_S = 600.0
"""How long a call without any other limit waits: the call it waits for may itself be waiting for this one, unseen."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
"""The pause between two reads of a ledger that other processes write to; it doubles from the first value to the
second."""


def claim(ports: Ports, call: Call) -> Awaitable[None] | None:
    """Claims the slot, or answers the call from the slot. Returns an awaitable if it has to wait. Raises ToolFailure
    (`unknown_outcome`, `timeout`, `output_validation`)."""
    ledger, slot = ports.ledger, call.slot
    if ledger is None or slot is None or call.replayed:
        return None
    take = functools.partial(_take, ports, call, ledger, slot)
    if uses_ledger_thread(ports, call):
        return _claim(ports, call, take)
    got = take()
    if _is_taken(got):
        return _claim(ports, call, take, got)
    _begin(call, got)
    return None


async def _claim(ports: Ports, call: Call, take: functools.partial[Claim], got: Claim | None = None) -> None:
    if got is None:
        got = await call_ledger(ports, call, take)
    if _is_taken(got):
        assert got.found is not None
        got = await _wait(ports, call, got.found, take)
    _begin(call, got)


def _is_taken(got: Claim) -> bool:
    """Returns whether an equal call holds the slot and is running."""
    return got.claimed is None and got.found is not None and got.found.state is EntryState.CLAIMED


def _begin(call: Call, got: Claim) -> None:
    if got.claimed is None:
        assert got.found is not None
        answer_from(call, got.found)
        return
    call.holding = hold(got.claimed, call.thread if call.threads else None)
    if call.reconciling:
        call.bind(reconciling(call.bound))


def _take(ports: Ports, call: Call, ledger: Ledger, slot: LedgerSlot) -> Claim:
    config = call.bound.idempotency
    assert config is not None
    got = ledger.claim(
        slot,
        params_hash=call.params_hash,
        ttl_ns=config.ttl_ns,
        now_ns=ports.clock.now_ns(),
        even_in_doubt=call.may_end_doubt,
        changes=not call.changes_nothing,
    )
    call.reconciling = got.claimed is not None and got.found is not None and not call.changes_nothing
    call.claim = got.claimed
    if got.claimed is not None and call.failure is not None:  # the call was cancelled while this thread took the claim
        (ledger.doubt if call.reconciling else ledger.release)(got.claimed)
    return got


async def _wait(ports: Ports, call: Call, blocking_row: LedgerRow, take: functools.partial[Claim]) -> Claim:
    """Waits until the claim on the slot has ended and returns what can be claimed or read then. Raises ToolFailure
    (`timeout`, `unknown_outcome`) when the call's time is over."""
    ledger, slot = ports.ledger, blocking_row.slot
    assert ledger is not None
    wake_up: WakeUp = LoopWakeUp() if call.threads else ThreadWakeUp()
    left_s = _LONGEST_WAIT_S if call.limit_ms is None else call.limit_ms / 1000
    pause_s = _FIRST_PAUSE_S
    stop = ledger.watch(slot, wake_up.set, wake_up.place)
    try:
        while True:
            wake_up.clear()
            found = await call_ledger(ports, call, lambda: ledger.find(slot, ports.clock.now_ns()))
            if found is None or found.state is not EntryState.CLAIMED:
                got = await call_ledger(ports, call, take)
                if not _is_taken(got):
                    return got
                assert got.found is not None
                found = got.found
            if left_s <= 0:
                raise ToolFailure(ToolErrorCode.TIMEOUT if call.changes_nothing else ToolErrorCode.UNKNOWN_OUTCOME)
            left_s -= await _await_wake_up(ports, found, wake_up, min(left_s, pause_s) if ledger.blocking else left_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    finally:
        stop()


async def _await_wake_up(ports: Ports, row: LedgerRow, wake_up: WakeUp, limit_s: float) -> float:
    """Waits for the wake-up, at most `limit_s` seconds. Returns how many seconds have passed."""
    begun_ns = ports.clock.monotonic_ns()
    with waiting_for(row):
        rang = await wake_up.wait(limit_s)
    passed_s = (ports.clock.monotonic_ns() - begun_ns) / 1e9
    return passed_s if rang else max(passed_s, limit_s)
