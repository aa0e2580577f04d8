"""Did a secret get into a text? Asked of everything that a tool hands back while it held one.

Found are the secret itself and the spellings that it gets by accident: in JSON (with any of its escapes), in a URL
(also when it was quoted again), in quoted-printable mail, in base64 (also inside a longer text, as in a Basic
header), in hexadecimal. Not found is what a handler hides on purpose:
this is a net under honest code, not a wall around hostile code.
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
"""How many escapes are undone: a JSON text in a JSON text in a URL has three."""
_SHORTEST_SPELLING = 8
"""Characters. A shorter piece of base64 is found in any text."""


@final
class LeakWatch(Uncopyable):
    """Looks for `secrets` in texts."""

    __slots__ = ("_spellings",)

    def __init__(self, secrets: Iterable[Secret]) -> None:
        found = frozenset(form for secret in secrets for form in spellings(secret.reveal()))
        self._spellings: Callable[[], frozenset[str]] = lambda: found

    def finds(self, *texts: str) -> bool:
        """Is one of the secrets in one of the texts, in any of its spellings?"""
        return any(form in seen for text in texts for seen in readings(text) for form in self._spellings())


def readings(text: str) -> Iterator[str]:
    """The text, and what it says when its escapes are undone, one kind at a time, in any order: a secret may hold
    what looks like an escape itself."""
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
    """Raises nothing: half of a surrogate pair is read as it is."""
    text: str = json.loads(f'"{found[0]}"')
    return text


def spellings(text: str) -> Iterator[str]:
    """A secret, and what it becomes by accident."""
    yield text
    data = text.encode()
    others = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    others += [data.hex(), data.hex().upper()]
    for encode in (b64encode, urlsafe_b64encode):
        others += [_inside(encode, data, before) for before in range(3)]
    yield from (form for form in others if len(form) >= _SHORTEST_SPELLING)


def _inside(encode: Callable[[bytes], bytes], data: bytes, before: int) -> str:
    """The base64 digits that depend on `data` alone when `before` bytes (mod 3) precede it."""
    digits = encode(bytes(before) + data)
    return digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6].decode()
