"""The code with which this user has run a world, by the digests of its sources. Such code may be run again.

A world keeps the source of each reducer, so that a history can be replayed with the code that wrote it. That source is
a program in a folder which may come from somebody else. So the digests of the code that the user's own installation and
modules provide are recorded in the user's config folder, for this world in this folder, when the world is run with it.
Other code in the world runs only on request. The source that a world contains is never a reason to record it.

Reducers that earlier versions of this program shipped need no record: their digests are known.
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
"""The number of latest digests that are kept. A unit gets a snapshot at its first step after a change of code, and does
not need the old code after that."""


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
        """Records the same sources for a fork that this user made, because they wrote the fork's past."""
        with suppress(DemiurgeError):
            if known := self._kept():
                remember(self._environment, fork, lambda kept: replace(kept, code=known))

    def _kept(self) -> tuple[str, ...]:
        return (recall(self._environment, self._folder) or WorldProfile()).code


def _with(kept: WorldProfile, sources: set[Ref]) -> WorldProfile:
    new = sorted(sources - set(kept.code))
    return replace(kept, code=(*kept.code, *new)[-MOST:]) if new else kept
