"""Stage: has the ledger answered an equal call already?

After the policy and the limits, so that nobody gets a stored answer who could not have made the call; before anybody
is asked for approval, because an answer that is there needs none. What is stored is read back into the tool's own
type, so it goes through check, redaction and fit like any result.
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

__all__ = ["answer_from", "ask", "asks_elsewhere", "recall", "slot_of"]

T = TypeVar("T")


def recall(ports: Ports, call: Call) -> Awaitable[None] | None:
    """A call in doubt goes on only if its tool can find out, or changes nothing. Where nobody is going to be asked and
    nothing waits for a disk, `claim` is next and finds the same."""
    config = call.bound.idempotency
    if ports.ledger is None or config is None or config.strategy is IdempotencyStrategy.NONE:
        return None
    call.slot, call.params_hash = _identity(call, config)
    if asks_elsewhere(ports, call):
        return _recall(ports, call, ports.ledger, call.slot)
    if call.decision != "allow" or ports.ledger.blocking:
        _found(call, ports.ledger.find(call.slot, ports.clock.now_ns()))
    return None


async def _recall(ports: Ports, call: Call, ledger: Ledger, slot: LedgerSlot) -> None:
    _found(call, await ask(ports, call, lambda: ledger.find(slot, ports.clock.now_ns())))


def _found(call: Call, there: LedgerRow | None) -> None:
    if there is None or there.state is EntryState.CLAIMED:
        return
    if there.state is EntryState.DONE or not call.may_end_doubt:
        answer_from(call, there)


def answer_from(call: Call, there: LedgerRow) -> None:
    """The call is answered by what is there: a result that is done; else nobody knows."""
    if there.state is not EntryState.DONE:
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
    try:
        value = None if there.value == b"null" else call.bound.load(there.value)
    except ToolValidationError as error:  # the type has changed since
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION) from error
    call.result = ToolResult(there.message, value, there.success, there.excluded)
    call.rendering = there.rendering
    call.replayed = True


def asks_elsewhere(ports: Ports, call: Call) -> bool:
    """Is the ledger asked in a thread? It is if that may wait for a disk while an event loop waits."""
    return call.threads and ports.ledger is not None and ports.ledger.blocking


async def ask(ports: Ports, call: Call, work: Callable[[], T]) -> T:
    """What `work` says, which asks the ledger."""
    return await to_the_end(work) if asks_elsewhere(ports, call) else work()


def slot_of(
    tool: BoundTool, arguments: str, caller: ToolPolicyContext, *, session_id: str | None = None
) -> LedgerSlot | None:
    """Return the place of the entry that a call with these arguments has in a ledger, None for a call that has none.

    `arguments` are JSON, `session_id` is that of the call's session. Raises InvalidValue and ToolValidationError for
    arguments that the tool does not take; whatever a `key_fn` raises.
    """
    config = tool.idempotency
    if config is None or config.strategy is IdempotencyStrategy.NONE:
        return None
    args, params = canonical_json.parse_object(arguments), tool.parse(arguments)
    return _place(tool, params, _dumped(tool, params, args), config, caller, None, session_id)


def _identity(call: Call, config: IdempotencyConfig) -> tuple[LedgerSlot, str]:
    """The place of the call's entry, and the hash of its parameters."""
    assert call.context is not None
    dumped = _dumped(call.bound, call.params, call.args)
    session_id = getattr(call.context.session, "session_id", None)
    slot = _place(call.bound, call.params, dumped, config, call.caller, call.connection_id, session_id)
    return slot, dumped.hash()


def _place(
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


def _dumped(tool: BoundTool, params: Any, args: Mapping[str, Any] | None) -> DumpedParams:
    dump = tool.dump_params
    if dump is None:
        return DumpedParams(params, sent=args)
    try:
        return DumpedParams(*dump(params), sent=args)
    except ToolValidationError:
        return DumpedParams(None, whole=False, sent=args)
