"""What an effect shows, without the secrets that it was handed: also without one that comes in pieces.

Text is shown as soon as no secret can begin in it: an end that one may begin with waits for more text, also when
something else comes between, since whoever looks on puts the text together again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from demiurge.tools.events import AiEvent, TextDelta
from demiurge.world.injection import Injections

__all__ = ["Masking"]


class Masking:
    """Hands events on to `show`, as `with Masking(...)`: at the end of the block nothing waits any more."""

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
            shown = len(text) - self._injections.begun(text)
            self._held = text[shown:]
            self._before = text[:shown][-1:] or self._before
            self._show(TextDelta(text[:shown]))

    def _masked(self, text: str, *, more_follows: bool = False) -> str:
        """No secret begins in the character before `text`, or it would not have been shown."""
        masked = self._injections.masked_text(self._before + text, more_follows=more_follows)
        return masked[len(self._before) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._show(TextDelta(self._masked(held)))
