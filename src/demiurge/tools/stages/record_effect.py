"""Stage: writes what the call did to the ledger, before anybody is notified.

After this stage the effect is known, whatever becomes of its publication. If the redaction, the size limit or a
listener fails, the next equal call publishes the stored result. If the ledger cannot be written, the call still
returns the tool's result. Its claim ends all the same, so the next equal call gets `unknown_outcome`.
"""

from __future__ import annotations

from collections.abc import Awaitable

from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ledger.store import LedgerRow
from demiurge.tools.ledger.waiting import end_hold
from demiurge.tools.parts import binary_part
from demiurge.tools.stages.recall import call_ledger, uses_ledger_thread

__all__ = ["end_claim", "record_effect"]


def record_effect(ports: Ports, call: Call) -> Awaitable[None] | None:
    """Stores the call's result under its claim; does nothing for a call without a claim. Returns an awaitable if the
    ledger is written in a thread."""
    return None if call.claim is None else _record_result(ports, call, call.claim)


def _record_result(ports: Ports, call: Call, claim: LedgerRow) -> Awaitable[None] | None:
    ledger, config, result = ports.ledger, call.bound.idempotency, call.result
    assert ledger is not None
    assert config is not None
    assert result is not None
    given = call.parts if binary_part(result.value) is None else call.parts[: len(result.parts)]

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
                **({"parts": given} if given else {}),
            )
        except Exception as error:  # noqa: BLE001  (the tool has run: its result is better than none)
            log_cause("ledger", error)

    _end_hold(call, claim)
    if uses_ledger_thread(ports, call):
        return call_ledger(ports, call, write)
    write()
    return None


async def end_claim(ports: Ports, call: Call) -> None:
    """Ends the claim of a failed call: it is released if the call is known to have changed nothing, else it is in
    doubt."""
    ledger, claim = ports.ledger, call.claim
    if ledger is None or claim is None:
        return
    end = ledger.doubt if _may_leave_doubt(call) else ledger.release

    def write() -> None:
        call.claim = None
        try:
            end(claim)
        except Exception as error:  # noqa: BLE001  (if the end is not written, the claim is in doubt)
            log_cause("ledger", error)

    _end_hold(call, claim)
    await call_ledger(ports, call, write)


def _may_leave_doubt(call: Call) -> bool:
    try:
        return _leaves_doubt(call)
    except Exception as error:  # noqa: BLE001  (a handler's own result class may raise anything)
        log_cause("result", error)
        return True


def _leaves_doubt(call: Call) -> bool:
    """Returns False if the call is known to have changed nothing: the handler was not called, raised, or returned a
    failure. For `reconcile`, only a returned failure ends a doubt."""
    if call.reconciling:
        return call.reported_message is None
    if call.changes_nothing or call.failure is None:
        return False
    if call.result is not None:
        return call.result.success is not False
    code = call.failure.error_code
    return code is ToolErrorCode.UNKNOWN_OUTCOME or (code is ToolErrorCode.OUTPUT_VALIDATION and not call.started)


def _end_hold(call: Call, claim: LedgerRow) -> None:
    if call.holding is not None:
        end_hold(claim, call.holding)
        call.holding = None
