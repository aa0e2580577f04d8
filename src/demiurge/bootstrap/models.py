"""Which model answers: the provider whose key is in the environment or the vault, else the local one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from demiurge.bootstrap.secrets import holds
from demiurge.errors import Unavailable, UsageError
from demiurge.models.address import Address, address_of, find_key
from demiurge.models.client import ModelClient
from demiurge.models.local import LocalEngine
from demiurge.models.local.fetch import Progress
from demiurge.models.local.left_engine import seconds_to_stay
from demiurge.models.port import LanguageModel, name_of
from demiurge.models.providers import PROVIDERS, PYTHON, provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status
from demiurge.wire.items import Completion

if TYPE_CHECKING:
    from demiurge.models.local.kept_prompts import KeptPrompts

__all__ = ["LOCAL", "LOCALS", "MODEL_KEYS", "Choice", "Models", "addresses", "ask_once", "choose", "model_object"]

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
    environment: Mapping[str, str],
    *,
    wanted: str | None = None,
    model: str | LanguageModel | None = None,
    base_url: str | None = None,
) -> Choice:
    """Returns the provider that is asked for; else the one whose key is set, in the environment before the vault; else
    what is at `base_url`; else the local model. A model that is an object is its own provider. Raises UsageError."""
    given = model_object(model)
    if given is not None:
        return _choice_of(given, wanted or base_url)
    if wanted == PYTHON:
        raise UsageError(
            f"The provider {PYTHON} is a model object: give it as World.open(model=...).", code="unknown_provider"
        )
    row = provider(wanted or _keyed(environment) or (COMPATIBLE if base_url else LOCAL))
    if base_url and row.name in LOCALS:
        raise UsageError(
            f"The local model has no other address: name a provider for {base_url}, such as {COMPATIBLE}.",
            code="bad_base_url",
        )
    named = model if isinstance(model, str) and model else row.default_model
    if wanted is None and row.name in LOCALS and named != row.default_model:
        raise UsageError(
            f"No provider's key is set, and {named} is not the local model: set LLM_API_KEY, OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY, or leave the model out.",
            code="no_key",
        )
    return Choice(row.name, named)


def model_object(model: str | LanguageModel | None) -> LanguageModel | None:
    """Returns a model that is an object, None for a name. Raises UsageError (`bad_model`) for an object that is no
    model."""
    if model is None or isinstance(model, str):
        return None
    if isinstance(model, type) or not callable(getattr(model, "generate", None)):
        what = f"the class {model.__name__}: make an object of it" if isinstance(model, type) else type(model).__name__
        raise UsageError(
            f"model is a model's name, or an object with `async def generate(request, *, on_event=None)`, not {what}.",
            code="bad_model",
        )
    return model


def _choice_of(model: LanguageModel, other: str | None) -> Choice:
    if other is not None:
        raise UsageError(f"The model is an object, which asks no provider: leave {other} out.", code="bad_model")
    return Choice(PYTHON, name_of(model))


def addresses(environment: Mapping[str, str], chosen: str, base_url: str | None = None) -> dict[str, Address]:
    """Returns the address of each provider, by its name; `base_url` is for the chosen one alone."""
    return {
        name: address_of(row, environment, base_url if name == chosen else None)
        for name, row in PROVIDERS.items()
        if name not in (*LOCALS, PYTHON)
    }


def _keyed(environment: Mapping[str, str]) -> str | None:
    for name in BY_KEY:
        if find_key(provider(name), environment) is not None:
            return name
    return next((row.name for key, row in MODEL_KEYS.items() if holds(environment, *key)), None)


class Models:
    """Every provider behind one `generate`; the local engine starts when it is first asked."""

    def __init__(self, given: LanguageModel | None = None) -> None:
        self._given = given
        self._client: ModelClient | None = None
        self._engine = LocalEngine(stays_s=seconds_to_stay(os.environ))
        self._kept: KeptPrompts | None = None
        self._starting = asyncio.Lock()

    async def generate(
        self, request: GenerateRequest, *, on_event: Callable[[AiEvent], None] | None = None
    ) -> Completion:
        """As `ModelClient.generate`; Unavailable when the local model is not here, or the model is an object of another
        process."""
        if request.provider == PYTHON:
            return await self._ask_object(request, on_event)
        if request.provider in LOCALS:
            await self._start(on_event)
            request = replace(request, base_url=self._engine.base_url, api_key=self._engine.api_key)
            await self._kept_prompts().prepare(request, on_event)
        if self._client is None:
            self._client = ModelClient()
        return await self._client.generate(request, on_event=on_event)

    def _kept_prompts(self) -> KeptPrompts:
        if self._kept is None:
            from demiurge.models.local.kept_prompts import KeptPrompts

            self._kept = KeptPrompts(self._engine)
        return self._kept

    async def _ask_object(self, request: GenerateRequest, on_event: Callable[[AiEvent], None] | None) -> Completion:
        if self._given is None:
            raise Unavailable(
                f"The model {request.model} is an object of the program that asked it, and is not in this process: "
                "open the world with World.open(model=...), or send the next message to a model with a name.",
                code="model_elsewhere",
            )
        answer: object = await self._given.generate(request, on_event=on_event)
        if not isinstance(answer, Completion):
            why = f"{type(self._given).__name__}.generate returned {type(answer).__name__}, and no Completion."
            raise UsageError(why, code="bad_model")
        return answer

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


async def ask_once(request: GenerateRequest) -> Completion:
    """Returns the answer to one request that belongs to no world. Raises as `Models.generate`."""
    models = Models()
    try:
        return await models.generate(request)
    finally:
        await models.aclose()
