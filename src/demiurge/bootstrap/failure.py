"""The failure that an event led to: the unit that it was for refused it, or failed at it.

A refusal is a recorded outcome like any other (docs/architecture.md, rule 1), so it is found in the records that the
event led to, also by a process that did not send it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from demiurge.apps.demiurge import CHAT, TITLES
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatCell, Failed
from demiurge.bootstrap.journal import Journal
from demiurge.world.connections import CONNECTION_REFUSED
from demiurge.world.history.trace import Place, TracedRecord, lineage
from demiurge.world.host import Accepted
from demiurge.world.review.issue_unit import ISSUE_REFUSED
from demiurge.world.review.model_run_unit import MODEL_RUN_REFUSED
from demiurge.world.review.proposal_unit import REFUSED as PROPOSAL_REFUSED
from demiurge.world.unit import Unit
from demiurge.world.workspace import EDIT_REFUSED, REJECTED

__all__ = ["consequences", "failure", "failure_in", "refusal"]

R = TypeVar("R", bound=TracedRecord)

CHAT_FAILED = "demiurge/ChatFailed@1"
REFUSALS = (
    *(CHAT_FAILED, "demiurge/CallRefused@1", EDIT_REFUSED, CONNECTION_REFUSED),
    *(PROPOSAL_REFUSED, ISSUE_REFUSED, MODEL_RUN_REFUSED),
)
"""Events with a code and a message that say no."""


def consequences(records: Iterable[R], root: Place) -> list[R]:
    """Returns the record at `root` and all its consequences (`lineage`), but for the request for a chat's title: nobody
    waits for it, and a turn is done whatever comes of it."""
    of_titles = f"{TITLES}/"
    about_title = root[0].startswith(of_titles)
    return lineage((r for r in records if about_title or not r.unit.startswith(of_titles)), root)


async def failure(backend: Backend, accepted: Accepted) -> Failed | None:
    """Returns the first failure that the event led to in its own unit so far: it was not taken, a step or a plan
    failed, or the turn that it began did. None if there is none."""
    records = Journal(backend).read(accepted.unit, accepted.seq)
    return await failure_in(backend, lineage(records, (accepted.unit, accepted.seq)))


async def refusal(backend: Backend, accepted: Accepted) -> Failed | None:
    """Returns why the unit of the event did not take it; None if it did. A turn that failed later was taken."""
    records = lineage(Journal(backend).read(accepted.unit, accepted.seq), (accepted.unit, accepted.seq))
    for record in records:
        value = record.body.get("value", {})
        began = record.kind == "event" and record.body["schema"] == CHAT_FAILED and value["round"] > 0
        if _is_derived(record) and not began and (found := _refused(record.body["schema"], value)) is not None:
            return found
    return None


async def failure_in(backend: Backend, found: Sequence[TracedRecord]) -> Failed | None:
    """Returns the first failure that the event `found[0]` led to in its own unit, given all records of its lineage."""
    root = found[0]
    for record in lineage((record for record in found if record.unit == root.unit), (root.unit, root.unit_seq)):
        failed = _failed(record)
        if failed is not None:
            return failed
    return await _failed_turn(backend, Unit.parse(root.unit), root.body.get("value", {}))


def _failed(record: TracedRecord) -> Failed | None:
    body = record.body
    if record.kind == "step" and "error" in body:
        return _as_failed(body["error"])
    if record.kind == "plan_ended" and body["status"] == "error":
        return _as_failed(body)
    return _refused(body["schema"], body.get("value", {})) if _is_derived(record) else None


def _is_derived(record: TracedRecord) -> bool:
    return record.kind == "event" and isinstance(record.cause, int)


def _as_failed(node: Mapping[str, Any]) -> Failed:
    return Failed(node["code"], node.get("message", ""))


def _refused(schema: str, value: Mapping[str, Any]) -> Failed | None:
    if schema in REFUSALS:
        return _as_failed(value)
    if schema == REJECTED and "actual" in value:
        message = f"The workspace is at version {value['actual']}, not {value['expected']}."
        return Failed("version_conflict", message)
    return None


async def _failed_turn(backend: Backend, unit: Unit, value: Mapping[str, Any]) -> Failed | None:
    """Returns why the turn of a message failed; None for any other event, and for a turn that did not fail."""
    if unit.module != CHAT or value.get("$tag") != "UserMessage":
        return None
    turn = await ChatCell(backend, unit.key).turn()
    return turn.failed if turn is not None and turn.request_id == value["$value"]["request_id"] else None
