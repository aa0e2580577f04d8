"""Calls that ask a person half-way: the receipt of a leg that ended with questions, and how the next leg goes on.

What was asked is a blob of JSON, `{tool, server, leg, questions}`; the answer is one too, `{answers: {key: {action,
content?}}}`. The state that a handler gave is a blob of its own, as it is.
"""

from __future__ import annotations

import json
from typing import Any

from demiurge.tools.input_required import Answer, Question, Resumed
from demiurge.tools.record import ToolExecResult
from demiurge.values import canonical_json
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall, Result, failed

__all__ = ["INPUT_REQUIRED", "asked_result", "questions_of", "resumed"]

INPUT_REQUIRED = "input_required"
"""The code of a receipt that ends a leg with questions."""

_LEAKED = "The questions of a tool and its state are recorded, so they can't hold the credentials of a connection."


async def asked_result(call: EffectCall, result: ToolExecResult, usage: Any, clock: Clock) -> Result:
    """Returns the result of a leg that ended with questions. `usage` is what the leg used, None if nothing."""
    asks = result.asks
    assert asks is not None
    leg = call.intent.leg["number"] if call.intent.leg is not None else 1
    said = json.dumps({"tool": result.record.name, "leg": leg, **asks.to_json()}, ensure_ascii=False).encode()
    if any(call.injections.masked_bytes(data) != data for data in (said, asks.state)):
        return failed("credentials_in_request", _LEAKED)
    fields: dict[str, Any] = {
        "ref": await call.put_blob(said),
        "state_ref": await call.put_blob(asks.state),
        "spec_hash": result.record.spec_hash,
        "args_digest": result.record.args_digest,
    }
    if asks.tied_to_process:
        fields["tied"] = True
    if asks.expires_s is not None:
        fields["expires_ns"] = clock.now_ns() + int(asks.expires_s * 1_000_000_000)
    if usage is not None:
        fields["usage"] = usage
    return {**failed(INPUT_REQUIRED, "The call asks a person, and goes on with the answer."), "asks": fields}


def resumed(call: EffectCall) -> Resumed | None:
    """Returns the answers that a call goes on with; None for its first leg. Raises InvalidValue, NotFound (they were
    erased), Damaged."""
    leg, answer = call.intent.leg, call.intent.approved
    if leg is None or answer is None:
        return None
    state, ref = call.get_blob(Ref(leg["state"])), call.intent.answer_ref
    if ref is None:
        return Resumed(state, ended=True, leg=leg["number"])
    given = canonical_json.parse_object(call.get_blob(ref))["answers"]
    answers = {key: Answer.of_json(node) for key, node in given.items()}
    return Resumed(state, answers, leg=leg["number"])


def questions_of(blob: bytes) -> tuple[Question, ...]:
    """Returns the questions in the blob that a leg left. Raises InvalidValue."""
    return tuple(Question.of_json(node) for node in canonical_json.parse_object(blob)["questions"])
