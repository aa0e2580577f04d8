"""(a) A stream gives the same events and the same completion however its bytes are cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from bench.wire.interactions import Interaction
from demiurge.tools.events import AiEvent, TextDelta
from demiurge.wire import Completion, ProviderError

__all__ = ["positions", "split_difference"]

ROUNDS = 20


def split_difference(entry: Interaction) -> str | None:
    """None if byte by byte and ROUNDS other ways to cut give what the whole gives, else which one does not."""
    body = entry.body
    whole, result = _events(entry, [body])
    shown = "".join(event.delta for event in whole if isinstance(event, TextDelta))
    if isinstance(result, Completion) and shown != result.text:
        return "the deltas are not the text"
    for name, chunks in _ways(entry.name, body):
        events, again = _events(entry, chunks)
        if events != whole or not _same(again, result):
            return name
    return None


def positions(seed: str, count: int, below: int) -> list[int]:
    """So many places below `below`, always the same for one seed."""
    return [int.from_bytes(hashlib.sha256(f"{seed} {n}".encode()).digest()[:6]) % below for n in range(count)]


def _ways(name: str, body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    yield "byte by byte", [body[at : at + 1] for at in range(len(body))]
    for number in range(ROUNDS):
        cuts = sorted(positions(f"{name} {number}", 2 + number, len(body) + 1))
        yield f"cut at {cuts}", [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _events(entry: Interaction, chunks: list[bytes]) -> tuple[list[AiEvent], Completion | ProviderError]:
    decoder = entry.wire.Decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    try:
        completion: Completion = decoder.close()
    except ProviderError as error:
        return events, error
    return events, completion


def _same(one: Completion | ProviderError, other: Completion | ProviderError) -> bool:
    if isinstance(one, ProviderError) and isinstance(other, ProviderError):
        return (one.code, one.status, str(one)) == (other.code, other.status, str(other))
    return one == other
