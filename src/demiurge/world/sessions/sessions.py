"""The session of each unit: the fold of its `tool.call` receipts, and nothing else (docs/architecture.md, rule 9).

A receipt may name a blob with the events of its call. What a running call does to its session is done to a copy, so it
is there when its receipt is, for the next call as for the next process, and never twice. The kernel knows none of this:
receipts are ingress, and replay runs no reducer of a session.

Each unit's session is kept and follows the journal. A process that has none yet begins at the newest checkpoint that it
can use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import from_json

from demiurge.errors import Damaged, Divergence, InvalidValue, NotFound
from demiurge.sessions.codec import EventCodec
from demiurge.sessions.session import Session
from demiurge.stores.protocol import Store
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import TOOL
from demiurge.world.record import Record, decode_row
from demiurge.world.sessions.checkpoint import (
    Checkpoint,
    Pieces,
    heard,
    is_checkpoint_of,
    read_checkpoint,
    write_checkpoint,
)
from demiurge.world.unit import Unit

__all__ = ["Records", "Sessions", "StoredRecords"]

log = logging.getLogger("demiurge.world")

PAGE = 512
KEPT = 128
"""So many sessions stay in memory, those that were asked for last."""

EVERY = 64
"""Calls from one checkpoint to the next."""


class Records(Protocol):
    """A unit's records, wherever they lie. May be called from any thread."""

    def count(self, unit: Unit) -> int:
        """How many there are."""
        ...

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterable[Record]:
        """Those among the `limit` records from number `start` on, in order."""
        ...

    def record(self, unit: Unit, seq: int) -> Record: ...

    def get_blob(self, ref: Ref) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Those of a store in this process."""

    store: Store

    def count(self, unit: Unit) -> int:
        head = self.store.head(str(unit))
        return head.next_seq if head is not None else 0

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterator[Record]:
        return (decode_row(row) for row in self.store.read(str(unit), start, limit) if row.kind == "receipt")

    def record(self, unit: Unit, seq: int) -> Record:
        return decode_row(next(self.store.read(str(unit), seq, 1)))

    def get_blob(self, ref: Ref) -> bytes:
        return self.store.get_blob(ref)


@dataclass(slots=True)
class _Folded:
    """A unit's session as of the records before `next_seq`. `calls`: since the last checkpoint. `lacks`: events of it
    were erased, so what follows from them may not fit."""

    session: Session
    next_seq: int = 0
    calls: int = 0
    pieces: Pieces = field(default_factory=dict)
    lacks: bool = False


class Sessions:
    """The sessions of one world. `codec` knows the types of their events; events of other types are passed over, and
    are there for a process that knows them. Safe to use from several threads."""

    def __init__(self, records: Records, codec: EventCodec) -> None:
        self.codec = codec
        self._records = records
        self._folded: dict[Unit, _Folded] = {}
        self._lock = threading.Lock()

    def of(self, unit: Unit) -> Session:
        """A copy of the unit's session as of its last durable receipt; an empty one for a unit without any.

        Raises Damaged and NotFound for a blob or a record, Divergence for events that the types and reducers at hand
        don't take any more."""
        with self._lock:
            return self._now(unit).session.clone(session_id=str(unit))

    def checkpoint(self, unit: Unit) -> Checkpoint | None:
        """The state that `of` gave last, to be named by the next receipt; None while it is not due. `stored` is to be
        called when its blobs are."""
        with self._lock:
            folded = self._folded.get(unit)
            if folded is None or folded.calls < EVERY:
                return None
            try:
                return write_checkpoint(folded.session, self.codec, folded.next_seq, folded.pieces)
            except InvalidValue as error:  # a slice of something that no tool declares: then without
                log.warning("the session of %s can't be written at once: %s", unit, error.message)
                folded.calls = 0
                return None

    def stored(self, unit: Unit, checkpoint: Checkpoint) -> None:
        with self._lock:
            if unit in self._folded:
                self._folded[unit].pieces = checkpoint.pieces

    def forget(self, units: Iterable[Unit]) -> None:
        """Fold these anew when they are asked for: events of theirs were erased."""
        with self._lock:
            for unit in units:
                self._folded.pop(unit, None)

    def _now(self, unit: Unit) -> _Folded:
        count = self._records.count(unit)
        folded = self._folded.pop(unit, None) or self._begun(unit, count)
        while folded.next_seq < count:
            limit = min(PAGE, count - folded.next_seq)
            for receipt in self._records.receipts(unit, folded.next_seq, limit):
                self._fold(folded, unit, receipt)
            folded.next_seq += limit
        self._folded[unit] = folded  # only now: one that could not follow is begun anew
        if len(self._folded) > KEPT:
            del self._folded[next(iter(self._folded))]
        return folded

    def _begun(self, unit: Unit, count: int) -> _Folded:
        """From the newest checkpoint that can be used, or from the first record."""
        end = count
        while end > 0:
            start = max(0, end - PAGE)
            for receipt in reversed(list(self._records.receipts(unit, start, end - start))):
                ref = _payload(receipt).get("session_ref")
                restored = self._restored(unit, ref) if ref is not None else None
                if restored is not None:
                    return restored
            end = start
        return _Folded(self._empty(unit))

    def _restored(self, unit: Unit, ref: Ref) -> _Folded | None:
        session = self._empty(unit)
        try:
            found = read_checkpoint(self._records.get_blob(ref), self.codec, self._records.get_blob, session)
        except (InvalidValue, Damaged, NotFound):  # the receipts say the same
            return None
        return _Folded(session, found[0], 0, found[1]) if found is not None else None

    def _is_usable(self, ref: Ref | None) -> bool:
        try:
            return ref is not None and is_checkpoint_of(self.codec, self._records.get_blob(ref))
        except (InvalidValue, Damaged, NotFound):
            return False

    def _empty(self, unit: Unit) -> Session:
        session = Session(session_id=str(unit))
        self.codec.prepare(session)
        return session

    def _fold(self, folded: _Folded, unit: Unit, receipt: Record) -> None:
        payload, status = _payload(receipt), receipt.body["status"]
        if status == "ok" and "record_ref" not in payload:
            return
        assert isinstance(receipt.cause, int)
        intent = self._records.record(unit, receipt.cause)
        if intent.body["kind"] != TOOL:
            return
        folded.calls = 1 if self._is_usable(payload.get("session_ref")) else folded.calls + 1
        where = f"record {unit} {receipt.unit_seq}"
        events = self._events(payload.get("events_ref"), where)
        if events is None:
            folded.lacks, events = True, []
        try:
            for event in (_invoked(receipt, intent.body["params"]), *events):
                folded.session.broadcast(event)
        except Exception as error:
            if folded.lacks:
                log.warning("%s: an event is left out, which followed from one that was erased", where)
                return
            message = f"{where}: a reducer does not take an event that was folded before ({type(error).__name__})."
            raise Divergence(message, code="session") from error

    def _events(self, ref: Ref | None, where: str) -> list[object] | None:
        """The events of a call; None when they were erased."""
        if ref is None:
            return []
        try:
            nodes = from_json(self._records.get_blob(ref))
            if not isinstance(nodes, list):
                raise Damaged("they are no list")
            return [event for event in map(self.codec.decode, nodes) if event is not None]
        except (Damaged, NotFound) as error:
            if error.code == "erased":
                return None
            raise Damaged(f"{where}: the events of this call are damaged: {error.message}") from error
        except InvalidValue as error:
            raise Divergence(f"{where}: {error.message}.", code="session") from error
        except ValueError as error:
            raise Damaged(f"{where}: the events of this call are damaged: they are not JSON") from error


def _invoked(receipt: Record, params: Mapping[str, Any]) -> ToolInvoked:
    payload = receipt.body["payload"]
    if receipt.body["status"] == "error":
        code = payload["code"]
    else:
        code = None if payload["ok"] else payload["error_code"] or ToolErrorCode.EXECUTION.value
    name, call_id, message = params["tool"], params["tool_call_id"], payload["message"]
    return heard(receipt.body["intent"], name, call_id, receipt.stamp.time_ns, receipt.unit, code, message)


def _payload(receipt: Record) -> Mapping[str, Any]:
    payload = receipt.body["payload"]
    return payload if isinstance(payload, Mapping) else {}
