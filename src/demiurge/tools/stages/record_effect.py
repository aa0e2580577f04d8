"""Stage: what the call did goes to the ledger before anybody is told.

From here on the effect is known, whatever becomes of its publication: when the redaction, the size or a listener fails,
the next equal call publishes the stored result. When the ledger can't be written, the answer still is the tool's; the
claim ends all the same, so the next equal call is told that nobody knows.
"""

from __future__ import annotations

from collections.abc import Awaitable

from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ledger.store import LedgerRow
from demiurge.tools.ledger.waiting import end_hold
from demiurge.tools.stages.recall import ask, asks_elsewhere

__all__ = ["end_claim", "record_effect"]


def record_effect(ports: Ports, call: Call) -> Awaitable[None] | None:
    return None if call.claim is None else _record_result(ports, call, call.claim)


def _record_result(ports: Ports, call: Call, claim: LedgerRow) -> Awaitable[None] | None:
    ledger, config, result = ports.ledger, call.bound.idempotency, call.result
    assert ledger is not None
    assert config is not None
    assert result is not None

    def write() -> None:
        call.claim = None
        try:
            ledger.settle(
                claim,
                message=call.message,
                value=call.encoded,
                rendering=call.rendering,
                excluded=result.exclude_value_from_context,
                ttl_ns=config.ttl_ns,
                now_ns=ports.clock.now_ns(),
            )
        except Exception as error:  # noqa: BLE001  (the tool has run: its answer is better than none)
            log_cause("ledger", error)

    _free(call, claim)
    if asks_elsewhere(ports, call):
        return ask(ports, call, write)
    write()
    return None


async def end_claim(ports: Ports, call: Call) -> None:
    """The end of a call that failed, whatever the reason: its claim is released, or in doubt."""
    ledger, claim = ports.ledger, call.claim
    if ledger is None or claim is None:
        return
    end = ledger.doubt if _may_leave_doubt(call) else ledger.release

    def write() -> None:
        call.claim = None
        try:
            end(claim)
        except Exception as error:  # noqa: BLE001  (an end that is not written is a doubt)
            log_cause("ledger", error)

    _free(call, claim)
    await ask(ports, call, write)


def _may_leave_doubt(call: Call) -> bool:
    try:
        return _leaves_doubt(call)
    except Exception as error:  # noqa: BLE001  (a result of the handler's own make)
        log_cause("result", error)
        return True


def _leaves_doubt(call: Call) -> bool:
    """False when the call is known to have changed nothing: the handler was not called, raised, or returned a failure.
    `reconcile` ends a doubt only by the last."""
    if call.reconciling:
        return call.told is None
    if call.changes_nothing or call.failure is None:
        return False
    if call.result is not None:
        return call.result.success is not False
    code = call.failure.error_code
    return code is ToolErrorCode.UNKNOWN_OUTCOME or (code is ToolErrorCode.OUTPUT_VALIDATION and not call.started)


def _free(call: Call, claim: LedgerRow) -> None:
    if call.holding is not None:
        end_hold(claim, call.holding)
        call.holding = None
