"""The one port to language models: whoever asks a model asks it through this, and knows nothing else of it.

Invariant: what `on_event` saw is a preview, the completion is the answer. Nothing is run, kept or charged because of an
event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent
from demiurge.wire.items import Completion

__all__ = ["LanguageModel", "OnEvent"]

OnEvent = Callable[[AiEvent], None]


class LanguageModel(Protocol):
    """`models.ModelClient` is one for every provider, `models.scripted.ScriptedModel` one for tests."""

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        """Return the finished answer; `on_event` sees it grow. Raises a DemiurgeError for whatever goes wrong at the
        model (ProviderError) or with the request (UsageError, InvalidValue)."""
