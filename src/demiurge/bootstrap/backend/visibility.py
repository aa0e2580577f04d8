"""The rules of what a caller may see of a world: records, states, frames, waiting calls and blobs. They stand here
alone.

`calls` says which roles may make a call at all; this says what the answer shows. Three degrees:

* a `user` sees everything;
* an `agent` and a `chief` see every record, and each blob that a record gives a unit: to know an address is not enough;
* a `viewer` and an `approver` see the public fields (`public_fields`), the words of chats, and the public views of tool
calls. An `approver` sees besides, of each call that waits for a decision that it may give, the exact arguments and the
blobs that these name.

A redacted answer says so: it has another form than what it is made from, and what is withheld is marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend.message_body import MessageBody, told, told_ref
from demiurge.bootstrap.backend.public_fields import MARK, cell_fields, public_part, record_fields
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.stores.protocol import Store
from demiurge.tools.approvals import may_decide
from demiurge.tools.events import ToolCallResult
from demiurge.tools.parts import parts_of
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.projection import Only
from demiurge.values.refs import Ref, parse_ref, ref_from_digest
from demiurge.world.authority.approval import approvers_of
from demiurge.world.blob_access import exposing_records, granting_records
from demiurge.world.effect_kinds import TOOL
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.record import Record, decode_row
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.watching.frame import Closed

__all__ = ["Visibility", "sees_records"]

MOST_LOOKED_AT: Final = 200
"""The number of records with a blob's address that are searched for one that makes the blob visible to a caller with a
restricted view."""

_FRAMES: Final[Mapping[str, frozenset[str]]] = {
    "began": frozenset({"kind"}),
    "closed": frozenset({"seq"}),
    "lagged": frozenset(),
    "text_delta": frozenset({"delta"}),
    "assistant_final": frozenset({"content"}),
    "tool_call_start": frozenset({"tool_call_id", "tool_name", "args"}),
    "tool_progress": frozenset({"tool_call_id", "done", "total", "message"}),
    "tool_call_result": frozenset({"tool_call_id", "result", "redacted", "is_error", "replayed"}),
    "status": frozenset({"phase", "label"}),
    "error": frozenset({"error"}),
    "done": frozenset({"finish_reason"}),
}
"""The public fields of a frame, by its type: what the runner puts there is what the tool's redaction allows."""

_WORDS_OF_EVENTS: Final = {
    "UserMessage": "message_ref",
    "ChatCreated": "title_ref",
    "ChatRenamed": "title_ref",
    "ChatImported": "messages",
}
"""The field with the words of a person, by the event of a chat: a message, a title, or the messages of a history."""

_PLACE: Final = frozenset({"unit", "request_id", "intent", "attempt", "offset", "end", "type"})


def sees_records(caller: Caller) -> bool:
    """Returns whether a caller sees every record whole, and the blobs that records give."""
    return caller.has("agent", "chief")


Waiting = Callable[[], Iterable[tuple[Unit, OpenIntent]]]


class Visibility:
    """The part of the world in `store` that `caller` may see. `waiting` lists the calls that wait for a person;
    `settings` are those of the manifest in force, whose blobs are part of the definitions."""

    def __init__(
        self, store: Store, caller: Caller, waiting: Waiting, settings: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._store, self._caller, self._waiting, self._settings = store, caller, waiting, settings
        self._is_user = caller.has("user")
        self.sees_records = sees_records(caller)

    # records, states, frames

    def record(self, record: Record) -> dict[str, Any]:
        """A record as `{redacted, position, unit, seq, kind, cause, time_ns, caller, hash, refs, body}`. Where it is
        `redacted`, what is not public in `body` is `{"$withheld": true}`."""
        body, cause = dict(record.body), record.cause
        if not self.sees_records:
            body = public_part(body, record_fields(record.kind, body, self._effect_of(record)))
            if cause is not None and not isinstance(cause, int):
                cause = {name: cause[name] for name in ("unit", "seq", "index") if name in cause}
        return {
            "redacted": not self.sees_records,
            "position": record.position,
            "unit": record.unit,
            "seq": record.unit_seq,
            "kind": record.kind,
            "cause": cause,
            "time_ns": record.stamp.time_ns,
            "caller": record.stamp.caller.to_node() if record.is_ingress else None,
            "hash": ref_from_digest(record.hash),
            "refs": list(record.refs),
            "body": body,
        }

    def _effect_of(self, record: Record) -> str | None:
        """The effect kind of an intent, or of the intent that a receipt answers; None where it can't be found."""
        if record.kind == "intent":
            return str(record.body["kind"])
        if record.kind != "receipt" or not isinstance(record.cause, int):
            return None
        try:
            intent = next(map(decode_row, self._store.read(record.unit, record.cause, 1)), None)
        except DemiurgeError:
            return None
        return self._effect_of(intent) if intent is not None and intent.kind == "intent" else None

    def part(self, module: str, only: Only) -> Only:
        """The part of a unit's state to read for this caller: nothing of a module whose state is withheld, so that no
        error says what is there."""
        return only if self.sees_records or cell_fields(module) else {}

    def cell(self, module: str, view: dict[str, Any] | None) -> dict[str, Any] | None:
        """A unit's state, or a part of it. A redacted one has the field `$redacted`."""
        if self.sees_records or view is None:
            return view
        return {MARK: True, **(public_part(view, cell_fields(module)) if view else {})}

    def frame(self, shown: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A frame of an effect that runs; None for one that is not shown to this caller. A `tool_call_result` says that
        its result is `redacted`. For a caller who sees records, `closed` of a call has what the model was told and the
        value (`message_body.told`), which are read from the record, and for nobody else."""
        if shown["type"] == ToolCallResult.type:
            shown = {**shown, "redacted": True}
        if self.sees_records:
            return {**shown, **self._told(shown)} if shown["type"] == Closed.type else shown
        fields = _FRAMES.get(shown["type"])
        if fields is None:
            return None
        return {name: value for name, value in shown.items() if name in _PLACE or name in fields}

    def _told(self, closed: Mapping[str, Any]) -> dict[str, Any]:
        """The text for the model about the call that this frame closes, and the value; nothing for an effect of another
        kind, and for a result that can't be read."""
        if closed["seq"] is None:
            return {}

        def get(ref: str) -> bytes:
            return self._store.get_blob(parse_ref(ref))

        try:
            receipt = next(map(decode_row, self._store.read(closed["unit"], closed["seq"], 1)), None)
            ref = told_ref(receipt.kind, receipt.body) if receipt is not None else None
            if receipt is None or ref is None or self._effect_of(receipt) != TOOL:
                return {}
            return told(MessageBody.decode(canonical_json.parse_object(get(ref))), get)
        except DemiurgeError:  # the content was erased, or is damaged: the frame is shown all the same
            return {}

    def waiting_call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call that waits for a person. One that this caller may not decide has no arguments, and `withheld` is
        true."""
        approvers = tuple(tuple(roles) for roles in call.get("approvers", ()))
        is_shown = self.sees_records or may_decide(self._caller.roles, approvers)
        return (
            {**call, "withheld": False}
            if is_shown
            else {**call, "arguments_json": None, "asks": None, "withheld": True}
        )

    def standing_rule(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        """A standing rule. Its pattern, which may hold arguments, is None for a caller who neither sees records nor
        made the rule."""
        is_shown = self.sees_records or rule["by"] == self._caller.actor
        return dict(rule) if is_shown else {**rule, "pattern_json": None}

    # blobs

    def blob(self, text: str) -> bytes:
        """The bytes of a blob. Raises NotFound for one that this caller may not read, as for one that is not there;
        InvalidValue (not a ref), Damaged."""
        ref = parse_ref(text)
        if not self.may_read(ref):
            raise _no_blob(ref)
        return self._store.get_blob(ref)

    def message(self, text: str) -> dict[str, Any]:
        """A message of a chat: `{role, text, attachments: [type], tool_calls: [{id, name}], skip_tool_catalog}`,
        without the arguments of the calls that it proposes. Raises as `blob`; InvalidValue (`bad_message`) for a blob
        that is none."""
        ref = parse_ref(text)
        if not self.may_read(ref) and not self._says(ref):
            raise _no_blob(ref)
        message = _message(self._store.get_blob(ref))
        if message is None:
            raise InvalidValue(f"Blob {ref} is not a message of a chat.", code="bad_message")
        return message

    def may_read(self, ref: Ref) -> bool:
        """Returns whether this caller may read a blob."""
        if self._is_user:
            return True
        if self.sees_records:
            is_given = next(exposing_records(self._store, ref), None) is not None
            return is_given or ref in self._settings().values()
        if any(self._shows(record, ref) for record in self._exposing(ref)):
            return True
        return self._is_plain_message(ref) or (self._caller.has("approver") and self._waits_for(ref))

    def _shows(self, record: Record, ref: Ref) -> bool:
        """Returns whether a blob is a public view of this record, or a public part of a result."""
        view, public = _views(record, self._effect_of(record)) or (None, None)
        if ref in (view, public):
            return True
        if view is None:
            return False
        try:
            shown = canonical_json.parse(self._store.get_blob(parse_ref(view)))
        except DemiurgeError:
            return False
        return any(part["bytes_ref"] == ref for part in parts_of(shown))

    def _exposing(self, ref: Ref) -> Iterator[Record]:
        return islice(exposing_records(self._store, ref), MOST_LOOKED_AT)

    def _says(self, ref: Ref) -> bool:
        """Returns whether a blob is a message of a chat: a person's words, or the model's."""
        return any(ref in _words(record, self._effect_of(record)) for record in self._exposing(ref))

    def _is_plain_message(self, ref: Ref) -> bool:
        """Returns whether a blob is a message of a chat that proposes no calls."""
        message = _message(self._store.get_blob(ref)) if self._says(ref) else None
        return message is not None and not message["tool_calls"]

    def _waits_for(self, ref: Ref) -> bool:
        """Returns whether a blob is a call that this caller may decide on, or is named in such a call's arguments."""
        for unit, intent in self._waiting():
            call = intent.params.get("call_ref")
            if call is None or not may_decide(self._caller.roles, approvers_of(intent)):
                continue
            if ref in (call, (intent.leg or {}).get("asks")):
                return True
            if ref.encode() in self._store.get_blob(Ref(call)):
                return next(granting_records(self._store, unit, ref), None) is not None
        return False


def _views(record: Record, effect: str | None) -> tuple[Any, ...]:
    """The blobs of a record that are public whole: the view of a tool's result and the public form of its record; the
    findings about the evidence of an answer."""
    payload = record.body.get("payload")
    if record.kind != "receipt" or not isinstance(payload, Mapping):
        return ()
    if effect == LLM:
        return None, payload.get("findings_ref")
    return (payload.get("view_ref"), payload.get("record_ref")) if effect == TOOL else ()


def _words(record: Record, effect: str | None) -> tuple[Any, ...]:
    """The blobs of a record that are messages of a person or of the model."""
    payload, value = record.body.get("payload"), record.body.get("value")
    if record.kind == "receipt" and effect == LLM and isinstance(payload, Mapping):
        return (payload.get("output_ref"),)
    if record.kind == "event" and Unit.parse(record.unit).module == CHAT and isinstance(value, Mapping):
        said, name = value.get("$value"), _WORDS_OF_EVENTS.get(str(value.get("$tag")))
        if name is None or not isinstance(said, Mapping):
            return ()
        named = said.get(name)
        return tuple(message["message_ref"] for message in named) if isinstance(named, list) else (named,)
    return ()


def _message(data: bytes) -> dict[str, Any] | None:
    """The parts of a message that anyone who may look at the chat sees; None for a blob that is no such message."""
    try:
        node = canonical_json.parse_object(data)
        if node["role"] not in ("user", "assistant"):
            return None
        parts = node["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        return {
            "role": node["role"],
            "text": "".join(part["text"] for part in parts if part["type"] == "text"),
            "attachments": [part["type"] for part in parts if part["type"] != "text"],
            "tool_calls": [{"id": call["id"], "name": call["name"]} for call in node.get("tool_calls", ())],
            "skip_tool_catalog": node.get("skip_tool_catalog") is True,
        }
    except (InvalidValue, KeyError, TypeError, AttributeError):
        return None


def _no_blob(ref: Ref) -> NotFound:
    return NotFound(f"There is no blob {ref} in this world.")
