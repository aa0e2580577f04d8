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
from typing import Any, cast

from demiurge.bootstrap.opening import Opening
from demiurge.bootstrap.world import World
from demiurge.bootstrap.world_options import WorldOptions, chosen_caller
from demiurge.bootstrap.world_tools import GivenTools
from demiurge.models.port import LanguageModel
from demiurge.models.scripted import ScriptedModel
from demiurge.tools.policy import ToolPolicy
from demiurge.values.clock import Clock

__all__ = ["memory_world", "open_world", "temporary_folder"]

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
        given = {"tools": tools, "policy": policy, "model": answers, "clock": clock, **options}
        async with open_world(folder / "world", {"environment": home, **given}) as world:
            yield world


def open_world(folder: Path, options: Mapping[str, Any]) -> World:
    """Opens the world in `folder` with arguments of `World.open`, of which `clock` and `model` may be a Clock and a
    LanguageModel."""
    given = {name: value for name, value in options.items() if value is not None}
    model = given.pop("model", None)
    who = chosen_caller(given.pop("caller", None), given.pop("actor", None), given.pop("tenant", None))
    opening = Opening.of(WorldOptions(folder=folder, caller=who, **given))
    world = World(opening.backend(), opening)
    if model is not None:
        vars(cast("Any", world.backend).state._models)["generate"] = vars(type(model))["generate"].__get__(model)
    return world


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a new folder for this user alone, in memory where that is possible, and removes it at the end."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="demiurge-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
