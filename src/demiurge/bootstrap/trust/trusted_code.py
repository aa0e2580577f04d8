"""The code that this user has run a world with, by the digests of its sources: such code may be run again.

A world keeps the source of each reducer, so that a history which other code wrote can be computed. That is a program in
a folder that may come from somebody else. So what this user's own installation and modules bring is noted in the user's
config folder, for this world in this place, when the world is run with it; what is not among that runs on request only.
What a world keeps, or says of itself, is never noted. The reducers that earlier versions of this program shipped need
no note: they are told by their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from demiurge.apps.demiurge.earlier import EARLIER
from demiurge.bootstrap.trust.world_profile import WorldProfile, recall, remember
from demiurge.errors import DemiurgeError
from demiurge.values.refs import Ref, ref_of
from demiurge.world.reducer import Reducer

__all__ = ["TrustedCode"]

MOST = 64
"""How many are kept, the latest: at its first step after a change a unit gets a snapshot, and needs the old no more."""


class TrustedCode:
    """The digests of reducer sources that this user has run in the world in `folder`. If the record can't be written,
    replaying an old history needs `DEMIURGE_KEPT_CODE=1`, as for a world from elsewhere."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder

    def add(self, code: Iterable[Reducer]) -> None:
        """Records the sources of reducers that this process runs the world with."""
        with suppress(DemiurgeError):
            sources = {ref_of(reducer.source) for reducer in code}
            remember(self._environment, self._folder, lambda kept: _with(kept, sources))

    def holds(self, source: Ref) -> bool:
        """Returns whether the source with this digest may be run. False if the user's record can't be trusted."""
        try:
            return source in EARLIER or source in self._kept()
        except DemiurgeError:
            return False

    def copy_to(self, fork: Path) -> None:
        """Trusts the same sources in a fork that this user made: they wrote its past."""
        with suppress(DemiurgeError):
            if known := self._kept():
                remember(self._environment, fork, lambda kept: replace(kept, code=known))

    def _kept(self) -> tuple[str, ...]:
        return (recall(self._environment, self._folder) or WorldProfile()).code


def _with(kept: WorldProfile, sources: set[Ref]) -> WorldProfile:
    new = sorted(sources - set(kept.code))
    return replace(kept, code=(*kept.code, *new)[-MOST:]) if new else kept
