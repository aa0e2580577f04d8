"""Which model answers: the provider whose key is in the environment or the vault, else the local one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from demiurge.bootstrap.secrets import holds
from demiurge.models import GenerateRequest, LocalEngine, ModelClient, find_key, provider
from demiurge.models.local.fetch import Progress
from demiurge.tools.events import AiEvent, Status
from demiurge.wire.items import Completion

__all__ = ["Choice", "Models", "choose", "provider_url"]

LOCAL = "local"
MODEL_KEY = ("llm/api", 1)
"""The secret that the shipped app asks a provider's key from."""


class Choice(NamedTuple):
    """A provider's name and the model to ask it for."""

    provider: str
    model: str


def choose(environment: Mapping[str, str], *, wanted: str | None = None, model: str | None = None) -> Choice:
    """The provider that is asked for, or the one whose key is set, or the local model. Raises UsageError."""
    if wanted is None:
        keyed = find_key(provider("openai-responses"), environment) or holds(environment, *MODEL_KEY)
        wanted = "openai-responses" if keyed else LOCAL
    row = provider(wanted)
    return Choice(row.name, model or row.default_model)


def provider_url(environment: Mapping[str, str], given: str | None = None) -> str | None:
    """The address in place of a provider's own: what is given, else `OPENAI_BASE_URL`."""
    return given or environment.get("OPENAI_BASE_URL") or None


class Models:
    """Every provider behind one `generate`; the local engine starts when it is first asked."""

    def __init__(self) -> None:
        self._client = ModelClient()
        self._engine = LocalEngine()
        self._starting = asyncio.Lock()

    async def generate(
        self, request: GenerateRequest, *, on_event: Callable[[AiEvent], None] | None = None
    ) -> Completion:
        """As `ModelClient.generate`; Unavailable when the local model is not here."""
        if request.provider == LOCAL:
            await self._start(on_event)
            request = replace(request, base_url=self._engine.base_url, api_key=self._engine.api_key)
        return await self._client.generate(request, on_event=on_event)

    async def _start(self, on_event: Callable[[AiEvent], None] | None) -> None:
        async with self._starting:
            if self._engine.running:
                return

            loop = asyncio.get_running_loop()

            def tell(progress: Progress) -> None:
                """Called in the thread that loads."""
                if on_event is not None:
                    label = "loading the local model" if progress.done < progress.total else None
                    loop.call_soon_threadsafe(on_event, Status("thinking", label))

            await asyncio.to_thread(self._engine.start, tell)

    async def aclose(self) -> None:
        await self._client.aclose()
        self._engine.stop()
