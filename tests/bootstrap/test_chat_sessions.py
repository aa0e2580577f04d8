"""`session[Plan].latest()` of a chat: the same after a kill at any point, and for whoever joins (seed 004, Planning
Tool Suite; architecture.md 2, rule 9).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Answer, Provider, serving

from demiurge import World, faults
from demiurge.bootstrap import Chat
from demiurge.prompts.planning import Plan, SetupPlan, UpdateStep, planning_tools
from demiurge.prompts.planning.plan import NO_PLAN
from demiurge.tools import Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.invoked import ToolInvoked

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Order:
    order: str


@dataclass(frozen=True)
class Charged:
    order: str


def charge(params: Order, *, context: ToolContext) -> ToolResult[Charged]:
    return ToolResult("charged", Charged(params.order))


TOOLS: list[Tool[Any, Any]] = [
    *planning_tools(),
    Tool[Order, Charged](name="charge", description="Charges.", handler=charge, effect=ToolEffect.STATE_CHANGE),
]
POLICY = ToolPolicy(allowed_tools=tuple(tool.name for tool in TOOLS))

PLANNED = NO_PLAN.after(SetupPlan("Move", ("Pack", "Drive", "Unpack")))
PLANNED = PLANNED.after(UpdateStep(1, "Pack it all", "done", "12 boxes")).after(UpdateStep(2, status="in_progress"))

ROUNDS: list[list[tuple[str, dict[str, Any]]]] = [
    [
        ("planning_setup_plan", {"objective": "Move", "initial_steps": ["Pack", "Drive"]}),
        ("planning_add_step", {"steps": ["Unpack"]}),
        ("planning_add_step", {"steps": []}),
    ],
    [("planning_update_step", {"step_id": 1, "title": "Pack it all", "status": "done", "note": "12 boxes"})],
    [("planning_update_step", {"step_id": 2, "status": "in_progress"}), ("planning_read_plan", {})],
]


class Planner:
    """A model that goes through `rounds`: what comes next it tells from the outputs that it is shown."""

    def __init__(self, rounds: list[list[tuple[str, dict[str, Any]]]]) -> None:
        self.rounds = rounds

    def next(self, body: Any, key: str) -> Answer:
        answered = sum(item.get("type") == "function_call_output" for item in body["input"])
        done = 0
        for round_ in self.rounds:
            if answered == done:
                calls = [Provider.call(*call, f"call_{done + index}") for index, call in enumerate(round_)]
                return Provider.answer(*calls)
            done += len(round_)
        return Provider.answer(Provider.text("Done."))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.next = Planner(ROUNDS).next  # type: ignore[method-assign]
        yield running


def opened(folder: Path, url: str, **more: Any) -> World:
    return World.open(folder, TOOLS, POLICY, environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url}, **more)


async def plan_of(chat: Chat) -> Plan | None:
    return (await chat.session())[Plan].latest()


async def log_of(chat: Chat) -> list[tuple[str | None, ToolErrorCode | None]]:
    return [(call.call_id, call.error_code) for call in (await chat.session())[ToolInvoked].all()]


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.bootstrap.test_chat_sessions import opened

async def main():
    async with opened(Path(sys.argv[1]), sys.argv[2]) as world:
        await world.chat().send("go")

asyncio.run(main())
"""

GUEST = """
import asyncio, json, sys
from dataclasses import asdict
from demiurge import World
from demiurge.prompts.planning import Plan

async def main():
    async with World.open(sys.argv[1], session_types=[Plan], environment={}) as world:
        assert not world.owned
        print(json.dumps(asdict((await world.chat().session())[Plan].latest())))

asyncio.run(main())
"""


def child(code: str, *arguments: object, fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), faults.VARIABLE: fault}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


async def test_planning_tools_are_all_that_a_chat_needs_for_a_plan(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider.url) as world:
        assert (await world.chat().send("go")).status == "done"
        assert await plan_of(world.chat()) == PLANNED
        assert await plan_of(world.chat("other")) is None


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fault",
    [f"tool.ran=kill@{hit}" for hit in (1, 2, 4, 6)]
    + ["effect.attempted=kill@3", "effect.performed=kill@3", "effect.received=kill@2", "unit.advanced=kill@9"],
)
async def test_a_plan_survives_a_kill_with_each_step_once(tmp_path: Path, provider: Provider, fault: str) -> None:
    died = child(CHILD, tmp_path / "w", provider.url, fault=fault)
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with opened(tmp_path / "w", provider.url) as world:
        chat = world.chat()
        await chat.resume()
        assert (await chat.reply()).status == "done"
        assert await plan_of(chat) == PLANNED
        told: list[Any] = [(f"call_{number}", None) for number in range(6)]
        told[2] = ("call_2", ToolErrorCode.VALIDATION)
        assert await log_of(chat) == told
        assert (await world.replay(check=True))["ok"]
        assert world.journal.verify().ok


async def test_a_call_in_doubt_is_not_folded_into_the_session(tmp_path: Path, provider: Provider) -> None:
    provider.next = Planner([[("charge", {"order": "a"})], [("charge", {"order": "b"})]]).next  # type: ignore[method-assign]
    died = child(CHILD, tmp_path / "w", provider.url, fault="tool.ran=kill@1")
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with opened(tmp_path / "w", provider.url) as world:
        chat = world.chat()
        await chat.resume()
        assert await log_of(chat) == [("call_0", ToolErrorCode.UNKNOWN_OUTCOME), ("call_1", None)]
        assert (await chat.session())[Charged].all() == (Charged("b"),)
        assert (await world.replay(check=True))["ok"]


async def test_a_process_that_joins_sees_the_plan(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider.url) as world:
        await world.chat().send("go")
        guest = await asyncio.to_thread(child, GUEST, tmp_path / "w")
    assert guest.returncode == 0, guest.stderr
    assert json.loads(guest.stdout) == json.loads(json.dumps(asdict(PLANNED)))
