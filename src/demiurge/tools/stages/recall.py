"""Stage: looks up whether the ledger already has the result of an equal call.

This stage runs after the policy and the limits, so that a caller who could not make the call does not get its stored
result. It runs before a person is asked for an approval, because a stored result needs none. A stored value is
decoded into the tool's own type and passes through the stages check, redact and spill like any result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from demiurge.tools.bound import BoundTool
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.worker import to_the_end
from demiurge.tools.ledger.idempotency import DumpedParams, IdempotencyConfig, IdempotencyStrategy, make_key
from demiurge.tools.ledger.ledger import Ledger, partition_of
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.result import ToolResult
from demiurge.values import canonical_json

__all__ = ["answer_from", "call_ledger", "recall", "slot_of", "uses_ledger_thread"]

T = TypeVar("T")


def recall(ports: Ports, call: Call) -> Awaitable[None] | None:
    """Answers the call from the ledger if its slot holds a result. Raises ToolFailure (`unknown_outcome`) for a slot
    in doubt, unless the tool has `reconcile` or only reads. If no approval is needed and the ledger does not block,
    `recall` does not read the slot: `claim` comes next and reads it."""
    config = call.bound.idempotency
    if ports.ledger is None or config is None or config.strategy is IdempotencyStrategy.NONE:
        return None
    call.slot, call.params_hash = _identity(call, config)
    if uses_ledger_thread(ports, call):
        return _recall(ports, call, ports.ledger, call.slot)
    if call.decision != "allow" or ports.ledger.blocking:
        _answer_if_done(call, ports.ledger.find(call.slot, ports.clock.now_ns()))
    return None


async def _recall(ports: Ports, call: Call, ledger: Ledger, slot: LedgerSlot) -> None:
    _answer_if_done(call, await call_ledger(ports, call, lambda: ledger.find(slot, ports.clock.now_ns())))


def _answer_if_done(call: Call, row: LedgerRow | None) -> None:
    if row is None or row.state is EntryState.CLAIMED:
        return
    if row.state is EntryState.DONE or not call.may_end_doubt:
        answer_from(call, row)


def answer_from(call: Call, row: LedgerRow) -> None:
    """Answers the call with the ledger's row. Raises ToolFailure: `unknown_outcome` if the row is not a result,
    `output_validation` if its value no longer fits the tool's type."""
    if row.state is not EntryState.DONE:
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
    try:
        value = None if row.value == b"null" else call.bound.load(row.value)
    except ToolValidationError as error:  # the type has changed since
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION) from error
    call.result = ToolResult(row.message, value, row.success, row.excluded, row.parts)
    call.rendering = row.rendering
    call.replayed = True


def uses_ledger_thread(ports: Ports, call: Call) -> bool:
    """Returns whether the ledger is read in a thread, which is the case if reading may block on a disk while an
    event loop waits."""
    return call.threads and ports.ledger is not None and ports.ledger.blocking


async def call_ledger(ports: Ports, call: Call, work: Callable[[], T]) -> T:
    """Runs `work`, which reads or writes the ledger, in a thread if `asks_elsewhere`; returns its result."""
    return await to_the_end(work) if uses_ledger_thread(ports, call) else work()


def slot_of(
    tool: BoundTool,
    arguments: str,
    caller: ToolPolicyContext,
    *,
    session_id: str | None = None,
    connection_id: str | None = None,
) -> LedgerSlot | None:
    """Returns the slot of a call with these arguments in a ledger; None for a tool without idempotency.

    `arguments` are JSON; `session_id` and `connection_id` are those of the call. Raises InvalidValue and
    ToolValidationError for arguments that the tool does not accept, and whatever a `key_fn` raises."""
    config = tool.idempotency
    if config is None or config.strategy is IdempotencyStrategy.NONE:
        return None
    args, params = canonical_json.parse_object(arguments), tool.parse(arguments)
    return _slot(tool, params, _dump_params(tool, params, args), config, caller, connection_id, session_id)


def _identity(call: Call, config: IdempotencyConfig) -> tuple[LedgerSlot, str]:
    """Returns the slot of the call's entry, and the hash of its parameters."""
    assert call.context is not None
    dumped = _dump_params(call.bound, call.params, call.args)
    session_id = getattr(call.context.session, "session_id", None)
    slot = _slot(call.bound, call.params, dumped, config, call.caller, call.connection_id, session_id)
    return slot, dumped.hash()


def _slot(
    tool: BoundTool,
    params: Any,
    dumped: DumpedParams,
    config: IdempotencyConfig,
    caller: ToolPolicyContext,
    connection_id: str | None,
    session_id: object,
) -> LedgerSlot:
    name = str(tool.spec.name)
    key = make_key(name, params, config, lambda: dumped)
    assert key is not None
    key.encode()
    session = run = ""
    if config.scope == "session":
        session = "" if session_id is None else str(session_id)
        run = "" if session else caller.run_id
    partition = partition_of(tenant=caller.tenant, connection_id=connection_id, session=session, run=run)
    return LedgerSlot(partition, name, key)


def _dump_params(tool: BoundTool, params: Any, args: Mapping[str, Any] | None) -> DumpedParams:
    dump = tool.dump_params
    if dump is None:
        return DumpedParams(params, sent=args)
    try:
        return DumpedParams(*dump(params), sent=args)
    except ToolValidationError:
        return DumpedParams(None, whole=False, sent=args)
