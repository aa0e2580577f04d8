"""Injections: the secrets that one effect was handed, named for its receipt and masked in all that it stores or
answers.

An adapter gets a secret's value to send it to a server, and the server may send it back. So everything that the effect
stores or answers is searched for the values, also in the spellings that encoders make of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, final

from demiurge.models.scrub import written_forms
from demiurge.tools.connections.credentials import Secret, Uncopyable
from demiurge.tools.execution.secret_mask import as_word, is_short

__all__ = ["Injections"]

MASK = "[secret]"
_PLAIN_WORD = re.compile(r"[a-z]*")
"""A short value like `none` or `ollama`, given to a server that wants some key. It is an ordinary word, so it is not
masked."""

_NO_WORD = (rb"(?<![\w\x80-\xff])", rb"(?![\w\x80-\xff])")
"""Word boundaries in UTF-8 bytes. Bytes beyond ASCII belong to a word, as letters beyond ASCII do in text."""


@final
class Injections(Uncopyable):
    """The secrets of one performance, in the order in which they were handed out."""

    __slots__ = ("_forms", "_shortest", "_words", "journaled")

    def __init__(self) -> None:
        self._forms: Callable[[], tuple[str, ...]] = (
            lambda: ()
        )  # a closure, so that no listing of attributes shows the values
        self._words: Callable[[], tuple[str, ...]] = lambda: ()
        """Short values, which are masked only as whole words."""
        self._shortest = 0
        self.journaled: list[Mapping[str, Any]] = []
        """The receipt's `secrets`, `{alias, version, digest?}` each."""

    def add(self, entry: Mapping[str, Any], secret: Secret) -> None:
        if entry not in self.journaled:
            self.journaled.append(entry)
            self.hide(secret)

    def hide(self, secret: Secret) -> None:
        """Masks a value that is not among the receipt's `secrets`."""
        value = secret.reveal()
        short = is_short(value)
        if short and _PLAIN_WORD.fullmatch(value):
            return
        known = self._words if short else self._forms
        ordered = tuple(sorted({*known(), *written_forms(value)}, key=len, reverse=True))
        if short:
            self._words = lambda: ordered
        else:
            self._forms = lambda: ordered
        self._shortest = min(map(len, (*self._forms(), *self._words())), default=0)

    def are_in(self, value: Any) -> bool:
        """Returns whether a text in `value` holds one of the values."""
        return bool(self.masked(value) != value)

    def masked_bytes(self, data: bytes) -> bytes:
        """Returns `data` with `[secret]` in place of each value."""
        for form in self._forms():
            data = data.replace(form.encode(), MASK.encode())
        for form in self._words():
            data = re.sub(_NO_WORD[0] + re.escape(form.encode()) + _NO_WORD[1], MASK.encode(), data)
        return data

    def masked_text(self, text: str, *, more_follows: bool = False) -> str:
        """Returns `text` with `[secret]` in place of each value. With `more_follows` the text may end in the middle of
        a word."""
        if len(text) >= self._shortest:
            for form in self._forms():
                text = text.replace(form, MASK)
            for form in self._words():
                text = as_word(form, more_follows=more_follows).sub(MASK, text)
        return text

    def unfinished(self, text: str) -> int:
        """Returns how many characters at the end of `text` may belong to an unfinished value: to the beginning of one,
        or to a short value of which it is not known yet whether the word ends there."""
        ends = [*((form, len(form) - 1) for form in self._forms()), *((form, len(form)) for form in self._words())]
        longest = 0
        for form, most in ends:
            start = text.find(form[0], max(0, len(text) - most))
            while 0 <= start < len(text) - longest:
                if form.startswith(text[start:]):
                    longest = len(text) - start
                start = text.find(form[0], start + 1)
        return longest

    def masked(self, value: Any) -> Any:
        """Returns `value` (a receipt's payload or a stream event) with `[secret]` in place of each value in its
        texts."""
        if not self._shortest:
            return value
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: self.masked(getattr(value, field.name)) for field in fields(value)})
        if isinstance(value, str):
            return self.masked_text(value)
        if isinstance(value, bytes):
            return self.masked_bytes(value)
        if isinstance(value, Mapping):
            return {self.masked(name): self.masked(part) for name, part in value.items()}
        if isinstance(value, tuple):
            return tuple(map(self.masked, value))
        return list(map(self.masked, value)) if isinstance(value, list) else value
