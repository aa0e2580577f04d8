"""A world whose tool policy is observed: calls run, the record says what the policy would have decided, and it ends."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolEffect, ToolPolicy, World
from demiurge.bootstrap.gateway import Catalogs
from demiurge.errors import InvalidValue, UsageError
from demiurge.models.scripted import ScriptedModel, call
from demiurge.testing.clock import FrozenClock
from demiurge.tools import Redaction
from demiurge.tools.context import ToolContext
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.tools.result import ToolResult
from demiurge.values.caller import Caller
from demiurge.world.history.backtest import backtest

MAIL, SHOP = "mcp__mail__send", "shop__order"
DENYING = ToolPolicy(("core__get_current_time",))
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def tools() -> list[Any]:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        return ToolResult(message="done", value={})

    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    kept = Redaction.drop_all()
    level = ToolEffect.EXTERNAL_SIDE_EFFECT
    return [foreign_tool(name, "Sends.", schema, run, redaction=kept, effect=level) for name in (MAIL, SHOP)]


class Home:
    """The folder of a world, its clock, and its model's calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder / "world", FrozenClock(NOW)
        self.environment = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}

    @asynccontextmanager
    async def open(self, *calls: Any, folder: Path | None = None, policy: ToolPolicy = DENYING) -> AsyncIterator[World]:
        model = ScriptedModel([*calls, "Done."])
        async with World.open(
            folder or self.folder,
            model=model,
            tools=tools(),
            policy=policy,
            clock=self.clock,
            environment=self.environment,
        ) as world:
            yield world


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def outcome(world: World, tool: str = MAIL, **arguments: str) -> str | None:
    """Returns the error code of a call, None for success."""
    return (await world.call(tool, arguments or {"to": "ada"})).error_code


async def test_a_denied_call_runs_while_the_policy_is_observed_and_not_after(home: Home) -> None:
    async with home.open() as world:
        assert await outcome(world) == "policy_denied"
        assert await world.observe_policy(NOW + timedelta(hours=1)) is None
        assert await outcome(world) is None
        assert await outcome(world, SHOP) == "policy_denied"
        assert await outcome(world, MAIL, subject="x") == "validation"
        home.clock.advance(3600)
        assert await outcome(world) == "policy_denied"
        [entry] = [entry for entry in world.manifest_log() if entry["how"] == "policy observed"]
        assert entry["changed"] == ["observing"]
        await world.replay()


async def test_the_record_says_what_the_policy_would_have_decided(home: Home) -> None:
    async with home.open() as world:
        await world.observe_policy(NOW + timedelta(days=1))
        assert await outcome(world) is None
        observed = [
            record.body["admitted"]
            for record in world.journal.read(kinds=("intent",))
            if record.kind == "intent" and record.body["kind"] == "tool.call"
        ]
        assert [(each["verdict"], each["observed"]["verdict"]) for each in observed] == [("allow", "deny")]
        report = await world.observing(days=1)
        assert [(each.tool, each.would_be, each.calls) for each in report.calls] == [(MAIL, "deny", 1)]
        done = backtest(world.journal.read(), world.blobs.get, DENYING)
        assert [(change.tool, change.recorded, change.would_be, change.count) for change in done.changes] == [
            (MAIL, "allow", "deny", 1)
        ]
        assert done.calls == 1
        suggested = await world.policy_suggestion()
        assert suggested.policy.allowed_tools == (MAIL,)


async def test_a_model_sees_and_calls_the_tool_and_nobody_is_asked(home: Home) -> None:
    asking = ToolPolicy((), require_approval_for_tools=())
    async with home.open(call(MAIL, to="ada"), policy=asking) as world:
        assert MAIL not in {spec["name"] for spec in (await world.info())["catalog"]}
        await world.observe_policy(NOW + timedelta(days=1))
        assert MAIL in {spec["name"] for spec in (await world.info())["catalog"]}
        assert SHOP not in {spec["name"] for spec in (await world.info())["catalog"]}
        reply = await world.chat("main").send("Write to Ada.")
        assert reply.text == "Done."
        assert [each.ok for each in reply.tool_calls] == [True]
        assert await world.approvals() == []


async def test_the_catalog_of_a_gateway_follows_the_end(home: Home) -> None:
    async with home.open() as world:
        catalogs = Catalogs()
        await world.observe_policy(NOW + timedelta(hours=1))
        assert MAIL in {spec.name for spec in await catalogs.of(world)}
        home.clock.advance(3600)
        assert MAIL not in {spec.name for spec in await catalogs.of(world)}


async def test_an_approval_that_would_be_asked_for_is_not_waited_for(home: Home) -> None:
    asking = ToolPolicy((MAIL, SHOP), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
    async with home.open(policy=asking) as world:
        await world.observe_policy(NOW + timedelta(days=1))
        assert await outcome(world) is None
        [each] = (await world.observing(days=1)).calls
        assert each.would_be == "require_approval"


async def test_observing_goes_on_in_the_next_process_and_not_in_a_copy(home: Home, tmp_path: Path) -> None:
    async with home.open() as world:
        await world.observe_policy(NOW + timedelta(days=1))
    async with home.open() as world:
        assert (await world.info())["observe_until_ns"] is not None
        assert await outcome(world) is None
    copied = tmp_path / "copied"
    shutil.copytree(home.folder, copied, ignore=shutil.ignore_patterns("*.sock", "owner*"))
    async with home.open(folder=copied) as world:
        assert (await world.info())["observe_until_ns"] is None
        assert await outcome(world) == "policy_denied"
    async with home.open() as world:
        assert await world.observe_policy(None) is None
        assert await outcome(world) == "policy_denied"
        assert [entry["how"] for entry in world.manifest_log()][-1] == "policy enforced"
    async with home.open() as world:
        assert (await world.info())["observe_until_ns"] is None


@pytest.mark.parametrize("until", [NOW, NOW - timedelta(hours=1), NOW + timedelta(days=31), NOW.replace(tzinfo=None)])
async def test_an_end_must_be_named_within_30_days(home: Home, until: datetime) -> None:
    async with home.open() as world:
        with pytest.raises(InvalidValue) as raised:
            await world.observe_policy(until)
        assert raised.value.code == "bad_end"
        assert (await world.info())["observe_until_ns"] is None


async def test_only_a_user_has_the_policy_observed(home: Home) -> None:
    async with home.open() as world:
        agent = world.acting_as(Caller("bot", roles=("agent",)))
        with pytest.raises(UsageError) as raised:
            await agent.observe_policy(NOW + timedelta(hours=1))
        assert raised.value.code == "role_missing"
