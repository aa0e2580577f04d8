"""`advance_with_blobs`: calls `advance` until it has every blob that its step needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from demiurge.errors import DemiurgeError
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds.kind import ReadBlob
from demiurge.world.kernel.advance import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.manifest import Manifest
from demiurge.world.state import UnitState

__all__ = ["advance_with_blobs"]


def advance_with_blobs(
    manifest: Manifest, state: UnitState, ingress: Ingress, get: ReadBlob, lost: Sequence[DemiurgeError] = ()
) -> Advance:
    """Takes one step of one unit; `get` reads the blobs that the step needs. Raises what `get` raises.

    A list of a cell that comes from a snapshot is read when the step looks at it. If that fails, the error is appended
    to `lost` (see `Loader.lost`). Then the outcome, in which the failure counts as the reducer's, is void and the error
    is raised.
    """
    blobs = _BlobsOnDemand(get)
    failures = len(lost)
    while True:
        outcome = advance(manifest, state, ingress, blobs)
        if len(lost) > failures:
            raise lost[-1]
        if not isinstance(outcome, Need):
            return outcome
        blobs.known[outcome.ref] = get(outcome.ref)


class _BlobsOnDemand(Mapping[Ref, bytes]):
    """Blobs that are read when a step looks at them, so that few steps run twice. A blob that cannot be read counts as
    absent: then the kernel answers `Need`, and the caller of `get` gets the error."""

    def __init__(self, get: ReadBlob) -> None:
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
