"""A sentence on stderr while a step of unknown length goes on, such as a call of a tool or the start of a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from demiurge.cli import output

__all__ = ["goes_on"]

EVERY_S = 10
"""The seconds between two sentences that something still goes on."""


@contextmanager
def goes_on(text: str, still: Callable[[], str] | None = None) -> Iterator[None]:
    """Prints a sentence to stderr, and every ten seconds how long the block has taken so far. `still` returns what to
    say in place of the sentence by then."""
    ended = threading.Event()

    def tick() -> None:
        seconds = 0
        while not ended.wait(EVERY_S):
            seconds += EVERY_S
            output.notice(f"{still() if still is not None else text} {seconds} seconds so far.")

    output.notice(text)
    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    try:
        yield
    finally:
        ended.set()
        ticking.join()
