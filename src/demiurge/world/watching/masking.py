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

    def see(self, event: AiEvent) -> None:
        if not isinstance(event, TextDelta):
            self._show(self._injections.masked(event))
        elif not self._injections.journaled:
            self._show(event)
        else:
            text = self._injections.masked_text(self._held + event.delta)
            shown = len(text) - self._injections.begun(text)
            self._held = text[shown:]
            self._show(TextDelta(text[:shown]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._show(TextDelta(held))
