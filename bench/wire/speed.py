"""Bytes of recorded streams decoded per second, beside the official SDKs' own parsing and accumulation of the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from bench.wire.interactions import FORMATS, Interaction, read, recorded
from bench.wire.sdk_answers import sdk_answers

__all__ = ["run", "speeds"]

ROUNDS = 5

Line = tuple[str, str, str]
"""What, the figure, its ratio to the first line of its pair."""


def speeds(entries: Sequence[Interaction]) -> Iterator[Line]:
    """Two lines for each format: the best of ROUNDS for each stream, of those that the SDK can read. Raises Missing."""
    streams = [entry for entry in entries if entry.stream]
    rounds = [sdk_answers(streams) for _ in range(ROUNDS)]
    theirs = [min((told.get("seconds") or 0.0) for told in all_told) for all_told in zip(*rounds, strict=True)]
    for api in FORMATS:
        chosen = [
            (entry, seconds) for entry, seconds in zip(streams, theirs, strict=True) if entry.api == api and seconds
        ]
        size = sum(len(entry.body) for entry, _ in chosen) / 1e6
        ours = size / sum(_seconds(entry) for entry, _ in chosen)
        sdk = size / sum(seconds for _, seconds in chosen)
        tried = f"{api}, {len(chosen)} streams, {size:.2f} MB"
        yield f"the official SDK: {tried}", f"{sdk:,.1f} MB/s", "1.00"
        yield f"Demiurge: {tried}", f"{ours:,.1f} MB/s", f"{ours / sdk:.2f}"


def run() -> Iterator[Line]:
    return speeds(recorded())


def _seconds(entry: Interaction) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        read(entry.wire, entry.body)
        best = min(best, time.perf_counter() - start)
    return best
