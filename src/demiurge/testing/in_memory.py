"""A world for one test: nothing of it stays, and nothing of the user's is read or written.

It is a real world, with the real store, in a folder of its own that is removed at the end; on Linux the folder is in
memory (`/dev/shm`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from demiurge.bootstrap.world import World
from demiurge.bootstrap.world_tools import GivenTools
from demiurge.models.port import LanguageModel
from demiurge.models.scripted import ScriptedModel
from demiurge.tools.policy import ToolPolicy
from demiurge.values.clock import Clock

__all__ = ["memory_world", "temporary_folder"]

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - each folder in it is made for its user alone


@asynccontextmanager
async def memory_world(
    tools: GivenTools = (),
    *,
    model: LanguageModel | None = None,
    policy: ToolPolicy | None = None,
    clock: Clock | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> AsyncIterator[World]:
    """Opens a new world that is removed when the block ends: `async with memory_world([tool]) as world:`.

    `model` answers its chats: a ScriptedModel, a Cassette, any LanguageModel; by default a ScriptedModel without
    answers, so that no provider is ever asked. `clock`: a FrozenClock, for example. `environment`: the variables that
    the world sees; it has no others, so no key and no folder of the user. `policy` and all other `options` are those of
    `World.open`, with the same defaults, and it raises the same."""
    with temporary_folder() as folder:
        home = {"HOME": str(folder / "home"), **environment}
        answers = model if model is not None else ScriptedModel()
        opened = World.open(folder / "world", tools, policy, model=answers, clock=clock, environment=home, **options)
        async with opened as world:
            yield world


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a new folder for this user alone, in memory where that is possible, and removes it at the end."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="demiurge-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
