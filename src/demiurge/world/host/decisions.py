"""`Decisions`: takes the decisions of people on calls that wait, each once.

The first decision on a call counts. A caller that comes second is told who was first, when, and with what.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Store
from demiurge.tools.approvals import require_approver
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.authority.approval import approvers_of
from demiurge.world.host.units import Units, decision_id
from demiurge.world.host.waiting import WaitingIntents
from demiurge.world.record import Record, decode_row
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["Decisions"]

MAX_REASON: Final = 2000

Verdict = Literal["approve", "reject", "answer"]

_PAST: Final = {"approve": "approved", "reject": "rejected", "answer": "answered", "end": "ended"}


class Decisions:
    """The decisions on the waiting calls of one store."""

    def __init__(self, store: Store, units: Units, waiting: WaitingIntents) -> None:
        self._store, self._units, self._waiting = store, units, waiting

    def intent(self, intent_id: bytes) -> tuple[Unit | None, OpenIntent | None]:
        """Returns the unit in which an intent waits for a person or was decided, and the intent if it is open and the
        unit can be read."""
        unit = self._waiting.unit_of(intent_id)
        try:
            return unit, self._units[unit].state.intents.get(intent_id) if unit is not None else None
        except DemiurgeError:
            return unit, None

    def params(self, intent_id: bytes) -> Mapping[str, Any] | None:
        """Returns the parameters of an intent that waits for a person or was decided; None if there is none."""
        found = self._asked(intent_id)
        return dict(found[0]) if found is not None else None

    def asks(self, intent_id: bytes) -> Ref | None:
        """Returns the blob of the questions of a call that asked half-way, which waits or was answered; None for any
        other intent."""
        _, leg = self._asked(intent_id) or (None, None)
        return Ref(leg["asks"]) if leg is not None else None

    def _asked(self, intent_id: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any] | None] | None:
        """Returns the parameters and the leg of an intent that waits for a person or was decided."""
        unit, waiting = self.intent(intent_id)
        if waiting is not None:
            return waiting.params, waiting.leg
        taken = self._taken(unit, intent_id)
        if unit is None or taken is None or not isinstance(taken.cause, int):
            return None
        body = self._record(unit, taken.cause).body
        return body["params"], body.get("leg")

    def require_approver(self, intent_id: bytes, caller: Caller) -> None:
        """Raises UsageError (`not_an_approver`) if `caller` may not decide on the call that waits under this id."""
        _, waiting = self.intent(intent_id)
        if waiting is not None:
            require_approver(caller.roles, approvers_of(waiting), intent_id.hex())

    async def take(self, intent_id: bytes, verdict: Verdict, *, caller: Caller, reason: str = "", **given: Ref) -> None:
        """Takes a decision. `given` are the blobs that go with it, see `Units.decision`. See `Host.decide` and
        `Host.answer`."""
        if len(reason) > MAX_REASON:
            raise InvalidValue(f"a reason has at most {MAX_REASON} characters", path="reason")
        unit, waiting = self.intent(intent_id)
        if unit is not None and waiting is not None and waiting.awaits_approval:
            _require_fitting(waiting, verdict)
            decision = self._units.decision(waiting, verdict, by=caller.actor, caller=caller, reason=reason, **given)
            await self._units.awake(unit).offer(decision)
        taken = self._taken(unit, intent_id)
        if taken is None:
            raise self.refusal(intent_id)
        body = taken.body
        blobs = {name: body[name] for name in ("call_ref", "answer_ref") if name in body}
        if (body["verdict"], body["by"], blobs) != (verdict, caller.actor, given):
            raise self.refusal(intent_id)

    def end_tied(self, state: bytes, reason: str) -> None:
        """Ends the wait for an answer that is tied to this process (`tools.input_required`) and whose state is good no
        more: the connection that it names is gone, for example. Its call goes on without an answer."""
        self._units.end_tied(ref_of(state), reason)

    def refusal(self, intent_id: bytes) -> DemiurgeError:
        """Returns the error for a decision on an intent that does not wait: who decided it first, if anybody did."""
        taken = self._taken(self._waiting.unit_of(intent_id), intent_id) or self._allowed_by_rule(intent_id)
        if taken is None:
            return NotFound("Nothing with this id waits for approval; `demiurge approvals ls` lists what does.")
        if taken.body.get("verdict") == "expire":
            why = "Nobody decided on this call in time; have it proposed again, and you are asked anew."
            return Conflict(why, code="approval_expired")
        return _decided(taken)

    def _allowed_by_rule(self, intent_id: bytes) -> Record | None:
        """Returns the record of the standing rule that a person made from this intent. Only waiting intents are listed
        by id: one that is allowed is found among the live units' open intents, or by its attempt."""
        live = next((live.state.unit for live in self._units if intent_id in live.state.intents), None)
        attempt = self._store.attempts([intent_id]).get(intent_id)
        unit = str(live) if live is not None else attempt.unit if attempt is not None else ""
        for record in map(decode_row, self._store.read(unit, 0)) if unit else ():
            if record.kind == "decision" and record.body["intent"] == intent_id and isinstance(record.cause, int):
                cause = self._record(Unit.parse(unit), record.cause)
                return cause if cause.kind == "approval_rule" else None
        return None

    def _taken(self, unit: Unit | None, intent_id: bytes) -> Record | None:
        """Returns the record of the decision on an intent."""
        seq = self._store.find_ingress(str(unit), decision_id(intent_id)) if unit is not None else None
        return self._record(unit, seq) if unit is not None and seq is not None else None

    def _record(self, unit: Unit, seq: int) -> Record:
        return decode_row(next(iter(self._store.read(str(unit), seq, 1))))


def _require_fitting(waiting: OpenIntent, verdict: Verdict) -> None:
    """Raises UsageError if the intent takes no such decision."""
    if waiting.is_question and verdict == "approve":
        why = "This call is a question, and a yes is no answer: `demiurge approvals answer` takes one."
        raise UsageError(why, code="answer_needed")
    if verdict == "answer" and not waiting.is_question:
        why = "This call asks for an approval, not for an answer: approve or reject it."
        raise UsageError(why, code="no_question")


def _decided(taken: Record) -> Conflict:
    """Returns the error for a caller that came second."""
    body, at_ns = taken.body, taken.stamp.time_ns
    if taken.kind == "approval_rule":
        verdict, words = "approved", "allowed"
    elif "call_ref" in body:
        verdict, words = "edited", "approved with changed arguments"
    else:
        verdict = words = _PAST[body["verdict"]]
    when = datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    details = {"by": body["by"], "at_ms": at_ns // 10**6, "verdict": verdict, "reason": body["reason"]}
    message = f"This call was already decided: {body['by'] or 'somebody'} {words} it at {when}."
    return Conflict(message, code="decided", details=details)
