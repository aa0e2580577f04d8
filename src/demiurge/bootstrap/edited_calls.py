"""The calls of a chat that a person approved with other arguments, found in the chat's records.

The chat's own state keeps the call that the model proposed. The records name the intent that took its place, with the
arguments that were used and who changed them.
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

__all__ = ["EditedCall", "EditedCalls", "with_edits"]

MESSAGE: Final = b"UserMessage"


class EditedCall(NamedTuple):
    """A call that ran with the arguments of a person. `call` is what the model proposed, `{id, name,
    arguments_json}`; `by` is the person who changed it."""

    call: Mapping[str, Any]
    arguments_json: str
    by: str


class EditedCalls:
    """Follows the edited calls of a chat from the message `request_id` on.

    Invariant: a read costs what was added since the last one; the first one also what was added since that message."""

    def __init__(self, backend: Backend, chat_id: str, request_id: int) -> None:
        self._backend, self._unit, self._request_id = backend, Unit(CHAT, chat_id), request_id
        self._next: int | None = None
        """The first record that was not read; None before the first read."""

    async def read(self) -> list[EditedCall]:
        """Returns the edits that are new, oldest first. A caller who does not see records sees none, and an edit whose
        records or blobs can't be had is left out."""
        if not sees_records(self._backend.caller):
            return []
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[EditedCall]:
        found: list[EditedCall] = []
        with suppress(DemiurgeError):  # records that are damaged, or away in an archive
            end = self._end()
            start = self._next if self._next is not None else self._first(end)
            for record in Journal(self._backend).read(self._unit, start, kinds=("intent",)) if start < end else ():
                if record.unit_seq < end and "edited_from" in record.body:
                    with suppress(DemiurgeError):  # a call that was erased
                        found.append(self._edited(record))
            self._next = end
        return found

    def _edited(self, record: Record) -> EditedCall:
        proposed, used = (
            canonical_json.parse_object(self._backend.read.get_blob(parse_ref(ref)))
            for ref in (record.body["edited_from"]["call_ref"], record.body["params"]["call_ref"])
        )
        return EditedCall(proposed, used["arguments_json"], record.body["approved"]["by"])

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


def _request_id(record: Record) -> int | None:
    value = record.body.get("value") if record.kind == "event" and record.is_ingress else None
    said = value["$value"] if isinstance(value, Mapping) and value.get("$tag") == "UserMessage" else {}
    request_id: int | None = said.get("request_id")
    return request_id


async def with_edits(backend: Backend, chat_id: str, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a chat's messages, with the arguments that were used in each call that a person changed: its
    `arguments_json`, beside `proposed_json` and `changed_by`."""
    if not any(message.get("tool_calls") for message in messages):
        return [*messages]
    edits = await EditedCalls(backend, chat_id, messages[0]["request_id"]).read()
    shown = []
    for message in messages:
        if edits and message.get("tool_calls"):
            message = {**message, "tool_calls": [_with_edit(call, edits) for call in message["tool_calls"]]}
        shown.append(message)
    return shown


def _with_edit(call: Mapping[str, Any], edits: list[EditedCall]) -> dict[str, Any]:
    """Returns the call with its edit, which is taken out of `edits`."""
    for edit in edits:
        if edit.call == call:
            edits.remove(edit)
            used = {"arguments_json": edit.arguments_json, "proposed_json": call["arguments_json"]}
            return {**call, **used, "changed_by": edit.by}
    return {**call}
