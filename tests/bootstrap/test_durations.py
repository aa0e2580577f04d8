"""Lengths of time that a caller gives: text such as "24h" is refused in words, before anything happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from demiurge import AgentLoop, ToolRunner, World
from demiurge.errors import InvalidValue
from demiurge.models.scripted import ScriptedModel


async def show(host: str, link: str) -> None:
    raise AssertionError((host, link))


GIVEN: dict[str, Callable[[World, Any], Awaitable[object]]] = {
    "until": lambda world, value: world.observe_policy(value),
    "days": lambda world, value: world.observing(value),
    "days of a suggestion": lambda world, value: world.policy_suggestion(days=value),
    "days of costs": lambda world, value: world.cost(days=value),
    "days of a token": lambda world, value: world.tokens.add("ada", ["user"], days=value),
    "lasts_s": lambda world, value: world.standing_rules.allow("00", lasts_s=value),
    "timeout_s": lambda world, value: world.connections.add_by_login("http://127.0.0.1:1/", show, timeout_s=value),
}


async def test_a_length_of_time_is_no_text_and_no_number_below_0(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        for name, call in GIVEN.items():
            for value in ("24h", "7", -1, True, float("nan")):
                with pytest.raises(InvalidValue) as raised:
                    await call(world, value)
                assert raised.value.path == name.partition(" ")[0], (name, value)
    for value in ("10s", 0):
        with pytest.raises(InvalidValue, match="timeout_s: must be a number of seconds above 0"):
            AgentLoop(ScriptedModel(), ToolRunner(()), timeout_s=value)  # type: ignore[arg-type]
