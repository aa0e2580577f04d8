"""Doubts: effects of which nobody knows whether they took place, and what a person has found out about them.

A doubt is a receipt `unknown_outcome` of an effect that was not requested by a running tool (then the tool's own call
is in doubt). Its intent names it. A person's finding is a record of the unit `sys/World@1/doubts` (see
`kernel.doubts`), so the doubt's own record stays as it is. A doubt is settled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.stores.protocol import Row, Store
from demiurge.tools.errors import ToolErrorCode
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import TOOL
from demiurge.world.record import Record, decode_row
from demiurge.world.unit import Unit

__all__ = ["DOUBTS", "Doubt", "Settlement", "failed_effects", "settlements"]

DOUBTS: Final = Unit("sys/World@1", "doubts")
"""The unit that holds the settlements and nothing else."""

UNKNOWN: Final = ToolErrorCode.UNKNOWN_OUTCOME.value


@dataclass(frozen=True, slots=True)
class Doubt:
    """An effect that has failed and may be in doubt. `intent`: 32 bytes; `seq`: the number of its receipt in `unit`;
    `at_ns`: wall time of the receipt; `code` and `message`: those of the receipt; `caller`: who asked for the effect.
    `tool`, `tool_call_id` and `call_ref` are set for a tool's call."""

    intent: bytes
    unit: str
    seq: int
    at_ns: int
    kind: str
    caller: Caller
    code: str
    message: str
    tool: str | None = None
    tool_call_id: str | None = None
    call_ref: Ref | None = None

    @property
    def is_unknown(self) -> bool:
        """Returns whether the receipt itself says `unknown_outcome`."""
        return self.code == UNKNOWN

    @property
    def call(self) -> dict[str, Any]:
        """The entry for this doubt in a settlement."""
        return {"intent": self.intent, "kind": self.kind, "tool": self.tool, "tool_call_id": self.tool_call_id}


@dataclass(frozen=True, slots=True)
class Settlement:
    """A person's finding. `body` is that of the `doubt_decided` record (see `bootstrap.doubts`). `is_whole` is true
    once the ledger agrees and the units that asked were told."""

    id: str
    seq: int
    at_ns: int
    body: Mapping[str, Any]
    is_whole: bool

    @property
    def intents(self) -> Iterator[bytes]:
        """The intents of the settled effects; several if their calls are equal."""
        return (call["intent"] for call in self.body["calls"])

    def public(self) -> dict[str, Any]:
        """Returns `{done, reason, by, at_ns, result_ref}`."""
        fields = {name: self.body[name] for name in ("done", "reason", "by", "result_ref")}
        return {**fields, "at_ns": self.at_ns}


def settlements(store: Store) -> list[Settlement]:
    """Returns every settlement, oldest first. Raises Damaged."""
    records = [decode_row(row) for row in store.read(str(DOUBTS))]
    whole = {record.body["id"] for record in records if record.kind == "doubt_settled"}
    return [
        Settlement(r.body["id"], r.unit_seq, r.stamp.time_ns, r.body, r.body["id"] in whole)
        for r in records
        if r.kind == "doubt_decided"
    ]


def failed_effects(
    store: Store, rows: Iterable[Row], is_wanted: Callable[[str], bool], only_unknown: bool
) -> Iterator[Doubt]:
    """Yields the effects among `rows` whose receipts say that they failed; with `only_unknown`, only those with an
    unknown outcome. For a call that failed with another code, `is_wanted` is asked about its tool. Raises Damaged."""
    for row in rows:
        if row.kind != "receipt" or (only_unknown and UNKNOWN.encode() not in row.data):
            continue
        receipt = decode_row(row)
        found = _failure(receipt)
        if found is None or not isinstance(receipt.cause, int):
            continue
        intent = _intent(store, receipt.unit, receipt.cause)
        params, origin = intent.body["params"], intent.body["origin"]
        tool = params["tool"] if intent.body["kind"] == TOOL else None
        code, message = found
        if origin["kind"] == "tool" or not (code == UNKNOWN or (tool is not None and is_wanted(tool))):
            continue
        yield Doubt(
            receipt.body["intent"],
            receipt.unit,
            receipt.unit_seq,
            receipt.stamp.time_ns,
            intent.body["kind"],
            receipt.stamp.caller,
            code,
            message,
            tool,
            params["tool_call_id"] if tool is not None else None,
            params["call_ref"] if tool is not None else None,
        )


def _failure(receipt: Record) -> tuple[str, str] | None:
    """Returns the code and the message of a receipt of a failed effect, else None."""
    payload = receipt.body["payload"]
    if receipt.body["status"] != "ok":
        return str(payload.get("code")), str(payload.get("message", ""))
    if payload.get("ok") is False and payload.get("error_code"):
        return str(payload["error_code"]), str(payload.get("message", ""))
    return None


def _intent(store: Store, unit: str, seq: int) -> Record:
    return decode_row(next(iter(store.read(unit, seq))))
