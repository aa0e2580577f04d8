"""The decisions about calls of a chat that a reader of the chat should see, found in its records.

The chat's own state keeps the call that the model proposed. The records name the intent that took its place, with the
arguments that were used and who changed them, the standing rule that allowed a call without a question, and the
untrusted tools whose text the turn had read before the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.journal import PAGE, Journal
from demiurge.errors import DemiurgeError
from demiurge.values import canonical_json
from demiurge.values.refs import parse_ref
from demiurge.world.record import Record, decode_record
from demiurge.world.unit import Unit

__all__ = ["CallDecision", "CallDecisions", "with_decisions"]

MESSAGE: Final = b"UserMessage"


class CallDecision(NamedTuple):
    """A decision on a call: a person changed it, a standing rule allowed it, or its turn was tainted. `call` is what
    the model proposed, `{id, name, arguments_json}`; `by` is the person who decided, if one did. `changed_json` are the
    arguments that were used in place of the proposed ones, None if nobody changed them; `rule` is the id of the rule,
    None if there was none; `tainted` names the untrusted tools whose text the turn had read."""

    call: Mapping[str, Any]
    by: str | None
    changed_json: str | None = None
    rule: str | None = None
    tainted: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the call's `ToolCallView` that say more than what the model proposed."""
        said: dict[str, Any] = {"tainted": self.tainted} if self.tainted else {}
        if self.changed_json is None:
            return said | ({"rule": self.rule, "rule_by": self.by} if self.rule is not None else {})
        proposed = self.call["arguments_json"]
        return {**said, "arguments_json": self.changed_json, "proposed_json": proposed, "changed_by": self.by}

    def follows(self, known: CallDecision | None) -> bool:
        """Returns whether this is the next decision on the same call: its first, or a person's change of it."""
        return known is None or (self.changed_json is not None and known.changed_json is None)


class CallDecisions:
    """Follows what was decided about the calls of a chat from the message `request_id` on.

    Invariant: a read costs what was added since the last one; the first one also what was added since that message."""

    def __init__(self, backend: Backend, chat_id: str, request_id: int) -> None:
        self._backend, self._unit, self._request_id = backend, Unit(CHAT, chat_id), request_id
        self._next: int | None = None
        """The first record that was not read; None before the first read."""

    async def read(self) -> list[CallDecision]:
        """Returns the decisions that are new, oldest first. A caller who does not see records sees none, and one whose
        records or blobs can't be had is left out."""
        if not sees_records(self._backend.caller):
            return []
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[CallDecision]:
        found: list[CallDecision] = []
        with suppress(DemiurgeError):  # records that are damaged, or away in an archive
            end = self._end()
            start = self._next if self._next is not None else self._first(end)
            for record in Journal(self._backend).read(self._unit, start, kinds=("intent",)) if start < end else ():
                if record.unit_seq < end and _is_noted(record.body):
                    with suppress(DemiurgeError):  # a call that was erased
                        found.append(self._decided(record.body))
            self._next = end
        return found

    def _decided(self, intent: Mapping[str, Any]) -> CallDecision:
        used, approved = self._call(intent["params"]["call_ref"]), intent.get("approved") or {}
        tainted = tuple(intent["admitted"].get("tainted", ()))
        if "edited_from" not in intent:
            return CallDecision(used, approved.get("by"), rule=approved.get("rule"), tainted=tainted)
        proposed = self._call(intent["edited_from"]["call_ref"])
        return CallDecision(proposed, approved["by"], used["arguments_json"], tainted=tainted)

    def _call(self, ref: str) -> Mapping[str, Any]:
        return canonical_json.parse_object(self._backend.read.get_blob(parse_ref(ref)))

    def _first(self, end: int) -> int:
        """Returns the number of the record that took the message, 0 if it is not found; reads backwards from `end`."""
        while end > 0:
            start = max(0, end - PAGE)
            rows = self._backend.read.rows(str(self._unit), start, end - start)
            for record in (decode_record(data, position=at) for at, data in reversed(rows) if MESSAGE in data):
                if _request_id(record) == self._request_id:
                    return record.unit_seq
            end = start
        return 0

    def _end(self) -> int:
        """Returns the number that the next record of the chat will have."""
        heads = self._backend.read.heads(str(self._unit), 1)
        return next((head.next_seq for head in heads if head.unit == str(self._unit)), 0)


def _is_noted(intent: Mapping[str, Any]) -> bool:
    """Returns whether somebody changed the call, a rule allowed it, or its turn was tainted; a later leg of a call says
    nothing new."""
    if "leg" in intent:
        return False
    is_ruled = (intent.get("approved") or {}).get("rule") is not None
    return "edited_from" in intent or is_ruled or bool(intent["admitted"].get("tainted"))


def _request_id(record: Record) -> int | None:
    value = record.body.get("value") if record.kind == "event" and record.is_ingress else None
    said = value["$value"] if isinstance(value, Mapping) and value.get("$tag") == "UserMessage" else {}
    request_id: int | None = said.get("request_id")
    return request_id


async def with_decisions(backend: Backend, chat_id: str, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a chat's messages; a call that a person changed, that a standing rule allowed, or whose turn was tainted
    has the fields of `ToolCallView` that say so, and as `arguments_json` what was used."""
    if not any(message.get("tool_calls") for message in messages):
        return [*messages]
    decided = await CallDecisions(backend, chat_id, messages[0]["request_id"]).read()
    shown = []
    for message in messages:
        if decided and message.get("tool_calls"):
            message = {**message, "tool_calls": [_with_decision(call, decided) for call in message["tool_calls"]]}
        shown.append(message)
    return shown


def _with_decision(call: Mapping[str, Any], decided: list[CallDecision]) -> dict[str, Any]:
    """Returns the call with what was decided about it, which is taken out of `decided`."""
    known: CallDecision | None = None
    for one in [*decided]:
        if one.call == call and one.follows(known):
            decided.remove(one)
            known = one
    return {**call, **(known.fields if known is not None else {})}
