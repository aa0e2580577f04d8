"""`ChatResults`: the texts that the results of a unit's own calls name by their address.

A unit was given many blobs: messages, attachments, instructions. Only two kinds may be read here: a text that was too
large for a result, and a file of a result, each of a call of this unit. The record of the call decides: it must expose
the blob, and the message that the model got must name it. An address of another chat, of a blob that is no result, or
of one that does not exist is answered alike.

The read needs no effect of its own. The call that reads is recorded with its arguments and its page, and an address
always stands for the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import Damaged, InvalidValue, NotFound
from demiurge.tools.errors import ToolUserError
from demiurge.tools.stages.spill import spilled_refs
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, parse_ref
from demiurge.world.effect import EffectCall
from demiurge.world.messages import untrusted_in
from demiurge.world.record import Record

__all__ = ["ChatResults"]


class ChatResults:
    """The `GivenResults` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    @property
    def max_bytes(self) -> int | None:
        policies = (self._call.manifest.tool_policy, self._call.services.manifest.tool_policy)
        limits = (policy.budgets.max_result_bytes for policy in policies)
        return min((limit for limit in limits if limit is not None), default=None)

    async def text(self, ref: str) -> str:
        try:
            wanted = parse_ref(ref)
        except InvalidValue as error:
            raise ToolUserError(error.message) from None
        services = self._call.services
        found = await services.granting_record(self._call.unit, wanted, lambda record: self._gives(record, wanted))
        if found is None:
            raise ToolUserError(f"This chat was given no result {wanted}.")
        self._call.untrusted.update(untrusted_in(self._message(found)))
        try:
            return self._call.get_blob(wanted).decode()
        except NotFound as error:
            gone = "was erased" if error.code == "erased" else "is gone"
            raise ToolUserError(f"The result {wanted} {gone}.") from None
        except Damaged:
            raise ToolUserError(f"The result {wanted} is damaged.") from None
        except UnicodeDecodeError:
            raise ToolUserError(f"The file {wanted} is not text, so it can't be read in pages.") from None

    def _gives(self, record: Record, wanted: Ref) -> bool:
        """Returns whether this is the record of a call whose result names `wanted`."""
        message = self._message(record)
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return message.get("role") == "tool" and any(wanted in _named_by(part) for part in parts or ())

    def _message(self, record: Record) -> Mapping[str, Any]:
        """Returns the message with the result of a call; an empty one for another record."""
        payload = record.body.get("payload")
        if record.kind != "receipt" or not isinstance(payload, Mapping) or "tool_call_id" not in payload:
            return {}
        try:
            return canonical_json.parse_object(self._call.get_blob(Ref(payload["message_ref"])))
        except (NotFound, Damaged, InvalidValue, KeyError):
            return {}


def _named_by(part: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the addresses that a part of a result gives to be read."""
    if part.get("type") == "file":
        return (part.get("bytes_ref", ""),)
    return spilled_refs(part["text"]) if part.get("type") == "text" else ()
