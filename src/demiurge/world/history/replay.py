"""Replay: a unit's history is fed to the kernel again, and every record it derives is compared with the journal.

Only ingress is fed; receipts are ingress, so no tool and no model runs (docs/architecture.md, rule 2). Loading a unit
and checking it are the same fold, so a loaded state is a checked state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from demiurge.errors import Damaged, DemiurgeError, Divergence, InvalidValue, NotFound
from demiurge.stores.protocol import Row
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.effect_kinds.kind import ReadBlob
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record, decode_row, read_row
from demiurge.world.reducer import Reducer
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["KeptCode", "Manifests", "fold", "no_code"]

_Ingress = fast_constructor(Ingress)


KeptCode = Callable[[Ref], bool]
"""Returns whether the kept source at this address may be run here (see `kept_code`)."""


def no_code(_source: Ref) -> bool:
    return False


class Manifests:
    """Manifests by address, each resolved once with the code at hand, or with the code that it pins."""

    def __init__(self, current: Manifest, get: ReadBlob, kept_code: KeptCode = no_code) -> None:
        self.current, self._get, self._may_run = current, get, kept_code
        self._known: dict[Ref, Manifest] = {current.ref: current}
        self._as_they_were: dict[Ref, Manifest | None] = {}
        self.needed: set[Ref] = set()
        """Addresses of manifests whose history the code at hand could not compute."""

    def add(self, manifest: Manifest) -> None:
        """Adds a manifest with its own code, so that steps can run under it before it is the current one."""
        self._known[manifest.ref] = manifest

    def replace(self, manifest: Manifest) -> None:
        """Makes another manifest the current one; earlier manifests stay known."""
        self._known[manifest.ref] = self.current = manifest

    def __getitem__(self, ref: Ref) -> Manifest:
        if ref not in self._known:
            self._known[ref] = Manifest.load(self._get(ref), self.current.reducers)
        return self._known[ref]

    def with_kept_code(self, ref: Ref) -> Manifest | None:
        """Returns the manifest with the kept code of those modules whose code has changed, if that code may be run;
        None if there is none."""
        if ref not in self._as_they_were:
            kept = dict(self._kept(self[ref]))
            self._as_they_were[ref] = replace(self[ref], reducers={**self[ref].reducers, **kept}) if kept else None
        return self._as_they_were[ref]

    def _kept(self, manifest: Manifest) -> Iterator[tuple[str, Reducer]]:
        """Yields the kept reducers of changed modules. A module whose source is gone or cannot be run is left out and
        keeps the code at hand."""
        for name in manifest.unchecked_modules():
            pinned, at_hand = manifest.sources[name], manifest.reducers.get(name)
            if self._may_run(pinned):
                with suppress(NotFound, Damaged, InvalidValue):
                    source = self._get(pinned)
                    if ref_of(source) == pinned:  # the permission is for these bytes alone
                        function = getattr(at_hand.reduce, "__name__", "reduce") if at_hand is not None else "reduce"
                        yield name, kept_reducer(source, function)


def fold(
    state: UnitState, rows: Iterable[Row], manifests: Manifests, get: ReadBlob, lost: Sequence[DemiurgeError] = ()
) -> Iterator[UnitState]:
    """Yields a unit's state after each ingress of `rows`, which follow `state`, oldest first. `lost` is as for
    `advance_with_blobs`.

    Raises Divergence, naming the record, if the kernel derives other records than the journal holds; Damaged if a
    record or a blob that a step reads is damaged.
    """
    was: dict[Ref, Manifest] = {}
    for ingress_row, recorded in _steps(rows):
        first = read_row(ingress_row)
        if first.prev != state.head or first.unit_seq != state.seq:
            raise Damaged(f"record {first.unit} {first.unit_seq} does not follow the one before it")
        manifest_ref = first.stamp.manifest
        assert manifest_ref is not None
        manifest = was.get(manifest_ref) or manifests[manifest_ref]
        ingress_id = ingress_row.ingress_id or ""
        ingress = _Ingress(first.kind, ingress_id, first.body, first.stamp, first.cause, first.refs, first)
        try:
            outcome = _checked(manifest, state, ingress, recorded, get, lost)
        except Exception as problem:
            decode_row(ingress_row)  # raises Damaged if the row itself is the fault
            old = manifests.with_kept_code(manifest_ref) if isinstance(problem, Divergence | NotFound) else None
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
    get: ReadBlob,
    lost: Sequence[DemiurgeError],
) -> Advance:
    outcome = advance_with_blobs(manifest, state, ingress, get, lost)
    _compare(outcome.records, recorded, state.unit, manifest)
    return outcome


def _steps(rows: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Yields rows grouped by the ingress that caused them: (ingress row, all rows of its step)."""
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
        fix = "if you trust the authors of this world, set DEMIURGE_KEPT_CODE=1 to run the code that is kept in it"
        return Divergence(f"{where} can't be checked: {why}; {fix}", code="unchecked")
    return Divergence(f"{where} is not what replay computes")
