"""Which model answers: the provider whose key is in the environment or the vault, else the local one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from demiurge.bootstrap.secrets import holds
from demiurge.errors import UsageError
from demiurge.models.address import Address, address_of, find_key
from demiurge.models.client import ModelClient
from demiurge.models.local import LocalEngine
from demiurge.models.local.fetch import Progress
from demiurge.models.providers import PROVIDERS, provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status
from demiurge.wire.items import Completion

__all__ = ["LOCAL", "LOCALS", "MODEL_KEYS", "Choice", "Models", "addresses", "choose"]

LOCAL = "local"
LOCALS = frozenset(name for name, row in PROVIDERS.items() if row.is_free)
"""The providers that are the local model: with its own form of calls, and with the JSON tool protocol."""

COMPATIBLE = "openai-chat"
"""The provider whose format a server at the user's own address speaks, if no other is named."""

BY_KEY = ("openai-responses", "anthropic")
"""The providers that a key chooses, the first one first: LLM_API_KEY alone chooses that."""

MODEL_KEYS = {(row.alias, 1): row for row in map(provider, BY_KEY) if row.alias is not None}
"""The secrets that the shipped app asks providers' keys from, with the provider that each one chooses."""


class Choice(NamedTuple):
    """A provider's name and the model to ask it for."""

    provider: str
    model: str


def choose(
    environment: Mapping[str, str], *, wanted: str | None = None, model: str | None = None, base_url: str | None = None
) -> Choice:
    """Returns the provider that is asked for; else the one whose key is set, in the environment before the vault; else
    what is at `base_url`; else the local model. Raises UsageError."""
    row = provider(wanted or _keyed(environment) or (COMPATIBLE if base_url else LOCAL))
    if base_url and row.name in LOCALS:
        raise UsageError(
            f"The local model has no other address: name a provider for {base_url}, such as {COMPATIBLE}.",
            code="bad_base_url",
        )
    return Choice(row.name, model or row.default_model)


def addresses(environment: Mapping[str, str], chosen: str, base_url: str | None = None) -> dict[str, Address]:
    """Returns the address of each provider, by its name; `base_url` is for the chosen one alone."""
    return {
        name: address_of(row, environment, base_url if name == chosen else None)
        for name, row in PROVIDERS.items()
        if name not in LOCALS
    }


def _keyed(environment: Mapping[str, str]) -> str | None:
    for name in BY_KEY:
        if find_key(provider(name), environment) is not None:
            return name
    return next((row.name for key, row in MODEL_KEYS.items() if holds(environment, *key)), None)


class Models:
    """Every provider behind one `generate`; the local engine starts when it is first asked."""

    def __init__(self) -> None:
        self._client: ModelClient | None = None
        self._engine = LocalEngine()
        self._starting = asyncio.Lock()

    async def generate(
        self, request: GenerateRequest, *, on_event: Callable[[AiEvent], None] | None = None
    ) -> Completion:
        """As `ModelClient.generate`; Unavailable when the local model is not here."""
        if request.provider in LOCALS:
            await self._start(on_event)
            request = replace(request, base_url=self._engine.base_url, api_key=self._engine.api_key)
        if self._client is None:
            self._client = ModelClient()
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
        if self._client is not None:
            await self._client.aclose()
        self._engine.stop()
