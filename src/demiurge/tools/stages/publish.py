"""Stage: publishes the call in its session, once, whatever its outcome.

This stage always runs, after the ledger has stored the result and before anybody outside is notified. If every
reducer and every subscriber accepts a successful result, all that the handler changed is committed. Otherwise the
call fails, and its session and resources are rolled back. The ledger keeps the result, so the next equal call
publishes it again. Whatever interrupts this stage, the session's log has one entry for the call, with the call's
final outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from demiurge.tools.context import NullSession
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.explain import explain, public_failure
from demiurge.tools.execution.ports import Ports
from demiurge.tools.execution.scope import ScopeState, entered
from demiurge.tools.invoked import RejectedToolParams, ToolInvoked
from demiurge.tools.result import ToolResult

__all__ = ["publish"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_KEPT = "The tool ran, but its result could not be recorded here."
_NOT_BACK = "The tool failed, and what it had changed here could not be taken back."


def publish(ports: Ports, call: Call) -> None:
    """Publishes the call's event, and commits or rolls back its changes. Sets `call.failure` if the result could not
    be recorded."""
    session = _session(ports, call)
    if call.changes is None and session is None:
        return
    event_id = UUID(bytes=ports.entropy.token(16), version=4)
    try:
        if call.failure is None:
            _commit(ports, call, session, event_id)
        else:
            _roll_back(call)
            if session is not None and not call.suspended:
                _publish_event(ports, call, session, _event(ports, call, session, event_id))
    except BaseException:
        if call.changes is None or call.changes.scope.state is not ScopeState.COMMITTED:
            call.failure = call.failure or ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
            _roll_back(call)
            _correct(ports, call, session, event_id)
        raise


def _commit(ports: Ports, call: Call, session: Any, event_id: UUID) -> None:
    changes = call.changes
    if session is not None:
        event = _event(ports, call, session, event_id)
        if changes is None:
            errors = _publish_event(ports, call, session, event)
        else:
            with entered(changes.scope):
                errors = _publish_event(ports, call, session, event)
        if errors:
            call.failure = ToolFailure(ToolErrorCode.EXECUTION, safe_message=_NOT_KEPT)
            _roll_back(call)
            _correct(ports, call, session, event_id)
            return
    if changes is not None:
        changes.commit()


def _roll_back(call: Call) -> None:
    if call.changes is not None and not call.changes.roll_back():
        call.failure = ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME, safe_message=_NOT_BACK)


def _session(ports: Ports, call: Call) -> Any:
    """Returns the call's session if it has an event bus, else None."""
    session = call.template.session if call.template is not None else None
    if session is None or type(session) is NullSession:
        session = ports.session
    return session if hasattr(session, "event_bus") else None


def _publish_event(ports: Ports, call: Call, session: Any, event: ToolInvoked) -> Sequence[BaseException]:
    """Publishes the event and returns what its subscribers raised."""
    try:
        failures = getattr(session.event_bus.publish(event), "errors", ())
    except Exception as raised:  # noqa: BLE001  (a user's bus may raise anything)
        failures = (raised,)
    errors = [getattr(failure, "error", failure) for failure in failures]
    for error in errors:
        ports.explain_error(call, "session", error)
    return errors


def _correct(ports: Ports, call: Call, session: Any, event_id: UUID) -> None:
    """Replaces the log's entry for the call by one with the final outcome."""
    if not hasattr(session, "correct"):
        return
    try:
        session.correct(_event(ports, call, session, event_id))
    except Exception as error:  # noqa: BLE001
        log_cause("session", error)


def _event(ports: Ports, call: Call, session: Any, event_id: UUID) -> ToolInvoked:
    failure, template = call.failure, call.template
    prompt = template.prompt if template is not None else None
    result = call.result
    code, text = None, call.content
    if failure is not None:
        code, text = failure.error_code, explain(ports, call, failure)
        if call.reported_message is None:
            result = ToolResult(public_failure(ports, failure)["message"], success=False)
    assert result is not None
    params = call.params
    if call.context is None and failure is not None:
        params = RejectedToolParams(call.raw_args, failure.message)
    return ToolInvoked(
        prompt_name=getattr(prompt, "name", None) or getattr(prompt, "key", None) or "",
        adapter=getattr(template.adapter, "name", "") if template is not None else "",
        name=call.tool_id,
        params=params,
        result=result,
        session_id=getattr(session, "session_id", None),
        created_at=_EPOCH + timedelta(microseconds=ports.clock.now_ns() // 1000),
        rendered_output=text,
        call_id=call.tool_call_id,
        event_id=event_id,
        error_code=code,
        replayed=call.replayed,
    )
