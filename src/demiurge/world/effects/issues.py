"""`issues.*`: the issues of a world and the latest receipts of its core tools, for a running tool to read.

The receipts come from the journal: only the record of a call that a core tool answered counts, never an id that stands
in some text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from demiurge.errors import DemiurgeError, NotFound
from demiurge.registry.core_ids import CORE_IDS
from demiurge.tools.capabilities import FoundIssues, IssueSummary, ReceiptSummary
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.issues import ISSUES, MAX_ISSUES, RECENT_RECORDS
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.review.issue_unit import ISSUE
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["IssueEffects", "WorldIssues"]

_MS: Final = 1_000_000
_CORE_CALLS: Final = frozenset(f"core__{core_id}" for core_id in CORE_IDS)


class IssueEffects:
    """The adapter of `issues.*`."""

    kinds = ISSUES.names

    @classmethod
    def bind(cls, _parts: WorldParts) -> IssueEffects:
        return cls()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        answers = {"issues.search": _search, "issues.receipts": _receipts}
        try:
            return await answers[call.intent.kind](call, call.intent.params)
        except DemiurgeError as error:
            return failed(error.code, error.message)


async def _search(call: EffectCall, params: Mapping[str, Any]) -> Result:
    """Stores the issues with this status, each with the state of its unit that was read. In a world with more than
    `MAX_ISSUES` it looks at those that changed last, and says so."""
    found: list[dict[str, Any]] = []
    keys = call.services.keys(ISSUE, latest_first=True)
    for key in islice(keys, MAX_ISSUES):
        reading = await call.read_cell(Unit(ISSUE, key))
        if reading.cell is not None and params["status"] in (None, reading.cell["status"]):
            found.append({**asdict(_summary(key, reading.cell)), "reading": reading.to_node()})
    document = {"issues": found, "truncated": next(keys, None) is not None}
    return succeeded(issues_ref=await call.put_blob(canonical_json.encode(document)), count=len(found))


def _summary(issue_id: str, cell: Mapping[str, Any]) -> IssueSummary:
    return IssueSummary(
        issue_id,
        **{name: cell[name] for name in ("title", "status", "priority", "assignee")},
        tags=tuple(cell["tags"]),
        created_ms=cell["created_at"] // _MS,
        updated_ms=cell["updated_at"] // _MS,
    )


async def _receipts(call: EffectCall, params: Mapping[str, Any]) -> Result:
    found = [asdict(receipt) for receipt in islice(_recent(call), params["limit"])]
    return succeeded(receipts_ref=await call.put_blob(canonical_json.encode(found)), count=len(found))


def _recent(call: EffectCall) -> Iterator[ReceiptSummary]:
    """Yields the receipts that recorded calls of core tools gave, newest first. Calls whose record was erased are left
    out."""
    for record in call.services.latest("receipt", RECENT_RECORDS):
        with suppress(NotFound):
            receipt = _receipt_in(record, call)
            if receipt is not None:
                yield receipt


def _receipt_in(record: Record, call: EffectCall) -> ReceiptSummary | None:
    """Returns the receipt of a core tool in the record of a call, if it has one."""
    payload = record.body.get("payload")
    if not isinstance(payload, Mapping) or payload.get("record_ref") is None or not payload.get("ok"):
        return None
    made = canonical_json.parse_object(call.get_blob(Ref(payload["record_ref"])))
    receipt = (made["result"] or {}).get("receipt") if made["name"] in _CORE_CALLS else None
    if receipt is None:
        return None
    files = dict.fromkeys(item["path"] for item in receipt["evidence"])
    tool, time_ms = made["name"].removeprefix("core__"), record.stamp.time_ns // _MS
    return ReceiptSummary(receipt["receipt_id"], tool, record.stamp.actor, time_ms, tuple(files))


class WorldIssues:
    """The `Issues` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def search(self, *, status: str | None = None) -> FoundIssues:
        found = await ask(self._call, "issues.search", status=status)
        document = canonical_json.parse_object(self._call.get_blob(Ref(found["issues_ref"])))
        plain = [{name: value for name, value in entry.items() if name != "reading"} for entry in document["issues"]]
        issues = [IssueSummary(**{**entry, "tags": tuple(entry["tags"])}) for entry in plain]
        return FoundIssues(issues, document["truncated"])

    async def recent_receipts(self, *, limit: int) -> Sequence[ReceiptSummary]:
        found = await ask(self._call, "issues.receipts", limit=limit)
        entries = canonical_json.parse(self._call.get_blob(Ref(found["receipts_ref"])))
        return [ReceiptSummary(**{**entry, "files": tuple(entry["files"])}) for entry in entries]
