"""One governed call of a tool that a person makes, without a chat: decided, run at most once, and recorded.

The id identifies the call, and belongs to the caller who asked first. A second request of that caller with the same id
does not run the tool again; it is answered with the recorded outcome (`apps.demiurge.call_reducer`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend import Backend, OnFrame
from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.backend.settling import settle
from demiurge.bootstrap.failure import failure
from demiurge.bootstrap.message_body import load_told, load_view
from demiurge.bootstrap.missing_tool import full_id, missing_tool
from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.ids import checked_id, core_id, is_reserved
from demiurge.values import canonical_json, cbor
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.world.unit import Unit

__all__ = ["CallOutcome", "as_json_text", "call_outcome", "call_tool"]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call so far. `content` is the text that a model would be given, `value` the whole value that the
    tool returned, and `result` the redacted view, as in `ToolCallView`; `approval` is the id that a person has to
    decide while it waits. `ok` is None until it has ended. `replayed`: the ledger answered with what an equal call did.
    `attachments`: the images, sounds and files beside the text, each `{type, mime, bytes_ref}`."""

    call_id: str
    unit: Unit
    tool: str
    status: Literal["done", "failed", "awaiting_approval", "open"]
    ok: bool | None = None
    content: str = ""
    value: Any = None
    result: Any = None
    error_code: str | None = None
    message: str = ""
    approval: str | None = None
    replayed: bool = False
    attachments: Sequence[Mapping[str, Any]] = ()


def as_json_text(arguments: str | Mapping[str, Any]) -> str:
    """Returns the arguments of a call as JSON text; text is returned as it is, because a call with bad JSON is answered
    and recorded. Raises InvalidValue for anything but text and a mapping of JSON values."""
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        what = f'must be a mapping of JSON values, such as {{"part": "bolt"}}, or JSON text ({error})'
        raise InvalidValue(what, path="arguments") from None


async def call_tool(
    backend: Backend,
    tool: str,
    arguments_json: str,
    call_id: str | None = None,
    on_frame: OnFrame | None = None,
    connection_id: str | None = None,
) -> CallOutcome:
    """Asks for a call, and waits until it has ended or only a person can go on.

    Raises InvalidValue (no tool id, no call id), Conflict (`exists`: another call has this id), NotFound (the world's
    manifest has no such calls), Unavailable. A call of a tool that is missing here is refused as `policy_denied`, as a
    model's call is; only the message of the outcome says that it is missing.
    """
    name = core_id(checked_id(tool), _known(backend))
    if "__" in name and not is_reserved(name):
        name = full_id(name, _known(backend))
    known_by = call_id if call_id is not None else new_id("call", SystemEntropy())
    proposed = {"id": known_by, "name": name, "arguments_json": arguments_json}
    event = {"call_id": known_by, "tool": name, "call_ref": backend.run.put_blob(canonical_json.encode(proposed))}
    if connection_id is not None:
        await backend.run.choose_connection(str(Unit(CALLS, known_by)), None, connection_id)
    accepted = await backend.run.submit("demiurge/CallAsked@1", event, None, None)
    await settle(backend, accepted.unit, on_frame)
    failed = await failure(backend, accepted)
    if failed is not None and failed.code == "exists":
        raise Conflict(f"There is another call {known_by}: choose another id.", code="exists")
    outcome = await call_outcome(backend, known_by)
    if outcome.error_code == ToolErrorCode.POLICY_DENIED.value and name not in (known := _known(backend)):
        return replace(outcome, message=missing_tool(name, known).message)
    return outcome


def _known(backend: Backend) -> frozenset[str]:
    """Returns the ids of the world's tools."""
    return frozenset(spec["name"] for spec in cbor.decode(backend.read.manifest())["toolset"])


async def call_outcome(backend: Backend, call_id: str) -> CallOutcome:
    """Returns the outcome of a call so far. Raises NotFound."""
    state = await backend.read.state(CALLS, call_id)
    if state is None:
        raise NotFound(f"There is no call {call_id}; `demiurge state ls {CALLS}` lists them.", code="no_call")
    unit, outcome = Unit(CALLS, call_id), state["outcome"]
    if outcome is None:
        waiting = await backend.read.approvals(str(unit))
        if waiting:
            return CallOutcome(
                call_id,
                unit,
                state["tool"],
                "awaiting_approval",
                error_code="approval_required",
                message="The call waits for a person's decision.",
                approval=waiting[0]["id"],
            )
        return CallOutcome(call_id, unit, state["tool"], "open")
    body = load_told(backend, outcome["result_ref"]) or MessageBody()
    return CallOutcome(
        call_id,
        unit,
        state["tool"],
        "done" if outcome["ok"] else "failed",
        ok=outcome["ok"],
        content=body.text,
        value=body.value,
        result=load_view(backend, outcome["view_ref"]),
        error_code=outcome["error_code"],
        message=outcome["message"],
        replayed=bool(outcome.get("replayed")),
        attachments=body.attachments,
    )
