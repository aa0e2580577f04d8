"""Demiurge: an event for one unit, whose reducer adds to a list of its cell. Each is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.steps.timing import main
from demiurge.stores import SqliteStore
from demiurge.tools.policy import ToolPolicy
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import Reducer, ReducerContext, Step
from demiurge.world.workspace import WORKSPACE, workspace_reducer

MODULE = "bench/Log@1"
SCHEMAS = {
    "bench/Name@1": {"text": {}},
    "bench/State@1": {"record": {"log": {"list": {"text": {}}}}},
    "bench/Said@1": {"record": {"log": {"text": {}}, "text": {"text": {}}}},
    "bench/Event@1": {"variant": {"Said": {"ref": "bench/Said@1"}}},
}


def _reduce(_state: Any, event: Any, _context: ReducerContext) -> Step:
    return Step(append={"log": [event["$value"]["text"]]})


def _manifest() -> Manifest:
    abi = {"state": "bench/State@1", "event": "bench/Event@1"}
    module = {"$kind": "defmodule", "name": MODULE, "module_kind": "reducer", "key_schema": "bench/Name@1", "abi": abi}
    schemas = [{"$kind": "defschema", "name": name, "type": form} for name, form in SCHEMAS.items()]
    root = {"routing": {"events": [{"event": "bench/Event@1", "module": MODULE, "key_field": "$value.log"}]}}
    reducers = {MODULE: Reducer(_reduce, b"bench"), WORKSPACE: workspace_reducer()}
    return Manifest.build([*schemas, module], root, reducers, tool_policy=ToolPolicy())


def steps(folder: Path) -> Callable[[str], None]:
    loop = asyncio.new_event_loop()
    host = Host(SqliteStore.create(folder / "world", "bench"), _manifest(), [])
    loop.run_until_complete(host.start())

    def step(text: str) -> None:
        loop.run_until_complete(host.submit("bench/Said@1", {"log": "1", "text": text}))

    return step


if __name__ == "__main__":
    main(steps)
