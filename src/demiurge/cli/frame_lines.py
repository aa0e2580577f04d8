"""The frames of a turn as JSON lines on stdout (`demiurge chat -m ... --stream json`).

Each line is one frame of `World.watch`, such as `{"type": "text_delta", "delta": ..., "intent": ..., ...}`; the last
line of the command is the reply, `{"type": "reply", ...}`, or `{"type": "error", "error": {code, message}}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from demiurge.bootstrap import Reply
from demiurge.bootstrap.backend import OnFrame
from demiurge.cli import output

__all__ = ["FrameLines"]


class FrameLines:
    """Prints each frame of a turn when it comes. If the reader of stdout goes, the turn goes on, and BrokenPipeError or
    OutputLost is raised at its end."""

    def __init__(self) -> None:
        self._failure: Exception | None = None

    async def follow(self, work: Callable[[OnFrame], Awaitable[Reply]]) -> Reply:
        """Awaits `work` and prints the frames that it shows."""
        done = await work(self._print)
        if self._failure is not None:
            raise self._failure
        return done

    async def close(self, reply: Reply) -> None:
        """Prints nothing: the command prints the reply."""

    def _print(self, frame: Mapping[str, Any]) -> None:
        if self._failure is None:
            try:
                output.document(frame, in_one_line=True)
            except (BrokenPipeError, output.OutputLost) as failure:
                self._failure = failure
