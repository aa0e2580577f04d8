"""Losses: going on after a part of a world was lost. The loss is recorded, and no open effect runs again.

A `loss` record `{what, actor, why}` is written in the unit `sys/World@1/losses`. Every open intent of any unit gets the
receipt `unknown_outcome`, as in a fork: the lost part may have held the note that its effect had begun.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from demiurge.errors import DemiurgeError, InvalidValue, Unavailable
from demiurge.stores.protocol import Batch, Row, Store
from demiurge.values.clock import Entropy
from demiurge.values.refs import Ref, ref_of
from demiurge.world.effect import failed
from demiurge.world.history.replay import Manifests
from demiurge.world.host.live import outgoing_of, rows_of
from demiurge.world.host.loader import Loader
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.record import Stamp
from demiurge.world.unit import Unit

__all__ = ["LOSSES", "AcceptedLoss", "accept"]

LOSSES: Final = Unit("sys/World@1", "losses")
"""The unit that holds the `loss` records and nothing else."""

_WHY: Final = 2000
_ENDED: Final = failed("unknown_outcome", "A part of this world was lost: nobody knows whether this effect took place.")


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """The outcome of accepting a loss. `lost`: a sentence for each lost thing; `ended`: how many open intents were
    answered `unknown_outcome`; `left`: units that cannot be read and stay as they are."""

    lost: tuple[str, ...]
    ended: int = 0
    left: tuple[str, ...] = ()


def accept(
    store: Store,
    manifests: Manifests,
    lost: Sequence[str],
    why: str,
    stamp: Callable[[], Stamp],
    entropy: Entropy,
) -> AcceptedLoss:
    """Records that `lost` is accepted, and answers the open intents; durable on return. Raises InvalidValue (`why` is
    not 1 to 2000 characters), Unavailable."""
    if not 1 <= len(why.strip()) <= _WHY:
        raise InvalidValue(f"write a reason of 1 to {_WHY} characters", path="reason")
    loader = Loader(store, manifests, [])
    current = manifests.current
    store.put_blobs([current.node, *(reducer.source for reducer in current.reducers.values())])
    ended, left = 0, list(store.damaged)
    for head in list(store.heads(open_only=True)):
        try:
            ended += _end(store, manifests, loader, Unit.parse(head.unit), stamp)
        except DemiurgeError as error:
            if isinstance(error, Unavailable):
                raise
            left.append(head.unit)
    body = {"what": list(lost), "actor": stamp().actor, "why": why}
    ingress = Ingress("loss", f"loss:{entropy.token(16).hex()}", body, stamp())
    state = loader.load(LOSSES).state
    outcome = advance_with_blobs(current, state, ingress, store.get_blob)
    store.append([Batch(str(LOSSES), state.seq, tuple(rows_of(outcome.records, ingress.id)), False)])
    return AcceptedLoss(tuple(lost), ended, tuple(left))


def _end(store: Store, manifests: Manifests, loader: Loader, unit: Unit, stamp: Callable[[], Stamp]) -> int:
    """Answers the open intents of a unit, except questions to a person, which take no effect outside. Returns how many
    there were."""
    state = loader.load(unit).state
    first, intents = state.seq, [intent for intent in state.intents.values() if not intent.only_asks]
    steps: list[Advance] = []
    rows: list[Row] = []
    made: dict[Ref, bytes] = {}

    def get(ref: Ref) -> bytes:
        return made[ref] if ref in made else store.get_blob(ref)

    for intent in intents:
        body = {"intent": intent.id, **_ENDED}
        ingress = Ingress("receipt", f"receipt:{intent.id.hex()}", body, stamp(), intent.seq)
        outcome = advance_with_blobs(manifests.current, state, ingress, get, loader.lost)
        rows += rows_of(outcome.records, ingress.id)
        made |= {ref_of(blob): blob for blob in outcome.new_blobs}
        steps.append(outcome)
        state = outcome.state
    if rows:
        outbox = tuple(outgoing_of(sent) for outcome in steps for sent in outcome.outbox)
        batch = Batch(str(unit), first, tuple(rows), state.is_open, outbox, waiting=state.waiting)
        store.append([batch], blobs=list(made.values()))
    return len(intents)
