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
from demiurge.world.effects.legs import questions_of
from demiurge.world.host import Host
from demiurge.world.origin import origins
from demiurge.world.record import decode_row
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["is_askers_own", "require_readable", "waiting_calls"]


def waiting_calls(host: Host, store: Store, of: Unit | None, now_ns: int) -> list[dict[str, Any]]:
    """Returns the calls that wait in the unit `of`, or in all: `{id, unit, seq, arguments_json, damaged, asks, tool,
    expires_ns, ...}`. A question has `asks`, `{question, choices, allow_other}`, and no `expires_ns`; for a call that
    waits for an approval, `asks` is None.

    `client` is the name that the MCP client which asked gives itself, None for any other call.

    `damaged` is None, or a sentence that says what can't be read: the arguments (then `arguments_json` is None), the
    unit around the call, or, where `id` is None, records that may hold more calls. `input` has the questions of a tool
    that asked half-way: `{tool, server, leg, questions: [{key, kind, message, url, host, fields}]}`, else it is
    None."""
    waiting, unreadable = host.waiting(of)
    found = [_call(store, str(unit), intent.seq, _body(intent), None) for unit, intent in waiting]
    for unit, problem in unreadable.items():
        found += _recorded(store, unit, problem, now_ns)
    return found


def require_readable(host: Host, store: Store, intent: bytes, now_ns: int, *, approve: bool) -> OpenIntent | None:
    """Returns the open intent with this id, if there is one. Raises Damaged when a call with this id waits and nobody
    can see what it is; one in a unit that can be read may be rejected all the same."""
    unit, found = host.intent(intent)
    if found is None or (approve and found.awaits_approval):
        for call in waiting_calls(host, store, unit, now_ns):
            if call["id"] == intent.hex() and call["damaged"] is not None:
                why = f"This call of {call['tool']} can't be shown, so it can't be decided on: {call['damaged']}"
                raise Damaged(why)
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
        expires_ns = body["approval"]["expires_ns"]
        if expires_ns is None or expires_ns > now_ns:
            yield _call(store, str(unit), seq, body, problem)
    if failed is not None:
        yield {
            "id": None,
            "unit": str(unit),
            "arguments_json": None,
            "damaged": with_backup_advice(failed),
            "asks": None,
            "input": None,
        }


def _asks(intent: Mapping[str, Any]) -> bool:
    """Returns whether an intent waited for a person when it was recorded."""
    return "approval" in intent and "approved" not in intent


def _stays(intent: Mapping[str, Any]) -> bool:
    """Returns whether an intent is a question of the model: it never expires, and a fork does not end it."""
    return intent["approval"]["expires_ns"] is None and intent.get("leg") is None


def _body(intent: OpenIntent) -> Mapping[str, Any]:
    """Returns the fields of an open intent that its record has too."""
    return {"id": intent.id, "params": intent.params, "approval": intent.approval, "leg": intent.leg}


def _call(
    store: Store, unit: str, seq: int, intent: Mapping[str, Any], problem: DemiurgeError | None
) -> dict[str, Any]:
    arguments = asked = client = None
    try:
        asked = _input(store, intent.get("leg"))
        proposed = canonical_json.parse_object(store.get_blob(Ref(intent["params"]["call_ref"])))
        arguments, client = proposed["arguments_json"], proposed.get("client")
    except DemiurgeError as error:
        problem = error
    place = {"id": intent["id"].hex(), "unit": unit, "seq": seq}
    call = {**place, "arguments_json": arguments, **(intent["approval"] or {})}
    damaged = None if problem is None else with_backup_advice(problem)
    return {**call, "damaged": damaged, "asks": _question(call), "input": asked, "client": client}


def _input(store: Store, leg: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the questions of a tool that asked half-way, as a person reads them; None for any other call. Raises
    Damaged, NotFound, InvalidValue."""
    if leg is None:
        return None
    blob = store.get_blob(Ref(leg["asks"]))
    asked = canonical_json.parse_object(blob)
    questions = [
        {
            "key": question.key,
            "kind": question.kind,
            "message": question.message,
            "url": question.url,
            "host": question.host,
            "fields": [field.to_json() for field in question.fields],
            "request": dict(question.request) if question.request is not None else None,
        }
        for question in questions_of(blob)
    ]
    shown = {"tool": asked["tool"], "server": asked["server"], "leg": asked["leg"], "questions": questions}
    return {**shown, "tied_to_process": leg.get("tied", False)}


def is_askers_own(asked: Mapping[str, Any] | None) -> bool:
    """Returns whether all questions of a call, its `input`, are for the program that asked for the call: they are about
    its model and its files, and no person answers them."""
    return asked is not None and all(question["request"] is not None for question in asked["questions"])


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
