"""The chat agent of seeds 000 and 001: schemas, plans, caps, policy and secrets in `air/`, the reducer in Python."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from demiurge.apps.demiurge import reducer
from demiurge.apps.demiurge.reducer import OPEN
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
    """The shipped app, read from its data files."""
    definitions: list[Mapping[str, Any]] = []
    root: Mapping[str, Any] = {}
    system_prompt = ""
    for path in sorted(resources.files(__package__).joinpath("air").iterdir(), key=lambda path: path.name):
        text = path.read_text("utf-8")
        if path.name == "system.txt":
            system_prompt = text.strip()
        elif path.name == "manifest.json":
            root = json.loads(text)
        else:
            definitions.extend(json.loads(text))
    source = inspect.getsource(reducer).encode()
    return App(definitions, root, {CHAT: Reducer(reducer.reduce, source)}, system_prompt)
