"""`Masking`: the frames of an effect without the secrets that it was handed, also if a secret comes in pieces.

Text is shown as soon as no secret can begin in it. An end in which a secret may begin is held back until more text
comes, also if another event comes between, because watchers join the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from demiurge.capabilities.injection import Injections
from demiurge.tools.events import AiEvent, TextDelta

__all__ = ["Masking"]


class Masking:
    """Passes events on to `show`. Use it in a `with` block, at whose end all text that was held back is shown."""

    def __init__(self, injections: Injections, show: Callable[[AiEvent], None]) -> None:
        self._injections, self._show = injections, show
        self._held = ""
        self._before = ""
        """The last character that was shown, which tells whether a word begins after it."""

    def see(self, event: AiEvent) -> None:
        if not isinstance(event, TextDelta):
            self._show(self._injections.masked(event))
        elif not self._injections.journaled:
            self._show(event)
        else:
            text = self._masked(self._held + event.delta, more_follows=True)
            shown = len(text) - self._injections.unfinished(text)
            self._held = text[shown:]
            self._before = text[:shown][-1:] or self._before
            self._show(TextDelta(text[:shown]))

    def _masked(self, text: str, *, more_follows: bool = False) -> str:
        """Returns `text` masked. The character before `text` is known to begin no secret, because it was shown."""
        masked = self._injections.masked_text(self._before + text, more_follows=more_follows)
        return masked[len(self._before) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._show(TextDelta(self._masked(held)))
