"""The chat agent of seeds 000 and 001: schemas, plans, caps, policy and secrets in `air/`, the reducer in Python."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from demiurge.apps.demiurge import reducer
from demiurge.apps.demiurge.reducer import OPEN
from demiurge.world.manifest import read_folder
from demiurge.world.reducer import Reducer

__all__ = ["CHAT", "OPEN", "App", "app"]

CHAT = "demiurge/Demiurge@1"
"""The chat module; its cells are chats, keyed by chat id."""


class App(NamedTuple):
    """`definitions` and `root` are what `Manifest.build` takes; `reducers` is the code of the
    app's modules, `system_prompt` what a chat is told unless its user says otherwise."""

    definitions: list[Mapping[str, Any]]
    root: Mapping[str, Any]
    reducers: Mapping[str, Reducer]
    system_prompt: str


@cache
def app() -> App:
    """The shipped app, read from its data files. Raises BadManifest."""
    files = resources.files(__package__).joinpath("air")
    folder = read_folder(files)
    source = inspect.getsource(reducer).encode()
    return App(
        [part.content for part in folder.definitions],
        folder.root(),
        {CHAT: Reducer(reducer.reduce, source)},
        files.joinpath("system.txt").read_text("utf-8").strip(),
    )
