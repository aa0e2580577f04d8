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
    """That for the world in `folder`. Where it can't be kept, old histories need leave as a stranger's do."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder

    def note(self, code: Iterable[Reducer]) -> None:
        """That the world is run with this, which the process brought."""
        with suppress(DemiurgeError):
            sources = {ref_of(reducer.source) for reducer in code}
            remember(self._environment, self._folder, lambda kept: _with(kept, sources))

    def holds(self, source: Ref) -> bool:
        """Whether this source may be run again. A record that can't be believed says no."""
        try:
            return source in EARLIER or source in self._kept()
        except DemiurgeError:
            return False

    def copy_to(self, fork: Path) -> None:
        """A fork that this user made has a past which the same code wrote."""
        with suppress(DemiurgeError):
            if known := self._kept():
                remember(self._environment, fork, lambda kept: replace(kept, code=known))

    def _kept(self) -> tuple[str, ...]:
        return (recall(self._environment, self._folder) or WorldProfile()).code


def _with(kept: WorldProfile, sources: set[Ref]) -> WorldProfile:
    new = sorted(sources - set(kept.code))
    return replace(kept, code=(*kept.code, *new)[-MOST:]) if new else kept
