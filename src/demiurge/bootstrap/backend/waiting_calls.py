"""The calls that wait for a person, as data; also those whose arguments or whose unit can't be read.

A damaged blob must not hide that a call waits. A unit that can't be computed is read record by record instead: its
intents and decisions say what waits, whatever became of the blobs that they name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from demiurge.errors import Damaged, DemiurgeError
from demiurge.stores.errors import with_backup_advice
from demiurge.stores.protocol import Store
from demiurge.tools.core.ask_user import read_question
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.ids import ASK_USER
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.host import Host
from demiurge.world.origin import origins
from demiurge.world.record import decode_row
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["require_readable", "waiting_calls"]


def waiting_calls(host: Host, store: Store, of: Unit | None, now_ns: int) -> list[dict[str, Any]]:
    """Returns the calls that wait in the unit `of`, or in all: `{id, unit, seq, arguments_json, damaged, asks, tool,
    expires_ns, ...}`. A question has `asks`, `{question, choices, allow_other}`, and no `expires_ns`; for a call that
    waits for an approval, `asks` is None.

    `damaged` is None, or a sentence that says what can't be read: the arguments (then `arguments_json` is None), the
    unit around the call, or, where `id` is None, records that may hold more calls."""
    waiting, unreadable = host.waiting(of)
    found = [_call(store, str(unit), intent.seq, _body(intent), None) for unit, intent in waiting]
    for unit, problem in unreadable.items():
        found += _recorded(store, unit, problem, now_ns)
    return found


def require_readable(host: Host, store: Store, intent: bytes, now_ns: int, *, approve: bool) -> OpenIntent | None:
    """Returns the open intent with this id, if there is one. Raises Damaged when a call with this id waits and nobody
    can see what it is; one in a unit that can be read may be rejected all the same."""
    unit, found = host.intent(intent)
    if found is None:
        calls = [call for call in waiting_calls(host, store, unit, now_ns) if call["id"] == intent.hex()]
    else:
        is_asked = approve and found.awaits_approval
        calls = [_call(store, "", found.seq, _body(found), None)] if is_asked else []
    for call in calls:
        if call["damaged"] is not None:
            raise Damaged(f"This call of {call['tool']} can't be shown, so it can't be decided on: {call['damaged']}")
    return found


def _recorded(store: Store, unit: Unit, problem: DemiurgeError, now_ns: int) -> Iterator[dict[str, Any]]:
    """Yields the waiting calls of a unit that can't be computed, from its records. A call that a fork copied from
    another world waits in that world only."""
    known = origins(store)
    first = known[-1].until if known else -1
    waiting: dict[bytes, tuple[int, Mapping[str, Any]]] = {}
    failed: DemiurgeError | None = None
    try:
        for record in map(decode_row, store.read(str(unit), 0)):
            if (
                record.kind == "intent"
                and _asks(record.body)
                and (_stays(record.body) or (record.position or 0) > first)
            ):
                waiting[record.body["id"]] = record.unit_seq, record.body
            elif record.kind in ("approval", "decision", "receipt"):
                waiting.pop(record.body["intent"], None)
    except DemiurgeError as error:
        failed = error
    for seq, body in waiting.values():
        if _stays(body) or body["approval"]["expires_ns"] > now_ns:
            yield _call(store, str(unit), seq, body, problem)
    if failed is not None:
        yield {
            "id": None,
            "unit": str(unit),
            "arguments_json": None,
            "damaged": with_backup_advice(failed),
            "asks": None,
        }


def _asks(intent: Mapping[str, Any]) -> bool:
    """Returns whether an intent waited for a person when it was recorded."""
    return "approval" in intent and "approved" not in intent


def _stays(intent: Mapping[str, Any]) -> bool:
    """Returns whether an intent is a question: it never expires, and a fork does not end it."""
    return intent["approval"]["expires_ns"] is None


def _body(intent: OpenIntent) -> Mapping[str, Any]:
    """Returns the fields of an open intent that its record has too."""
    return {"id": intent.id, "params": intent.params, "approval": intent.approval}


def _call(
    store: Store, unit: str, seq: int, intent: Mapping[str, Any], problem: DemiurgeError | None
) -> dict[str, Any]:
    arguments = None
    try:
        arguments = canonical_json.parse_object(store.get_blob(Ref(intent["params"]["call_ref"])))["arguments_json"]
    except DemiurgeError as error:
        problem = error
    place = {"id": intent["id"].hex(), "unit": unit, "seq": seq}
    call = {**place, "arguments_json": arguments, **(intent["approval"] or {})}
    damaged = None if problem is None else with_backup_advice(problem)
    return {**call, "damaged": damaged, "asks": _question(call)}


def _question(call: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what a question asks; None for a call that waits for an approval, or whose arguments are no question."""
    if call.get("tool") != ASK_USER or call["arguments_json"] is None:
        return None
    try:
        asked = read_question(call["arguments_json"])
    except ToolValidationError:
        return None
    choices = None if asked.choices is None else list(asked.choices)
    return {"question": asked.question, "choices": choices, "allow_other": asked.allow_other}
