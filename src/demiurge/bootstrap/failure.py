"""The failure that an event led to: the unit that it was for refused it, or failed at it.

A refusal is a recorded outcome like any other (docs/architecture.md, rule 1), so it is found in the records that the
event led to, also by a process that did not send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatCell, Failed
from demiurge.bootstrap.journal import Journal
from demiurge.world.history.trace import lineage
from demiurge.world.host import Accepted
from demiurge.world.record import Record
from demiurge.world.unit import Unit
from demiurge.world.workspace import EDIT_REFUSED, REJECTED

__all__ = ["failure"]

REFUSALS = ("demiurge/ChatFailed@1", "demiurge/CallRefused@1", EDIT_REFUSED)
"""Events with a code and a message that say no."""


async def failure(backend: Backend, accepted: Accepted) -> Failed | None:
    """Returns the first failure that the event led to in its own unit so far: it was not taken, a step or a plan
    failed, or the turn that it began did. None if there is none."""
    records = Journal(backend).read(accepted.unit, accepted.seq)
    found = lineage(records, (accepted.unit, accepted.seq))
    for record in found:
        failed = _failed(record)
        if failed is not None:
            return failed
    return await _failed_turn(backend, Unit.parse(accepted.unit), found[0].body["value"])


def _failed(record: Record) -> Failed | None:
    body = record.body
    if record.kind == "step" and "error" in body:
        return Failed(body["error"]["code"], body["error"]["message"])
    if record.kind == "plan_ended" and body["status"] == "error":
        return Failed(body["code"], body["message"])
    return _refused(body["schema"], body["value"]) if record.kind == "event" and not record.is_ingress else None


def _refused(schema: str, value: Mapping[str, Any]) -> Failed | None:
    if schema in REFUSALS:
        return Failed(value["code"], value["message"])
    if schema == REJECTED:
        message = f"The workspace is at version {value['actual']}, not {value['expected']}."
        return Failed("version_conflict", message)
    return None


async def _failed_turn(backend: Backend, unit: Unit, value: Mapping[str, Any]) -> Failed | None:
    """Returns why the turn of a message failed; None for any other event, and for a turn that did not fail."""
    if unit.module != CHAT or value["$tag"] != "UserMessage":
        return None
    turn = await ChatCell(backend, unit.key).turn()
    return turn.failed if turn is not None and turn.request_id == value["$value"]["request_id"] else None
