"""Replay: a unit's history is fed to the kernel again, and every record it derives is compared with the journal.

Only ingress is fed; receipts are ingress, so no tool and no model runs (architecture.md 2, rule 2). Opening a unit and
checking it are the same fold, so a state that was loaded is a state that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from demiurge.errors import Damaged, DemiurgeError, Divergence, InvalidValue, NotFound
from demiurge.stores.protocol import Row
from demiurge.values.draft import draft_of
from demiurge.values.refs import Ref
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.kernel import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record, decode_row, read_row
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["Blobs", "Manifests", "fold", "step"]

_Ingress = draft_of(Ingress)

Blobs = Callable[[Ref], bytes]
"""Reads a blob; raises NotFound or Damaged."""


class Manifests:
    """Manifests by address, resolved once each with the code at hand; with `kept_code`, a module whose source has
    changed has the code that the manifest pins (see `kept_code`)."""

    def __init__(self, current: Manifest, get: Blobs, *, kept_code: bool = False) -> None:
        self.current, self._get, self._kept_code = current, get, kept_code
        self._known: dict[Ref, Manifest] = {current.ref: current}

    def __getitem__(self, ref: Ref) -> Manifest:
        if ref not in self._known:
            manifest = Manifest.load(self._get(ref), self.current.reducers)
            self._known[ref] = self._as_it_was(manifest) if self._kept_code else manifest
        return self._known[ref]

    def _as_it_was(self, manifest: Manifest) -> Manifest:
        """A source that is gone, or can't be run, leaves the code at hand."""
        found = dict(manifest.reducers)
        for name in manifest.unchecked_modules():
            with suppress(NotFound, Damaged, InvalidValue):
                found[name] = kept_reducer(self._get(manifest.sources[name]))
        return replace(manifest, reducers=found)


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
    for ingress_row, recorded in _steps(rows):
        first = read_row(ingress_row)
        if first.prev != state.head or first.unit_seq != state.seq:
            raise Damaged(f"record {first.unit} {first.unit_seq} does not follow the one before it")
        manifest_ref = first.stamp.manifest
        assert manifest_ref is not None
        manifest = manifests[manifest_ref]
        given = ingress_row.ingress_id or ""
        ingress = _Ingress(first.kind, given, first.body, first.stamp, first.cause, first.refs, first)
        try:
            outcome = step(manifest, state, ingress, get, lost)
            _compare(outcome.records, recorded, state.unit, manifest)
        except Exception:
            decode_row(ingress_row)  # when it is no record in canonical form, that is what is wrong
            raise
        state = outcome.state
        yield state


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
        mend = "if this world is yours, DEMIURGE_KEPT_CODE=1 uses the code that is kept in it"
        return Divergence(f"{where} can't be checked: {why}; {mend}", code="unchecked")
    return Divergence(f"{where} is not what replay computes")
