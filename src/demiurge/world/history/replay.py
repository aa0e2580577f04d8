"""Replay: a unit's history is fed to the kernel again, and every record it derives is compared with the journal.

Only ingress is fed; receipts are ingress, so no tool and no model runs (docs/architecture.md, rule 2). Opening a unit
and checking it are the same fold, so a state that was loaded is a state that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from demiurge.errors import Damaged, DemiurgeError, Divergence, InvalidValue, NotFound
from demiurge.stores.protocol import Row
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.kernel import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record, decode_row, read_row
from demiurge.world.reducer import Reducer
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["Blobs", "KeptCode", "Manifests", "fold", "no_code", "step"]

_Ingress = fast_constructor(Ingress)

Blobs = Callable[[Ref], bytes]
"""Reads a blob; raises NotFound or Damaged."""


KeptCode = Callable[[Ref], bool]
"""Whether the source at this address, which a world keeps, may be run here (see `kept_code`)."""


def no_code(_source: Ref) -> bool:
    return False


class Manifests:
    """Manifests by address, resolved once each with the code at hand, or with the code that they pin."""

    def __init__(self, current: Manifest, get: Blobs, kept_code: KeptCode = no_code) -> None:
        self.current, self._get, self._may_run = current, get, kept_code
        self._known: dict[Ref, Manifest] = {current.ref: current}
        self._were: dict[Ref, Manifest | None] = {}
        self.needed: set[Ref] = set()
        """Those of which a history could not be computed by the code at hand."""

    def replace(self, manifest: Manifest) -> None:
        """Make another manifest the current one; those from before stay known."""
        self._known[manifest.ref] = self.current = manifest

    def __getitem__(self, ref: Ref) -> Manifest:
        if ref not in self._known:
            self._known[ref] = Manifest.load(self._get(ref), self.current.reducers)
        return self._known[ref]

    def as_it_was(self, ref: Ref) -> Manifest | None:
        """With the kept code of the modules whose code has changed, where it may be run; None when there is none."""
        if ref not in self._were:
            kept = dict(self._kept(self[ref]))
            self._were[ref] = replace(self[ref], reducers={**self[ref].reducers, **kept}) if kept else None
        return self._were[ref]

    def _kept(self, manifest: Manifest) -> Iterator[tuple[str, Reducer]]:
        """A source that is gone, or can't be run, leaves the code at hand."""
        for name in manifest.unchecked_modules():
            pinned, at_hand = manifest.sources[name], manifest.reducers.get(name)
            if self._may_run(pinned):
                with suppress(NotFound, Damaged, InvalidValue):
                    source = self._get(pinned)
                    if ref_of(source) == pinned:  # what may be run is this, whatever the store says
                        function = getattr(at_hand.reduce, "__name__", "reduce") if at_hand is not None else "reduce"
                        yield name, kept_reducer(source, function)


def step(
    manifest: Manifest, state: UnitState, ingress: Ingress, get: Blobs, lost: Sequence[DemiurgeError] = ()
) -> Advance:
    """`advance`, with the blobs that it turns out to need.

    A list of the cell that comes from a snapshot is read when it is looked at. `lost` gets the error when that fails:
    then the kernel's outcome, which took it for the reducer's own, counts for nothing, and it is raised.
    """
    blobs = _OnDemand(get)
    failures = len(lost)
    while True:
        outcome = advance(manifest, state, ingress, blobs)
        if len(lost) > failures:
            raise lost[-1]
        if not isinstance(outcome, Need):
            return outcome
        blobs.known[outcome.ref] = get(outcome.ref)


class _OnDemand(Mapping[Ref, bytes]):
    """Blobs as a step asks for them, so that few steps run twice. What can't be read is not here: then the kernel says
    that it needs it, and whoever runs it gets the error."""

    def __init__(self, get: Blobs) -> None:
        self._get = get
        self.known: dict[Ref, bytes] = {}

    def __getitem__(self, ref: Ref) -> bytes:
        if ref not in self.known:
            try:
                self.known[ref] = self._get(ref)
            except DemiurgeError:
                raise KeyError(ref) from None
        return self.known[ref]

    def __iter__(self) -> Iterator[Ref]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def fold(
    state: UnitState, rows: Iterable[Row], manifests: Manifests, get: Blobs, lost: Sequence[DemiurgeError] = ()
) -> Iterator[UnitState]:
    """A unit's state after each ingress of `rows`, which follow `state`; oldest first. `lost` as for `step`.

    Raises Divergence, naming the record, when what the kernel derives is not what the journal holds; Damaged when a
    record or a blob that a step reads is.
    """
    was: dict[Ref, Manifest] = {}
    for ingress_row, recorded in _steps(rows):
        first = read_row(ingress_row)
        if first.prev != state.head or first.unit_seq != state.seq:
            raise Damaged(f"record {first.unit} {first.unit_seq} does not follow the one before it")
        manifest_ref = first.stamp.manifest
        assert manifest_ref is not None
        manifest = was.get(manifest_ref) or manifests[manifest_ref]
        given = ingress_row.ingress_id or ""
        ingress = _Ingress(first.kind, given, first.body, first.stamp, first.cause, first.refs, first)
        try:
            outcome = _checked(manifest, state, ingress, recorded, get, lost)
        except Exception as problem:
            decode_row(ingress_row)  # when it is no record in canonical form, that is what is wrong
            old = manifests.as_it_was(manifest_ref) if isinstance(problem, Divergence | NotFound) else None
            if old is None or old is manifest:
                raise
            outcome = _checked(old, state, ingress, recorded, get, lost)
            was[manifest_ref] = old
            manifests.needed.add(manifest_ref)
        state = outcome.state
        yield state


def _checked(
    manifest: Manifest,
    state: UnitState,
    ingress: Ingress,
    recorded: list[Row],
    get: Blobs,
    lost: Sequence[DemiurgeError],
) -> Advance:
    outcome = step(manifest, state, ingress, get, lost)
    _compare(outcome.records, recorded, state.unit, manifest)
    return outcome


def _steps(rows: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Rows grouped by the ingress that caused them: (ingress row, all rows of its step)."""
    group: list[Row] = []
    for row in rows:
        if row.ingress_id is not None and group:
            yield group[0], group
            group = []
        group.append(row)
    if group:
        yield group[0], group


def _compare(derived: tuple[Record, ...], recorded: list[Row], unit: Unit, manifest: Manifest) -> None:
    for ours, theirs in zip(derived, recorded, strict=False):
        if ours.hash != theirs.hash:
            raise _divergence(f"record {unit} {theirs.unit_seq} ({theirs.kind})", manifest)
    if len(derived) != len(recorded):
        at = min(len(derived), len(recorded))
        number = recorded[0].unit_seq + at
        raise _divergence(f"record {unit} {number} ({'one too few' if at == len(derived) else 'one more'})", manifest)


def _divergence(where: str, manifest: Manifest) -> Divergence:
    changed = manifest.unchecked_modules()
    if changed:
        names = ", ".join(changed)
        why = f"the code of {names} is not what it ran on"
        mend = "if you trust whoever wrote this world, DEMIURGE_KEPT_CODE=1 runs the code that is kept in it"
        return Divergence(f"{where} can't be checked: {why}; {mend}", code="unchecked")
    return Divergence(f"{where} is not what replay computes")
