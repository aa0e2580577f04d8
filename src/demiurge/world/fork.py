"""Forks: a new world with the past of another up to a moment, and its own future.

Each unit's records are copied as they are. Then the unit takes a `fork` record, which moves it to the new world, and a
receipt `unknown_outcome` for every intent that was open: its effect may still take place in the other world, or have
taken place there, so here it does not run (docs/architecture.md, rule 4). A question of the model to a person waits in
both worlds: nothing outside happens when it is answered. A call that asked half-way ends. Messages between units that
had not arrived are sent again. The source is only read.

If a unit read a blob that was erased since, its state cannot always be computed. Then only its records are copied: they
verify, and the unit takes no event.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from demiurge.errors import Damaged, NotFound
from demiurge.stores.protocol import Batch, Outgoing, Row, Store
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_from_digest, ref_of
from demiurge.world.effect import failed
from demiurge.world.history.replay import KeptCode, Manifests, no_code
from demiurge.world.host.host import TAIL_BYTES
from demiurge.world.host.live import outgoing_of, read_outgoing, rows_of
from demiurge.world.host.loader import Loader
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Sent
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.manifest import Manifest
from demiurge.world.moment import moment
from demiurge.world.origin import Origin, origins, set_origins
from demiurge.world.record import Stamp, decode_row
from demiurge.world.snapshot import take_snapshot
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = ["Forked", "fork"]

SENT: Final = "sent:"
ENDED: Final = failed(
    "unknown_outcome", "The world was forked while this effect was open; the fork does not repeat it."
)

PAGE_ROWS, PAGE_BYTES = 1000, 8 << 20
"""The most rows, and the most bytes of blobs, that one transaction writes."""

_NAMED: Final = re.compile(rb"sha256:([0-9a-f]{64})|(?=\x58\x20(.{32}))", re.DOTALL)
"""How a blob names other blobs: as text, or as the 32 bytes of a digest in a node."""


@dataclass(frozen=True, slots=True)
class Forked:
    """The outcome of a fork. `records` and `units` were copied, up to `position` of the source; `ended` counts the
    intents that were open. Of the `unchecked` units only the records were copied, because their state depends on an
    erased blob."""

    world_id: str
    position: int
    records: int
    units: int
    ended: int
    unchecked: tuple[str, ...] = ()


def fork(
    source: Store,
    target: Store,
    manifest: Manifest,
    stamp: Callable[[Caller], Stamp],
    *,
    at: int | None,
    caller: Caller,
    blobs: Sequence[bytes] = (),
    share: Callable[[Ref], object] = lambda _ref: None,
    tail_bytes: int = TAIL_BYTES,
    kept_code: KeptCode = no_code,
) -> Forked:
    """Makes the empty `target` a fork of `source` at a position, or of the present.

    `stamp` stamps the ingresses of the fork, which `caller` causes, under `manifest`, whose settings name `blobs`.
    `share` is called before a blob of the source is written. For `kept_code` see `Manifests`.

    Raises NotFound (no such position), Damaged and Divergence (the source's records), Unavailable.
    """
    for problem in source.damaged.values():
        raise problem
    position = moment(source, at)
    messages = source.outbox()  # read first, so that each message is found in the outbox or as a record
    copy = _Copy(source, target, share)
    lengths = copy.past(position)
    target.erase(copy.erased)
    target.put_blobs([manifest.node, *(reducer.source for reducer in manifest.reducers.values()), *blobs])
    set_origins(target, (*copy.origins, Origin(source.world_id, copy.records)))
    waiting: dict[str, list[Outgoing]] = defaultdict(list)
    for message in _undelivered(source, messages, lengths, position):
        waiting[message.source].append(message)
    loader = Loader(source, Manifests(manifest, source.get_blob, kept_code), [])
    mover = _Mover(copy, loader, manifest, stamp, caller, position, tail_bytes)
    for name in lengths:
        mover.take(Unit.parse(name), lengths[name], waiting[name])
    copy.flush()
    return Forked(target.world_id, position, copy.records, len(lengths), mover.ended, tuple(mover.unchecked))


def _undelivered(
    source: Store, messages: Iterable[Outgoing], lengths: dict[str, int], position: int
) -> Iterable[Outgoing]:
    """Returns the messages that were in the outbox at `position`, in the order of delivery: each was delivered later,
    or is in the outbox now."""
    found: dict[str, Outgoing] = {}
    for row in source.read_all(position + 1):
        if row.ingress_id is not None and row.ingress_id.startswith(SENT):
            record = decode_row(row)
            assert isinstance(record.cause, dict)
            name, body = row.ingress_id.removeprefix(SENT), record.body
            sent = Sent(name, Unit.parse(row.unit), body["schema"], body["value"], record.cause, record.stamp.caller)
            found[name] = outgoing_of(sent)
    found |= {message.id: message for message in messages if message.id not in found}
    return [message for message in found.values() if _number(message) < lengths.get(message.source, 0)]


def _number(message: Outgoing) -> int:
    """Returns the number of the record that sent the message."""
    return int(read_outgoing(message).cause["seq"])


class _Copy:
    """Writes to the target: rows, and before them the blobs that they name, with the blobs that those name."""

    def __init__(self, source: Store, target: Store, share: Callable[[Ref], object]) -> None:
        self.source, self.target, self._share = source, target, share
        self.records = 0
        self.origins = [Origin(origin.world, 0) for origin in origins(source)]
        """The origins of the source, in the positions of the target."""
        self.erased = [ref for ref in source.erasures() if not source.has_blob(ref)]
        self.bytes: dict[str, int] = defaultdict(int)
        """Size in bytes of each unit's records."""
        self._batches: list[Batch] = []
        self._blobs: list[bytes] = []
        self._size = 0
        self._known: set[Ref] = set()

    def past(self, position: int) -> dict[str, int]:
        """Copies all rows up to `position`. Returns how many rows each unit has, in the order of the units' first
        rows."""
        lengths: dict[str, int] = {}
        known = origins(self.source)
        page: list[Row] = []
        for row in self.source.read_all():
            if row.position > position:
                break
            record = decode_row(row)
            try:
                self.blobs(record.refs)
            except (Damaged, NotFound) as error:
                raise Damaged(f"record {row.unit} {row.unit_seq} ({row.kind}): {error}") from error
            page.append(replace(row, position=0))
            self.records += 1
            for index, origin in enumerate(known):
                if row.position <= origin.until:
                    self.origins[index] = Origin(origin.world, self.records)
            lengths[row.unit] = row.unit_seq + 1
            self.bytes[row.unit] += len(row.data)
            if len(page) == PAGE_ROWS:
                self._rows(page)
                page = []
        self._rows(page)
        return lengths

    def _rows(self, page: Sequence[Row]) -> None:
        for unit, group in groupby(page, lambda row: row.unit):
            rows = tuple(group)
            self._batches.append(Batch(unit, rows[0].unit_seq, rows, False))
        self.flush()

    def batch(self, batch: Batch, blobs: Iterable[bytes]) -> None:
        """Writes new rows and `blobs`, and copies the source's blobs that `blobs` name."""
        for data in blobs:
            self._add(ref_of(data), data)
            self.blobs(self._named(data))
        self._batches.append(batch)
        if len(self._batches) >= PAGE_ROWS:
            self.flush()

    def blobs(self, refs: Iterable[Ref]) -> None:
        """Copies blobs of the source, with all blobs that they name and the source has. Raises NotFound, Damaged."""
        waiting = list(refs)
        while waiting:
            ref = waiting.pop()
            if ref not in self._known:
                try:
                    data = self.source.get_blob(ref)
                except NotFound as error:
                    if error.code != "erased":
                        raise
                    self.erased.append(ref)
                    self._known.add(ref)
                    continue
                self._share(ref)
                self._add(ref, data)
                waiting += self._named(data)

    def _add(self, ref: Ref, data: bytes) -> None:
        self._known.add(ref)
        self._blobs.append(data)
        self._size += len(data)
        if self._size > PAGE_BYTES:
            self.flush()

    def _named(self, data: bytes) -> list[Ref]:
        found = (Ref(f"sha256:{text.decode()}") if text else ref_from_digest(raw) for text, raw in _NAMED.findall(data))
        return [ref for ref in dict.fromkeys(found) if ref not in self._known and self.source.has_blob(ref)]

    def flush(self) -> None:
        self.target.append(self._batches, blobs=self._blobs)
        self._batches, self._blobs, self._size = [], [], 0


class _Mover:
    """Moves units to the new world."""

    def __init__(
        self,
        copy: _Copy,
        loader: Loader,
        manifest: Manifest,
        stamp: Callable[[Caller], Stamp],
        caller: Caller,
        position: int,
        tail_bytes: int,
    ) -> None:
        self.copy, self.loader, self.manifest, self.stamp, self.caller = copy, loader, manifest, stamp, caller
        self.position, self.tail_bytes = position, tail_bytes
        self.ended = 0
        self.unchecked: list[str] = []

    def take(self, unit: Unit, length: int, messages: Sequence[Outgoing]) -> None:
        """Moves a unit that had `length` records and has `messages` on their way."""
        try:
            batch, blobs = self._moved(unit, length, messages)
        except NotFound as gone:
            if gone.code != "erased":
                raise
            self.unchecked.append(str(unit))
            batch, blobs = Batch(str(unit), length, (), False, tuple(messages)), []
        self.copy.batch(batch, blobs)

    def _moved(self, unit: Unit, length: int, messages: Sequence[Outgoing]) -> tuple[Batch, list[bytes]]:
        """Returns the rows and blobs to write. Raises NotFound (`erased`) if the unit's state cannot be computed."""
        state, tail, _ = self.loader.load(unit, length)
        world = self.copy.target.world_id
        body = {"world": world, "from": self.copy.source.world_id, "position": self.position}
        left = [intent for intent in state.intents.values() if not intent.only_asks]
        steps: list[Advance] = []
        rows: list[Row] = []
        made: dict[Ref, bytes] = {}

        def get(ref: Ref) -> bytes:
            """Reads a blob that replay will find in the new world, and no other."""
            return made[ref] if ref in made else self.copy.target.get_blob(ref)

        fork = Ingress("fork", f"fork:{world}", body, self.stamp(self.caller))
        for ingress in (fork, *map(self._end, left)):
            outcome = advance_with_blobs(self.manifest, state, ingress, get, self.loader.lost)
            rows += rows_of(outcome.records, ingress.id)
            made |= {ref_of(blob): blob for blob in outcome.new_blobs}
            steps.append(outcome)
            state = outcome.state
        outbox = (*messages, *(outgoing_of(sent) for outcome in steps for sent in outcome.outbox))
        blobs = list(made.values())
        long = max(tail, self.copy.bytes[str(unit)]) >= self.tail_bytes
        whole = long or self.copy.erased  # an erased blob cannot be read again
        snapshot = take_snapshot(state, blobs) if whole else None
        self.ended += len(left)
        return Batch(str(unit), length, tuple(rows), state.is_open, outbox, (), snapshot, state.waiting), blobs

    def _end(self, intent: OpenIntent) -> Ingress:
        body = {"intent": intent.id, **ENDED}
        return Ingress("receipt", f"receipt:{intent.id.hex()}", body, self.stamp(intent.caller), intent.seq)
