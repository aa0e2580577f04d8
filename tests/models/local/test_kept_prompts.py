"""The fixed part of prompts is read once, kept beside the weights, and restored by the engine of a later process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from demiurge.bootstrap.models import Models
from demiurge.models.local import LOCAL_MODEL, kept_prompts, locate
from demiurge.models.local.kept_prompts import MOST_KEPT
from demiurge.models.request import GenerateRequest
from demiurge.tools import CORE_TOOLS
from demiurge.tools.events import AiEvent, Status
from demiurge.wire.items import Completion, Item, Message, Text

SYSTEM = Message("system", (Text("You are a helpful assistant. Answer in plain text."),))
SPECS = tuple(tool.spec for tool in CORE_TOOLS[:4])


def request(said: str, *, system: Message = SYSTEM) -> GenerateRequest:
    items: tuple[Item, ...] = (system, Message("user", (Text(said),)))
    return GenerateRequest(
        provider="local", model=LOCAL_MODEL.name, items=items, specs=SPECS, temperature="0", max_tokens=8
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the weights of this machine, and with no kept prompt."""
    weights = locate()
    assert weights is not None
    models = tmp_path / "cache" / "models"
    models.mkdir(parents=True)
    (models / weights.name).symlink_to(weights)
    monkeypatch.setenv("DEMIURGE_CACHE", str(tmp_path / "cache"))
    return models / f"{weights.name}.prompts"


@asynccontextmanager
async def opened() -> AsyncIterator[Models]:
    """The models of a process of its own."""
    models = Models()
    try:
        yield models
    finally:
        await models.aclose()


async def answer(said: str, events: list[AiEvent] | None = None) -> Completion:
    async with opened() as models:
        return await models.generate(request(said), on_event=events.append if events is not None else None)


def reading(events: list[AiEvent]) -> list[str]:
    """Returns how far the prompt was read, as the events say."""
    labels = (event.label or "" for event in events if isinstance(event, Status))
    return [label for label in labels if label.startswith("reading the prompt")]


def cached(completion: Completion) -> int:
    assert completion.usage is not None
    return completion.usage.cached


@pytest.mark.local_model
async def test_a_later_process_reads_the_users_words_alone(cache: Path) -> None:
    events: list[AiEvent] = []
    first = await answer("Say hello.", events)
    told = reading(events)
    assert told
    [kept] = cache.iterdir()
    assert (kept.suffix, cache.stat().st_mode & 0o777) == (".slot", 0o700)
    size = kept.stat().st_size
    events.clear()
    second = await answer("Say something quite different, about the sea and its many ships.", events)
    assert len(reading(events)) < len(told)
    assert first.usage is not None
    assert second.usage is not None
    assert cached(second) > 0.9 * (second.usage.prompt - 20)
    assert [file.stat().st_size for file in cache.iterdir()] == [size]  # no word of a conversation is in it


@pytest.mark.full
@pytest.mark.local_model
async def test_a_damaged_file_costs_time_and_nothing_else(cache: Path) -> None:
    await answer("Say hello.")
    [kept] = cache.iterdir()
    kept.write_bytes(b"damaged" * 100)
    assert (await answer("Say hello.")).finish_reason is not None
    [again] = cache.iterdir()
    assert (again.name, again.stat().st_size > 10_000) == (kept.name, True)


@pytest.mark.full
@pytest.mark.local_model
async def test_a_folder_that_can_not_be_written_stops_no_answer(cache: Path) -> None:
    cache.write_text("a file in place of the folder")
    assert (await answer("Say hello.")).finish_reason is not None


async def test_the_files_that_were_used_last_are_kept(tmp_path: Path) -> None:
    for number in range(MOST_KEPT + 3):
        file = tmp_path / f"{number}.slot"
        await asyncio.to_thread(file.write_bytes, b"")
        await asyncio.to_thread(os.utime, file, (number, number))
    kept_prompts._pruned(tmp_path)
    assert sorted(int(file.stem) for file in tmp_path.iterdir()) == list(range(3, MOST_KEPT + 3))
