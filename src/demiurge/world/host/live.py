"""`LiveUnit`: a unit in memory, with its state and its mailbox.

It takes one ingress after the other; all that wait in the mailbox become one batch of records. The state in memory
moves on only when that batch is durable, and only then is anything acknowledged, delivered or dispatched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from demiurge import faults
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.protocol import Attempt, Batch, Outgoing, Row, Snapshot, Store
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.fast_constructor import fast_constructor
from demiurge.world.history.replay import Manifests
from demiurge.world.host.commit import Committer
from demiurge.world.host.loader import Loader
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Sent
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.record import Record
from demiurge.world.snapshot import take_snapshot
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["FRESH", "LiveUnit", "outgoing_of", "read_outgoing", "rows_of"]

log = logging.getLogger("demiurge.world")

FRESH = "new:"
"""The prefix of an ingress id that was drawn at random: nobody can have offered it before."""


_Row = fast_constructor(Row)


class _Waiting(NamedTuple):
    """An ingress, the future of its record's number, and what is written with it: see `LiveUnit.offer`."""

    ingress: Ingress
    taken: asyncio.Future[int | None]
    delivers: str | None
    begins: Attempt | None


class _Moved(NamedTuple):
    """The outcome of a whole mailbox, which nobody sees before it is durable."""

    taken: Sequence[_Waiting]
    numbers: Sequence[int | None]
    state: UnitState
    tail: int
    steps: Sequence[Advance]
    refused: DemiurgeError | None
    attempts: Sequence[Attempt] = ()
    asks_others: bool = False
    """True if other intents than before wait for a person."""


@dataclass(slots=True)
class LiveUnit:
    """A unit in memory. `publish` is called with each step's outcome once it is durable, and `asks_changed` if other
    intents wait for a person than before; `failure` is the error that kept the last step from being durable.

    A failed write may still have reached the disk, so after one `recover` reads the unit again before it goes on.
    """

    state: UnitState
    tail: int
    """Size in bytes of the records since the last snapshot."""
    manifests: Manifests
    store: Store
    committer: Committer
    loader: Loader
    tail_bytes: int
    publish: Callable[[LiveUnit, Advance], None]
    recover: Callable[[LiveUnit], None]
    asks_changed: Callable[[], None]
    awake: bool = False
    """True once the work that an earlier process left open in the unit was taken up."""
    mailbox: list[_Waiting] = field(default_factory=list)
    effects: dict[bytes, asyncio.Task[None]] = field(default_factory=dict)
    one_call: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Tools of one unit run one after the other, so that each call sees the changes of the one before."""
    calls: dict[bytes, OpenIntent | None] = field(default_factory=dict)
    """The calls that wait for their turn, in order; None for a call that an earlier process began."""
    begun: set[bytes] = field(default_factory=set)
    """Intents whose attempt is durable already, before anybody has begun to perform them."""
    snapshot_bytes: int = 0
    """Size of the last snapshot in bytes: the next one waits for a tail of that size, so that snapshots are never the
    larger part."""
    failure: DemiurgeError | None = None
    is_moving: bool = False
    """True while a step is to be taken or is not durable yet."""
    is_closed: bool = False
    _rest: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """True if the store holds everything known of this unit: nothing runs in it or waits for its turn, and nothing
        failed."""
        is_busy = self.is_moving or self.mailbox or self.effects or self.calls or self.begun
        return not is_busy and self.failure is None

    @property
    def going_on(self) -> list[asyncio.Future[None]]:
        """The running effects of this unit, and the step that is being taken."""
        going: list[asyncio.Future[None]] = list(self.effects.values())
        if self.is_moving:
            if self._rest is None:
                self._rest = asyncio.get_running_loop().create_future()
            going.append(self._rest)
        return going

    async def at_rest(self) -> None:
        """Waits until no step of this unit is to be taken; its effects may still run."""
        while self.is_moving:
            if self._rest is None:
                self._rest = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._rest)

    def is_begun_here(self, key: bytes) -> bool:
        """Returns whether this process performs an intent, or is about to."""
        return key in self.begun or self.is_doing(key)

    def is_doing(self, key: bytes) -> bool:
        """Returns whether a task for an intent is running; an ended task may still be in `effects`."""
        return key in self.effects and not self.effects[key].done()

    def offer(
        self, ingress: Ingress, *, delivers: str | None = None, begins: Attempt | None = None
    ) -> asyncio.Future[int | None]:
        """Takes an ingress. The future gives the number of its record once durable, None if it changed nothing. The
        same transaction removes the message `delivers` from the outbox, and writes the attempt `begins` if there are
        records.

        An ingress whose id was taken before gives its first record. Raises Unavailable.
        """
        taken: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.mailbox.append(_Waiting(ingress, taken, delivers, begins))
        if not self.is_moving:
            self.is_moving = True
            self.committer.soon(self._move)
        return taken

    def close(self) -> None:
        """Stops taking ingress, and fails those that still wait; the unit's tasks have ended. A running write ends
        first."""
        self.is_closed = True
        taken, self.mailbox = self.mailbox, []
        for waiting in taken:
            _tell(waiting, Unavailable("This world is being closed.", code="closing"))

    def fail(self, fault: BaseException) -> DemiurgeError:
        """Notes the error that keeps this unit from going on, so that `settle` can raise it. Returns the error."""
        if isinstance(fault, DemiurgeError):
            self.failure = fault
        else:
            log.error("unit %s failed", self.state.unit, exc_info=fault)
            self.failure = DemiurgeError(f"Unit {self.state.unit} failed: {type(fault).__name__}.", code="internal")
        return self.failure

    def _move(self) -> None:
        """Computes the outcome of the mailbox, and has it written."""
        taken, self.mailbox = self.mailbox, []
        try:
            if self.failure is not None:
                self.recover(self)
            self._advance(taken)
        except Exception as fault:  # noqa: BLE001 - the waiting callers get the error
            self._failed(taken, fault)

    def _advance(self, taken: Sequence[_Waiting]) -> None:
        state, name = self.state, str(self.state.unit)
        rows: list[Row] = []
        steps: list[Advance] = []
        numbers: list[int | None] = []
        taken_now: dict[str, int | None] = {}
        refused: DemiurgeError | None = None
        for waiting in taken:
            ingress = waiting.ingress
            known = taken_now.get(ingress.id)
            if known is None and not _is_new(ingress, state):
                known = self.store.find_ingress(name, ingress.id)
            if known is not None:
                numbers.append(known)
                continue
            try:
                outcome = self._step(state, ingress)
            except DemiurgeError as error:  # concerns this ingress alone: the others go on
                refused = error
                numbers.append(None)
                _tell(waiting, error)
                continue
            number = outcome.records[0].unit_seq if outcome.records else None
            numbers.append(number)
            taken_now[ingress.id] = number
            rows += rows_of(outcome.records, ingress.id)
            steps.append(outcome)
            state = outcome.state
        delivered = tuple(w.delivers for w in taken if w.delivers is not None and not w.taken.done())
        if not rows and not delivered:
            self._moved(_Moved(taken, numbers, state, self.tail, steps, refused), None)
            return
        outbox = tuple(outgoing_of(sent) for outcome in steps for sent in outcome.outbox)
        faults.point("unit.advanced")
        blobs = [blob for outcome in steps for blob in outcome.new_blobs]
        tail = self.tail + sum(len(row.data) for row in rows)
        snapshot = None
        if tail >= max(self.tail_bytes, self.snapshot_bytes):
            tail, snapshot = 0, self._snapshot(state, blobs)
        asks = state.waiting if state.waiting != self.state.waiting else None
        batch = Batch(name, self.state.seq, tuple(rows), state.is_open, outbox, delivered, snapshot, asks)
        attempts = [waiting.begins for waiting in taken if waiting.begins is not None]
        moved = _Moved(taken, numbers, state, tail, steps, refused, attempts, asks is not None)
        self.committer.append(batch, blobs, partial(self._moved, moved), attempts)

    def _step(self, state: UnitState, ingress: Ingress) -> Advance:
        """Takes a step under the manifest that was in force when the ingress came in."""
        manifest = ingress.stamp.manifest
        assert manifest is not None
        return advance_with_blobs(self.manifests[manifest], state, ingress, self.committer.get_blob, self.loader.lost)

    def _moved(self, moved: _Moved, error: BaseException | None) -> None:
        """Publishes what is durable now, or the error that kept it from being durable."""
        if error is not None:
            self._failed(moved.taken, error)
            return
        try:
            faults.point("unit.committed")
            self.state, self.tail = moved.state, moved.tail
            self.begun.update(attempt.intent for attempt in moved.attempts)
            if moved.refused is not None:
                self.failure = moved.refused
            for waiting, number in zip(moved.taken, moved.numbers, strict=True):
                if not waiting.taken.done():
                    waiting.taken.set_result(number)
            faults.point("unit.acknowledged")
            for outcome in moved.steps if not self.is_closed else ():
                self.publish(self, outcome)
            if moved.asks_others:
                self.asks_changed()
        except Exception as fault:  # noqa: BLE001 - the waiting callers get the error
            self._failed(moved.taken, fault)
        else:
            self._go_on()

    def _failed(self, taken: Sequence[_Waiting], fault: BaseException) -> None:
        failure = self.fail(fault)
        for waiting in taken:
            _tell(waiting, failure)
        self._go_on()

    def _go_on(self) -> None:
        if self.mailbox:
            self.committer.soon(self._move)
            return
        self.is_moving = False
        if self._rest is not None:
            if not self._rest.done():
                self._rest.set_result(None)
            self._rest = None

    def _snapshot(self, state: UnitState, blobs: list[bytes]) -> Snapshot | None:
        snapshot = take_snapshot(state, blobs)
        if snapshot is not None:
            self.snapshot_bytes = len(blobs[-1])
        return snapshot


def _is_new(ingress: Ingress, state: UnitState) -> bool:
    """Returns whether an ingress cannot have been taken before: its id was drawn at random, or the intent that it
    answers is still open."""
    return ingress.id.startswith(FRESH) or (ingress.kind == "receipt" and ingress.body["intent"] in state.intents)


def _tell(waiting: _Waiting, error: DemiurgeError) -> None:
    if not waiting.taken.done():
        waiting.taken.set_exception(error)
        waiting.taken.exception()


def rows_of(records: Sequence[Record], ingress_id: str) -> list[Row]:
    """Returns a step's records as rows. Only the first, the ingress itself, carries the ingress id."""
    return [
        _Row(record.unit, record.unit_seq, record.kind, record.hash, record.data, None if index else ingress_id)
        for index, record in enumerate(records)
    ]


def outgoing_of(sent: Sent) -> Outgoing:
    """Returns a message in its stored form."""
    source, caller = str(sent.cause["unit"]), sent.caller.to_node()
    node = {"schema": sent.schema, "value": sent.value, "cause": dict(sent.cause)}
    data = cbor.encode(node if caller == source else node | {"caller": caller})
    return Outgoing(sent.id, source, str(sent.target), data)


def read_outgoing(outgoing: Outgoing) -> Sent:
    """Reads a stored message."""
    node = cbor.decode(outgoing.data)
    caller = Caller.from_node(node.get("caller", node["cause"]["unit"]))
    return Sent(outgoing.id, Unit.parse(outgoing.target), node["schema"], node["value"], node["cause"], caller)
