"""The fixed part of prompts, read once and kept beside the model's weights: the system text and the tools.

Reading takes the local model longer than answering. So before the first request with a new fixed part, the engine reads
that part alone, and saves what it has read as a file; the engine of a later process restores the file in milliseconds,
and reads the user's words alone. A file holds no word of a conversation, only the system text and the tools. Files are
a cache: one that is missing, damaged or unwritable costs time, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import httpx

from demiurge.models.local.engine import LocalEngine
from demiurge.models.payload import build
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent
from demiurge.values.clock import SystemEntropy
from demiurge.wire.items import Message, Text
from demiurge.wire.openai_chat import reading_status

__all__ = ["LEAST_CHARACTERS", "MOST_KEPT", "KeptPrompts"]

LOG = logging.getLogger(__name__)

LEAST_CHARACTERS: Final = 800
"""A fixed part that is shorter is read again each time."""

MOST_KEPT: Final = 8
"""How many files are kept, those that were used last. One of 1,000 tokens takes about 30 MB."""

_SUFFIX: Final = ".slot"
_SAMPLES: Final = ("a", "b")
"""Two messages of a user: what the prompts of both have in common at their beginning is the fixed part."""


class KeptPrompts:
    """The kept prompts of one engine, whose files lie in its folder `prompts`."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._prepared: dict[tuple[str, str], str] = {}
        self._preparing = asyncio.Lock()

    async def prepare(self, request: GenerateRequest, on_event: Callable[[AiEvent], None] | None = None) -> None:
        """Has the engine know the fixed part of a request before the request is sent. `on_event` is told how far it was
        read. Never fails: without it, the request itself reads everything."""
        fixed = _fixed_part(request)
        if fixed is None:
            return
        key = (self._engine.base_url, json.dumps(fixed, sort_keys=True))
        async with self._preparing:
            try:
                if key not in self._prepared:
                    self._prepared[key] = ""
                    self._prepared[key] = await self._prepare(fixed, request.timeout_s, on_event)
                await asyncio.to_thread(self._engine.note_known_prompt, self._prepared[key])
            except (httpx.HTTPError, OSError, ValueError, KeyError) as error:
                LOG.info("the fixed part of a prompt was not kept: %s", type(error).__name__)

    async def _prepare(
        self, fixed: dict[str, Any], silence_s: float, on_event: Callable[[AiEvent], None] | None
    ) -> str:
        """Returns the name of the prompt that the engine knows now; an empty one if it is too short to be kept."""
        headers = {"Authorization": f"Bearer {self._engine.api_key}"}
        server = self._engine.base_url.removesuffix("/v1")
        once = httpx.Limits(max_keepalive_connections=0)  # the server closes a connection that waits for five seconds
        async with httpx.AsyncClient(
            base_url=server, headers=headers, timeout=silence_s, trust_env=False, limits=once
        ) as http:
            prompt = _common_beginning(*[await _prompt(http, fixed, said) for said in _SAMPLES])
            if len(prompt) < LEAST_CHARACTERS:
                return ""
            name = self._name(prompt)
            if name == self._engine.known_prompt:  # to restore it would drop what the engine knows of the conversation
                return name
            file = self._engine.prompts / f"{name}{_SUFFIX}"
            if await asyncio.to_thread(file.is_file) and await _restored(http, file):
                return name
            await _read(http, prompt, on_event)
            await _saved(http, file)
            return name

    def _name(self, prompt: str) -> str:
        """Returns the name of a prompt's file: it belongs to this version of the engine, this model, and these
        words."""
        place = self._engine.path
        known = (version("xllamacpp"), place.name, place.stat().st_size, self._engine.context, prompt)
        return sha256(json.dumps(known).encode()).hexdigest()[:32]


def _fixed_part(request: GenerateRequest) -> dict[str, Any] | None:
    """Returns the tools and the messages before the first that is not of the system, as the engine is sent them; None
    if there is neither."""
    first = next((at for at, item in enumerate(request.items) if not _is_system(item)), len(request.items))
    if not first and not request.specs:
        return None
    user = Message("user", (Text(_SAMPLES[0]),))
    body = build(provider(request.provider), replace(request, items=(*request.items[:first], user)), "")
    return {"messages": body["messages"][:-1], "tools": body.get("tools", [])}


def _is_system(item: object) -> bool:
    return isinstance(item, Message) and item.role == "system"


async def _prompt(http: httpx.AsyncClient, fixed: dict[str, Any], said: str) -> str:
    """Returns the whole prompt for a message of a user after the fixed part."""
    messages = [*fixed["messages"], {"role": "user", "content": said}]
    answer = await http.post("/apply-template", json={**fixed, "messages": messages})
    return str(answer.raise_for_status().json()["prompt"])


def _common_beginning(one: str, other: str) -> str:
    both = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(character for character, _ in both)


async def _restored(http: httpx.AsyncClient, file: Path) -> bool:
    """Returns whether the engine took what the file holds. A file that it can't read is deleted."""
    answer = await http.post("/slots/0?action=restore", json={"filename": file.name})
    if answer.is_success:
        await asyncio.to_thread(os.utime, file)
        return True
    await asyncio.to_thread(file.unlink, missing_ok=True)
    return False


async def _read(http: httpx.AsyncClient, prompt: str, on_event: Callable[[AiEvent], None] | None) -> None:
    """Has the engine read a prompt and answer nothing."""
    asked = {"prompt": prompt, "n_predict": 0, "cache_prompt": True, "stream": True, "return_progress": True}
    async with http.stream("POST", "/completion", json=asked) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and on_event is not None:
                status = reading_status(json.loads(line.removeprefix("data: ")))
                if status is not None:
                    on_event(status)


async def _saved(http: httpx.AsyncClient, file: Path) -> None:
    """Saves what the engine has read, whole or not at all, and deletes the files that were used longest ago."""
    part = file.with_suffix(f".{SystemEntropy().token(4).hex()}.part")
    try:
        answer = await http.post("/slots/0?action=save", json={"filename": part.name})
        answer.raise_for_status()
        await asyncio.to_thread(os.replace, part, file)
    finally:
        await asyncio.to_thread(part.unlink, missing_ok=True)
    await asyncio.to_thread(_pruned, file.parent)


def _pruned(folder: Path) -> None:
    kept = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for file in kept[MOST_KEPT:]:
        file.unlink(missing_ok=True)
