"""`Sessions`: the session of each unit, which is the fold of its `tool.call` receipts (docs/architecture.md, rule 9).

A receipt may name a blob with the events of its call. A running call changes a copy of the session, so its events take
effect once its receipt is durable, for the next call as for the next process, and never twice. The kernel knows none of
this: receipts are ingress, and replay runs no session reducer.

Each unit's session is cached and follows the journal. A process without it begins at the newest checkpoint that it can
use.
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
    invoked_event,
    is_checkpoint_of,
    read_checkpoint,
    write_checkpoint,
)
from demiurge.world.unit import Unit

__all__ = ["Records", "Sessions", "StoredRecords"]

log = logging.getLogger("demiurge.world")

PAGE = 512
KEPT = 128
"""How many sessions stay in memory: those used last."""

EVERY = 64
"""How many calls lie between two checkpoints."""


class Records(Protocol):
    """A unit's records, in this process or another. May be called from any thread."""

    def count(self, unit: Unit) -> int:
        """Returns how many records the unit has."""
        ...

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterable[Record]:
        """Yields the receipts among the `limit` records from number `start` on, in order."""
        ...

    def record(self, unit: Unit, seq: int) -> Record: ...

    def get_blob(self, ref: Ref) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """The records in a store of this process."""

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
    """A unit's session as of the records before `next_seq`. `calls` counts the calls since the last checkpoint. `lacks`
    is true if events were erased, so that later events may not apply."""

    session: Session
    next_seq: int = 0
    calls: int = 0
    pieces: Pieces = field(default_factory=dict)
    lacks: bool = False


class Sessions:
    """The sessions of one world. `codec` knows the types of their events; events of other types are skipped and remain
    for a process that knows them. Safe to use from several threads."""

    def __init__(self, records: Records, codec: EventCodec) -> None:
        self.codec = codec
        self._records = records
        self._folded: dict[Unit, _Folded] = {}
        self._lock = threading.Lock()

    def of(self, unit: Unit) -> Session:
        """Returns a copy of the unit's session as of its last durable receipt; empty if it has none.

        Raises Damaged and NotFound for a blob or a record, Divergence for events that the types and session reducers at
        hand no longer take.
        """
        with self._lock:
            return self._now(unit).session.clone(session_id=str(unit))

    def checkpoint(self, unit: Unit) -> Checkpoint | None:
        """Returns a checkpoint of the state that `of` gave last, for the next receipt to name; None while it is not
        due. Call `stored` once its blobs are stored."""
        with self._lock:
            folded = self._folded.get(unit)
            if folded is None or folded.calls < EVERY:
                return None
            try:
                return write_checkpoint(folded.session, self.codec, folded.next_seq, folded.pieces)
            except InvalidValue as error:  # a slice of a type that no tool declares: no checkpoint
                log.warning("no checkpoint of the session of %s can be written: %s", unit, error.message)
                folded.calls = 0
                return None

    def stored(self, unit: Unit, checkpoint: Checkpoint) -> None:
        """Notes that the blobs of a checkpoint are stored."""
        with self._lock:
            if unit in self._folded:
                self._folded[unit].pieces = checkpoint.pieces

    def forget(self, units: Iterable[Unit]) -> None:
        """Drops the sessions of these units, whose events were erased. They are folded again when next used."""
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
        self._folded[unit] = folded  # only now: a session that failed to follow begins again
        if len(self._folded) > KEPT:
            del self._folded[next(iter(self._folded))]
        return folded

    def _begun(self, unit: Unit, count: int) -> _Folded:
        """Returns the session at the newest usable checkpoint, or an empty one before the first record."""
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
        except (InvalidValue, Damaged, NotFound):  # the receipts hold the same
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
                log.warning("%s: an event is skipped because it depends on an erased one", where)
                return
            message = f"{where}: a session reducer fails on an event that it took before ({type(error).__name__})."
            raise Divergence(message, code="session") from error

    def _events(self, ref: Ref | None, where: str) -> list[object] | None:
        """Returns the events of a call; None if they were erased."""
        if ref is None:
            return []
        try:
            nodes = from_json(self._records.get_blob(ref))
            if not isinstance(nodes, list):
                raise Damaged("they are not a list")
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
    return invoked_event(receipt.body["intent"], name, call_id, receipt.stamp.time_ns, receipt.unit, code, message)


def _payload(receipt: Record) -> Mapping[str, Any]:
    payload = receipt.body["payload"]
    return payload if isinstance(payload, Mapping) else {}
