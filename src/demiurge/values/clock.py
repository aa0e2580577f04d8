"""Time, randomness and ids: the only module that may read the machine's clock or its randomness.

All other code is given a Clock and an Entropy, so that a test, a replay or a fork can pass the recorded ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Protocol

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 24


class Clock(Protocol):
    def now_ns(self) -> int:
        """Returns wall-clock time in nanoseconds since 1970, UTC. May jump."""

    def monotonic_ns(self) -> int:
        """Returns nanoseconds from an arbitrary start. Never goes back; for durations and deadlines."""


class Entropy(Protocol):
    def token(self, n: int) -> bytes:
        """Returns `n` random bytes."""


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


def sleep_of(clock: Clock) -> Callable[[float], Awaitable[None]]:
    """Returns what waits for seconds of this clock: its own `sleep`, if it has one, else `asyncio.sleep`."""
    import asyncio  # programs that never wait need not import it

    own: Callable[[float], Awaitable[None]] | None = getattr(clock, "sleep", None)
    return own if own is not None else asyncio.sleep


class FixedClock:
    """A clock that stands still, or advances by `step_ns` after each reading of either method."""

    def __init__(self, now_ns: int, step_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._step_ns = step_ns

    def now_ns(self) -> int:
        now = self._now_ns
        self.advance(self._step_ns)
        return now

    def monotonic_ns(self) -> int:
        return self.now_ns()

    def advance(self, ns: int) -> None:
        """Moves the clock by `ns` nanoseconds."""
        self._now_ns += ns


class SystemEntropy:
    """The operating system's randomness."""

    def token(self, n: int) -> bytes:
        return os.urandom(n)


class SeededEntropy:
    """Entropy that a seed determines: equal seeds give equal bytes. For tests, and for values that are derived from a
    journaled stamp; not for secrets, because anybody who knows the seed knows the bytes."""

    def __init__(self, seed: int | str | bytes) -> None:
        self._seed = seed if isinstance(seed, bytes) else str(seed).encode()
        self._drawn = 0

    def token(self, n: int) -> bytes:
        out = b""
        while len(out) < n:
            out += sha256(self._drawn.to_bytes(8, "big") + self._seed).digest()
            self._drawn += 1
        return out[:n]


def new_id(prefix: str, entropy: Entropy) -> str:
    """Returns `prefix`, an underscore and 24 characters of a-z and 0-9 (124 bits): `call_3k9…`.

    The prefix may end with its own underscore.
    """
    number = int.from_bytes(entropy.token(24), "big")
    letters = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return f"{prefix.removesuffix('_')}_{''.join(letters)}"
