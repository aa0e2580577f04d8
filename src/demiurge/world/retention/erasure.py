"""Erasure: the bytes of blobs are removed for good, and the world records that they are gone, who asked for it and why.

An `erased` record `{ref, actor, why}` is written in the unit `sys/World@1/erasures`, in the transaction that makes the
erasure durable, and one more, with `of`, for each copy that is erased with it (see `traces`). The records that name the
blob stay as they are and verify. A step that read the blob cannot be computed again, so replay counts it as unchecked
and goes on from a snapshot; each unit whose loading reads the blob gets a snapshot first.

Only words of a person, a model or a tool can be erased. The world's own nodes and the code that it ran on are needed to
open it, and stay; so do values that stand in a record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from demiurge.errors import Conflict, Damaged, Divergence, InvalidValue, NotFound, UsageError
from demiurge.stores.gc_barrier import named_in
from demiurge.stores.protocol import Batch, Snapshot, Store
from demiurge.values.clock import Entropy
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_of
from demiurge.world.effect_kinds import TOOL
from demiurge.world.history.replay import Manifests
from demiurge.world.host.live import rows_of
from demiurge.world.host.loader import Loader
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.record import Stamp, decode_row
from demiurge.world.retention.traces import NODE, Mention, named_elsewhere, traces_of
from demiurge.world.retention.words import ErasedWords
from demiurge.world.snapshot import snapshot_node
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["ERASURES", "Beside", "Erasure", "erase"]

ERASURES: Final = Unit("sys/World@1", "erasures")
"""The unit that holds the `erased` records and nothing else."""

_WHY: Final = 2000
_MOST_LEFT: Final = 100


@dataclass(frozen=True, slots=True)
class Erasure:
    """The outcome of an erasure, or of a dry run. `refs` are blobs of `size` bytes in all, named by `records` of the
    `units`; `copies` were erased with them. `shared` were asked for and stay, because other units name them.

    `done` is true if nothing in the world's folder holds the words any more, except for the `quotes`: other messages
    and blobs that say some of them, and can be erased in turn. `inline` is what holds the words and cannot be erased,
    such as a record of an older version or of another client; then the erasure is not done. `unchecked` are the units
    that read an erased blob, and load from a snapshot from now on. `lines` counts the typed lines that were removed.
    `sessions` are the units whose session has lost an event.
    """

    refs: tuple[Ref, ...]
    size: int
    records: int
    units: tuple[str, ...]
    unchecked: tuple[str, ...]
    done: bool
    copies: tuple[Ref, ...] = ()
    shared: tuple[Ref, ...] = ()
    quotes: tuple[Mention, ...] = ()
    inline: tuple[Mention, ...] = ()
    lines: int = 0
    sessions: tuple[str, ...] = ()


Beside = Callable[[Sequence[bytes], Erasure, bool], Erasure]
"""Removes the words from other files of a world. It gets the bytes of the blobs that were still there, the outcome so
far, and whether this is a dry run. Returns the outcome with what it found."""


def erase(
    store: Store,
    manifests: Manifests,
    refs: Sequence[str],
    why: str,
    stamp: Stamp,
    entropy: Entropy,
    *,
    only_of: Set[str] = frozenset(),
    dry_run: bool = False,
    beside: Beside | None = None,
) -> Erasure:
    """Erases blobs and their copies; with `dry_run` only reports what would be erased. A blob that was erased before
    gets no new record, and is `done` if it was then. With units in `only_of`, blobs that records of other units name
    stay. `beside` removes the words from other files of the world.

    Raises InvalidValue (not a ref, or `why` is not 1 to 2000 characters or quotes the erased words), NotFound (no such
    blob), UsageError (`needed`: the world needs it), Conflict (`busy`: a unit that reads it cannot take a snapshot now,
    or a call that is one of its copies waits or runs), Damaged, Divergence, Unavailable.
    """
    wanted = dict.fromkeys(map(parse_ref, refs))
    if not 1 <= len(why) <= _WHY:
        raise InvalidValue(f"write a reason of 1 to {_WHY} characters", path="why")
    shared = named_elsewhere(store, wanted.keys(), {*only_of, str(ERASURES)}) if only_of else set()
    stay = tuple(ref for ref in wanted if ref in shared)
    asked = tuple(ref for ref in wanted if ref not in shared)
    blobs = {ref: blob for ref in asked if (blob := _blob(store, ref)) is not None}
    before = [ref for ref in asked if ref not in blobs]
    data = [blob.data for blob in blobs.values()]
    if not blobs:
        again = replace(_again(store, before, dry_run=dry_run), shared=stay)
        return again if beside is None else beside(data, again, dry_run)
    words = ErasedWords.of(*data)
    if words.quoted_in(why):
        raise InvalidValue("quotes what is to be erased, and the reason is kept: use other words", path="why")
    found = traces_of(store, blobs.keys(), words, str(ERASURES))
    gone = {*blobs, *found.copies}
    _refuse_open_calls(store, manifests, gone)
    readers = list(_readers(store, manifests, gone))
    copies_before, left_before = _earlier(store, before)
    outcome = Erasure(
        asked,
        sum(blob.size for blob in blobs.values()),
        found.records,
        tuple(found.units),
        tuple(str(state.unit) for state in readers),
        False,
        (*found.copies, *copies_before),
        stay,
        tuple(found.quotes),
        (*found.inline, *left_before),
        0,
        tuple(found.sessions),
    )
    if dry_run:
        return outcome if beside is None else beside(data, outcome, True)
    for state in readers:
        _take_snapshot(store, state)
    current = manifests.current
    store.put_blobs([current.node, *(reducer.source for reducer in current.reducers.values())])
    if beside is not None:
        outcome = beside(data, outcome, False)
    left = {"left": [mention.name for mention in outcome.inline][:_MOST_LEFT]} if outcome.inline else {}
    bodies = [{"ref": ref, "actor": stamp.actor, "why": why, **left} for ref in blobs]
    bodies += [{"ref": copy, "actor": stamp.actor, "why": why, "of": of} for copy, of in found.copies.items()]
    store.erase([*asked, *outcome.copies], [_record(store, manifests, bodies, stamp, entropy)])
    return replace(outcome, done=not outcome.inline)


class _Blob(NamedTuple):
    """A blob that may be erased: its size, and its bytes (empty if it is damaged)."""

    size: int
    data: bytes


def _blob(store: Store, ref: Ref) -> _Blob | None:
    """Returns a blob that may be erased; None if it was. Raises NotFound, UsageError."""
    try:
        data = store.get_blob(ref)
    except Damaged:
        return _Blob(store.blob_size(ref), b"")
    except NotFound as error:
        if error.code != "erased":
            raise
        return None
    if data.startswith(NODE):
        raise UsageError(f"{ref} is a node of the world itself, so it can't be erased.", code="needed")
    return _Blob(len(data), data)


def _again(store: Store, refs: Sequence[Ref], *, dry_run: bool) -> Erasure:
    """Returns the outcome for blobs that were all erased before."""
    copies, inline = _earlier(store, refs)
    if refs and not dry_run:
        store.erase([*refs, *copies])  # finishes an interrupted call
    digests = {ref_digest(ref) for ref in refs}
    named = [row.unit for row in store.read_all() if row.unit != str(ERASURES) and digests & named_in(row.data)]
    units = tuple(dict.fromkeys(named))
    return Erasure(tuple(refs), 0, len(named), units, (), not inline, tuple(copies), inline=tuple(inline))


def _earlier(store: Store, refs: Sequence[Ref]) -> tuple[list[Ref], list[Mention]]:
    """Returns the copies of blobs that were erased before, without those that were stored again, and what was left."""
    if not refs:
        return [], []
    copies: dict[Ref, None] = {}
    left: dict[Ref, list[str]] = {}
    for row in store.read(str(ERASURES)) if store.head(str(ERASURES)) is not None else ():
        body = decode_row(row).body
        if body.get("of") in refs:
            copies[body["ref"]] = None
        elif body.get("ref") in refs:
            left[body["ref"]] = list(body.get("left", ()))
    erased = set(store.erasures())
    found = [copy for copy in copies if copy in erased and not store.has_blob(copy)]
    return found, [Mention("record", name) for names in left.values() for name in names]


def _refuse_open_calls(store: Store, manifests: Manifests, gone: Set[Ref]) -> None:
    """Raises Conflict if a call without a receipt has its arguments among the blobs to be erased."""
    loader = Loader(store, manifests, [])
    for head in store.heads(open_only=True):
        try:
            state = loader.load(Unit.parse(head.unit)).state
        except (NotFound, Damaged, Divergence):
            continue  # such a unit takes no step, so it performs nothing
        if any(intent.kind == TOOL and intent.params.get("call_ref") in gone for intent in state.intents.values()):
            raise Conflict(
                f"A call of {head.unit} that this message proposes waits or runs: decide it or stop the turn first.",
                code="busy",
            )


def _readers(store: Store, manifests: Manifests, refs: Set[Ref]) -> Iterator[UnitState]:
    """Yields the states of the units whose loading reads one of `refs`. Raises Damaged, Divergence."""
    read: set[Ref] = set()

    def get(wanted: Ref) -> bytes:
        read.add(wanted)
        return store.get_blob(wanted)

    loader = Loader(store, manifests, [], get)
    for head in store.heads():
        newest = store.latest_snapshot(head.unit)
        if newest is not None and newest.unit_seq == head.next_seq - 1:
            continue  # loading it runs no step
        read.clear()
        try:
            state = loader.load(Unit.parse(head.unit)).state
        except NotFound as gone:
            if gone.code != "erased":
                raise
            continue  # its state is lost already, with another blob
        if not read.isdisjoint(refs):
            yield state


def _take_snapshot(store: Store, state: UnitState) -> None:
    """Takes a snapshot, so that no step before it has to be computed again."""
    try:
        node, chunks = snapshot_node(state)
    except InvalidValue as error:
        raise Conflict(f"A plan of {state.unit} needs this blob to go on: let it end first.", code="busy") from error
    store.put_blobs([*chunks.values(), node])
    store.put_snapshot(Snapshot(str(state.unit), state.seq - 1, state.head, ref_of(node)))


def _record(
    store: Store,
    manifests: Manifests,
    bodies: Sequence[Mapping[str, Any]],
    stamp: Stamp,
    entropy: Entropy,
) -> Batch:
    """Returns a batch with one `erased` record for each blob."""
    state = Loader(store, manifests, []).load(ERASURES).state
    first, rows = state.seq, []
    for body in bodies:
        ingress = Ingress("erased", f"erased:{entropy.token(16).hex()}", body, stamp)
        outcome = advance_with_blobs(manifests.current, state, ingress, store.get_blob)
        state = outcome.state
        rows += rows_of(outcome.records, ingress.id)
    return Batch(str(ERASURES), first, tuple(rows), False)
