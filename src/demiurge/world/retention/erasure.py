"""Erasure: the bytes of a blob go for good, and the world says that they are gone, who wanted it and why.

An `erased` record `{ref, actor, why}` is written, in the unit `sys/World@1/erasures`, in the transaction that makes the
erasure durable. The records that name the blob stay as they are: they verify, and a step that has read it can't be
computed again, so replay counts it as unchecked and goes on from a snapshot. To have one, each unit whose loading reads
the blob gets a snapshot first.

What can be erased is what somebody said or a tool wrote. The world's own nodes and the code that it ran on are needed
to open it, and stay; so do values that stand in a record itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from demiurge.errors import Conflict, Damaged, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Batch, Snapshot, Store
from demiurge.values import cbor
from demiurge.values.clock import Entropy
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_of
from demiurge.world.history.replay import Manifests, step
from demiurge.world.host.live import rows_of
from demiurge.world.host.loader import Loader
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.record import Stamp
from demiurge.world.snapshot import snapshot_node
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["ERASURES", "Erasure", "erase"]

ERASURES: Final = Unit("sys/World@1", "erasures")
"""The unit that `erased` records are in; nothing else is."""

_WHY: Final = 2000
_NODE: Final = cbor.encode(None)[:3]


@dataclass(frozen=True, slots=True)
class Erasure:
    """`ref` was erased, or would be: `size` bytes, named by `records` of the `units`. `done`: the bytes are gone.

    `unchecked` are the units that read it and are loaded from a snapshot from now on.
    """

    ref: Ref
    size: int
    records: int
    units: tuple[str, ...]
    unchecked: tuple[str, ...]
    done: bool


def erase(
    store: Store,
    manifests: Manifests,
    ref: str,
    why: str,
    stamp: Stamp,
    entropy: Entropy,
    *,
    dry_run: bool = False,
) -> Erasure:
    """Erase one blob; with `dry_run` only say what that would come to. One that was erased before stays so, without
    another record.

    Raises InvalidValue (no ref, or `why` has not 1 to 2000 characters), NotFound (no such blob), UsageError (`needed`:
    the world can't do without), Conflict (`busy`: a unit that reads it can't be kept without it now), Damaged,
    Divergence, Unavailable.
    """
    wanted = parse_ref(ref)
    if not 1 <= len(why) <= _WHY:
        raise InvalidValue(f"a reason has 1 to {_WHY} characters", path="why")
    try:
        size = _size(store, wanted)
    except NotFound as error:
        if error.code != "erased":
            raise
        if not dry_run:
            store.erase([wanted])  # it may have been cut short
        return Erasure(wanted, 0, *_named(store, wanted), (), True)
    records, units = _named(store, wanted)
    readers = list(_readers(store, manifests, wanted))
    found = Erasure(wanted, size, records, units, tuple(str(state.unit) for state in readers), not dry_run)
    if dry_run:
        return found
    for state in readers:
        _keep(store, state)
    current = manifests.current
    store.put_blobs([current.node, *(reducer.source for reducer in current.reducers.values())])
    store.erase([wanted], [_record(store, manifests, wanted, why, stamp, entropy)])
    return found


def _size(store: Store, ref: Ref) -> int:
    """Of a blob that may go. Raises NotFound, UsageError."""
    try:
        data = store.get_blob(ref)
    except Damaged:
        return store.blob_size(ref)
    if data.startswith(_NODE):
        raise UsageError(f"{ref} is a node of the world itself, which it can't do without.", code="needed")
    return len(data)


def _named(store: Store, ref: Ref) -> tuple[int, tuple[str, ...]]:
    """How many records name it, and whose they are. Raises UsageError."""
    digest, text = ref_digest(ref), ref.encode()
    records, units = 0, dict[str, None]()
    for row in store.read_all():
        if digest in row.data or text in row.data:
            if row.kind == "manifest":
                raise UsageError(f"{ref} is code that {row.unit} ran on, and is needed to replay it.", code="needed")
            if row.unit != str(ERASURES):
                records += 1
                units[row.unit] = None
    return records, tuple(units)


def _readers(store: Store, manifests: Manifests, ref: Ref) -> Iterator[UnitState]:
    """The units whose loading reads it, as they are. Raises Damaged, Divergence."""
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
            continue  # what it was is lost with another blob
        if ref in read:
            yield state


def _keep(store: Store, state: UnitState) -> None:
    """Take a snapshot, so that no step before it has to be computed again."""
    try:
        node, chunks = snapshot_node(state)
    except InvalidValue as error:
        raise Conflict(f"A plan of {state.unit} needs this blob to go on: let it end first.", code="busy") from error
    store.put_blobs([*chunks.values(), node])
    store.put_snapshot(Snapshot(str(state.unit), state.seq - 1, state.head, ref_of(node)))


def _record(store: Store, manifests: Manifests, ref: Ref, why: str, stamp: Stamp, entropy: Entropy) -> Batch:
    state = Loader(store, manifests, []).load(ERASURES).state
    body = {"ref": ref, "actor": stamp.actor, "why": why}
    ingress = Ingress("erased", f"erased:{entropy.token(16).hex()}", body, stamp)
    outcome = step(manifests.current, state, ingress, store.get_blob)
    return Batch(str(ERASURES), state.seq, tuple(rows_of(outcome.records, ingress.id)), False)
