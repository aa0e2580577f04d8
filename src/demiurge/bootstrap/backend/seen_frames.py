"""How far the frames of running effects were shown, so that the next owner of a world shows the rest and none twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from demiurge.bootstrap.backend.calls import Shown
from demiurge.world.watching.frame import Closed, Lagged

__all__ = ["SeenFrames"]

_PLACE: Final = ("unit", "request_id", "intent", "attempt", "end", "type")


class SeenFrames:
    """The last frame of each intent that is not closed, of those that were shown and those seen `before`."""

    def __init__(self, before: Sequence[Shown] = ()) -> None:
        self._last: dict[str, Shown] = {}
        for shown in before:
            self.note(shown)

    def note(self, shown: Shown) -> None:
        if shown["type"] == Closed.type:
            self._last.pop(shown["intent"], None)
        elif shown["type"] != Lagged.type:
            self._last[shown["intent"]] = shown

    def places(self) -> list[Shown]:
        """Returns what `run.watch` and `run.settling` take as `after`: the place of each frame, without what it
        shows."""
        return [{name: shown[name] for name in _PLACE} for shown in self._last.values()]
