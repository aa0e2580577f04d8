"""Finds out whether a secret got into a text. It checks everything that a tool returns from a call that was lent the
secret.

It finds the secret itself and the spellings that it gets by accident: in JSON (with any of its escapes), in a URL
(also quoted twice), in quoted-printable mail, in base64 (also inside a longer text, as in a Basic header), in
hexadecimal. It does not find what a handler hides on purpose: it guards against mistakes, not against hostile code.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import final

from demiurge.tools.connections.credentials import Secret, Uncopyable

__all__ = ["LeakWatch", "readings", "spellings"]

_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MAIL = re.compile(r"=\r?\n|(?:=[0-9A-F]{2})+")
_JSON = re.compile(r'(?:\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt])+')
_LAYERS = 3
"""How many layers of escapes are undone: a JSON text in a JSON text in a URL has three."""
_SHORTEST_SPELLING = 8
"""In characters. A shorter piece of base64 occurs in any text by chance."""


@final
class LeakWatch(Uncopyable):
    """Finds `secrets` in texts."""

    __slots__ = ("_spellings",)

    def __init__(self, secrets: Iterable[Secret]) -> None:
        found = frozenset(form for secret in secrets for form in spellings(secret.reveal()))
        self._spellings: Callable[[], frozenset[str]] = lambda: found

    def finds(self, *texts: str) -> bool:
        """Returns whether one of the secrets is in one of the texts, in any of its spellings."""
        return any(form in seen for text in texts for seen in readings(text) for form in self._spellings())


def readings(text: str) -> Iterator[str]:
    """Yields the text, and the text with its escapes undone, one kind at a time, in any order: a secret may itself
    contain what looks like an escape."""
    seen: set[str] = set()
    layer = {text, text.replace("+", " ")}
    for _ in range(_LAYERS + 1):
        seen |= layer
        for read in layer:
            yield read
            yield _MAIL.sub(_unquoted, read)
        layer = {undone for read in layer for undone in _undone(read)} - seen


def _undone(text: str) -> Iterator[str]:
    yield _PERCENT.sub(_unquoted, text)
    yield _JSON.sub(_unescaped, text)


def _unquoted(found: re.Match[str]) -> str:
    return bytes.fromhex(re.sub(r"[%=\s]", "", found[0])).decode(errors="replace")


def _unescaped(found: re.Match[str]) -> str:
    """Returns the text of a JSON escape. Raises nothing: half of a surrogate pair stays as it is."""
    text: str = json.loads(f'"{found[0]}"')
    return text


def spellings(text: str) -> Iterator[str]:
    """Yields a secret and the spellings that it gets by accident."""
    yield text
    data = text.encode()
    others = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    others += [data.hex(), data.hex().upper()]
    for encode in (b64encode, urlsafe_b64encode):
        others += [_inside(encode, data, before) for before in range(3)]
    yield from (form for form in others if len(form) >= _SHORTEST_SPELLING)


def _inside(encode: Callable[[bytes], bytes], data: bytes, before: int) -> str:
    """Returns the base64 digits that depend on `data` alone if `before` bytes (mod 3) precede it."""
    digits = encode(bytes(before) + data)
    return digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6].decode()
