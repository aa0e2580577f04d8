"""Erasure: the bytes of a blob are removed for good, and the world records that they are gone, who asked for it and
why.

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
from typing import Any, Final

from demiurge.errors import Conflict, Damaged, Divergence, InvalidValue, NotFound, UsageError
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
from demiurge.world.retention.traces import NODE, Mention, traces_of
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
    """The outcome of an erasure, or of a dry run. `ref` is a blob of `size` bytes, named by `records` of the `units`;
    `copies` were erased with it.

    `done` is true if nothing in the world's folder holds its words any more, except for the `quotes`: other messages
    and blobs that say some of them, and can be erased in turn. `inline` is what holds the words and cannot be erased,
    such as a record of an older version or of another client; then the erasure is not done. `unchecked` are the units
    that read an erased blob, and load from a snapshot from now on. `lines` counts the typed lines that were removed.
    `sessions` are the units whose session has lost an event.
    """

    ref: Ref
    size: int
    records: int
    units: tuple[str, ...]
    unchecked: tuple[str, ...]
    done: bool
    copies: tuple[Ref, ...] = ()
    quotes: tuple[Mention, ...] = ()
    inline: tuple[Mention, ...] = ()
    lines: int = 0
    sessions: tuple[str, ...] = ()


Beside = Callable[[bytes | None, Erasure, bool], Erasure]
"""Removes the words from other files of a world. It gets the bytes of the blob (None if they went before), the outcome
so far, and whether this is a dry run. Returns the outcome with what it found."""


def erase(
    store: Store,
    manifests: Manifests,
    ref: str,
    why: str,
    stamp: Stamp,
    entropy: Entropy,
    *,
    dry_run: bool = False,
    beside: Beside | None = None,
) -> Erasure:
    """Erases one blob and its copies; with `dry_run` only reports what would be erased. A blob that was erased before
    gets no new record, and is `done` if it was then. `beside` removes the words from other files of the world.

    Raises InvalidValue (not a ref, or `why` is not 1 to 2000 characters or quotes the erased words), NotFound (no such
    blob), UsageError (`needed`: the world needs it), Conflict (`busy`: a unit that reads it cannot take a snapshot now,
    or a call that is one of its copies waits or runs), Damaged, Divergence, Unavailable.
    """
    wanted = parse_ref(ref)
    if not 1 <= len(why) <= _WHY:
        raise InvalidValue(f"write a reason of 1 to {_WHY} characters", path="why")
    try:
        size, data = _data(store, wanted)
    except NotFound as error:
        if error.code != "erased":
            raise
        again = _again(store, wanted, dry_run=dry_run)
        return again if beside is None else beside(None, again, dry_run)
    words = ErasedWords.of(data)
    if words.quoted_in(why):
        raise InvalidValue("quotes what is to be erased, and the reason is kept: use other words", path="why")
    found = traces_of(store, wanted, words, str(ERASURES))
    gone = {wanted, *found.copies}
    _refuse_open_calls(store, manifests, gone)
    readers = list(_readers(store, manifests, gone))
    outcome = Erasure(
        wanted,
        size,
        found.records,
        tuple(found.units),
        tuple(str(state.unit) for state in readers),
        not dry_run and not found.inline,
        tuple(found.copies),
        tuple(found.quotes),
        tuple(found.inline),
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
    bodies = [{"ref": wanted, "actor": stamp.actor, "why": why, **left}]
    bodies += [{"ref": copy, "actor": stamp.actor, "why": why, "of": wanted} for copy in found.copies]
    store.erase([wanted, *found.copies], [_record(store, manifests, bodies, stamp, entropy)])
    return replace(outcome, done=not outcome.inline)


def _again(store: Store, ref: Ref, *, dry_run: bool) -> Erasure:
    """Returns the outcome for a blob that was erased before, from the records of that erasure: its copies, and what was
    left."""
    copies: list[Ref] = []
    left: list[str] = []
    for row in store.read(str(ERASURES)) if store.head(str(ERASURES)) is not None else ():
        body = decode_row(row).body
        if body.get("ref") == ref:
            left = list(body.get("left", ()))
        elif body.get("of") == ref:
            copies.append(body["ref"])
    copies = [copy for copy in dict.fromkeys(copies) if copy in set(store.erasures())]
    if not dry_run:
        store.erase([ref, *(copy for copy in copies if not store.has_blob(copy))])  # finishes an interrupted call
    inline = tuple(Mention("record", name) for name in left)
    digest = ref_digest(ref)
    named = [row.unit for row in store.read_all() if row.unit != str(ERASURES) and digest in row.data]
    units = tuple(dict.fromkeys(named))
    return Erasure(ref, 0, len(named), units, (), not inline, tuple(copies), (), inline)


def _data(store: Store, ref: Ref) -> tuple[int, bytes]:
    """Returns the size of a blob that may be erased, and its bytes (empty if it is damaged). Raises NotFound,
    UsageError."""
    try:
        data = store.get_blob(ref)
    except Damaged:
        return store.blob_size(ref), b""
    if data.startswith(NODE):
        raise UsageError(f"{ref} is a node of the world itself, so it can't be erased.", code="needed")
    return len(data), data


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
