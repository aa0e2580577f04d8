"""The chat agent: schemas, plans, caps, policy and secrets in `air/`, and the reducers of its modules in Python."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from demiurge.apps.demiurge import call_reducer, reducer, sampling_reducer, title_reducer
from demiurge.apps.demiurge.standing import OPEN
from demiurge.world.manifest import Folder, read_folder
from demiurge.world.reducer import Reducer

__all__ = ["CALLS", "CHAT", "MAX_TOKENS", "OPEN", "SAMPLING", "TITLES", "App", "app"]

CHAT = "demiurge/Demiurge@1"
"""The chat module; its cells are chats, keyed by chat id."""

CALLS = "demiurge/Calls@1"
"""The module of calls that a person makes, keyed by call id."""

SAMPLING = "demiurge/Sampling@1"
"""The module of requests for a model that MCP servers make, keyed by the intent of the call and a number."""

TITLES = "demiurge/Titles@1"
"""The module of requests for a chat's title, keyed by chat id."""

MAX_TOKENS = 1024
"""The most tokens of an answer, unless a chat's manifest or messages say otherwise."""


class App(NamedTuple):
    """An app. `definitions` and `root` are the arguments of `Manifest.build`; `reducers` is the code of the app's
    modules, `system_prompt` the default system prompt of a chat, `folder` its manifest's files."""

    definitions: list[Mapping[str, Any]]
    root: Mapping[str, Any]
    reducers: Mapping[str, Reducer]
    system_prompt: str
    folder: Folder


@cache
def app() -> App:
    """Returns the shipped app, read from its data files. Raises BadManifest."""
    files = resources.files(__package__).joinpath("air")
    folder = read_folder(files)
    modules = {CHAT: reducer, CALLS: call_reducer, SAMPLING: sampling_reducer, TITLES: title_reducer}
    return App(
        [part.content for part in folder.definitions],
        folder.root(),
        {name: Reducer(code.reduce, inspect.getsource(code).encode()) for name, code in modules.items()},
        files.joinpath("system.txt").read_text("utf-8").strip(),
        folder,
    )
