"""The port to language models: every caller uses a model through this protocol only.

Invariant: events are a preview; the completion is the answer. Nothing is run, stored or charged because of an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent
from demiurge.wire.items import Completion

__all__ = ["LanguageModel", "OnEvent", "name_of"]

OnEvent = Callable[[AiEvent], None]


class LanguageModel(Protocol):
    """The protocol of a language model. `models.ModelClient` implements it for every provider,
    `models.scripted.ScriptedModel` for tests."""

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        """Returns the finished answer; calls `on_event` as it grows. Raises a DemiurgeError for every failure of the
        model (ProviderError) or of the request (UsageError, InvalidValue)."""


def name_of(model: LanguageModel) -> str:
    """Returns the name under which a model object is recorded: its attribute `name`, else the name of its class."""
    name = getattr(model, "name", None)
    return name if isinstance(name, str) and name else type(model).__name__
