"""A person allows further calls of a tool in one chat: no wider than said, counted down durably, ended at any time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.edited_approval_child import booked, opened
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.errors import InvalidValue, NotFound, UsageError
from demiurge.values.caller import Caller

ROME = {"city": "Rome", "nights": 2}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


async def propose(
    world: World, provider: Provider, arguments: Mapping[str, Any], chat: str = "trip"
) -> tuple[str, ...]:
    """Has the model propose a call in a turn of its own. Returns the ids of the requests for approval."""
    call = Provider.call("book", dict(arguments), f"call_{len(provider.seen)}")
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    return (await world.chat(chat).send("Book it.")).approvals


async def tool_intents(world: World) -> list[Any]:
    found = [record for record in world.journal.read("demiurge/Demiurge@1/trip") if record.kind == "intent"]
    return [record for record in found if record.body["kind"] == "tool.call"]


async def test_a_rule_allows_the_waiting_call_and_further_equal_ones_until_its_count_is_used(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        made = await world.standing_rules.allow(approval, count=3, reason="the usual")
        await world.settle()
        assert booked(folder) == ["Rome 2"]
        [rule] = await world.standing_rules.list()
        assert (rule["id"], rule["left"], rule["tool"], rule["by"]) == (made["id"], 2, "book", "user")
        assert await propose(world, provider, {"nights": 2, "city": "Rome"}) == ()
    async with opened(folder, provider.url) as world:  # the count is durable
        assert [rule["left"] for rule in await world.standing_rules.list()] == [1]
        assert await propose(world, provider, ROME) == ()
        assert await world.standing_rules.list() == []
        assert len(await propose(world, provider, ROME)) == 1
        assert booked(folder) == ["Rome 2"] * 3
        used = [record.body.get("approved", {}).get("rule") for record in await tool_intents(world)]
        assert used == [None, made["id"], made["id"], None]
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["records"] > 0


async def test_a_rule_is_never_wider_than_said(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, {"city": "it/Rome", "nights": 2})
        pattern = {"city": {"like": "it/*"}, "nights": {"any": True}}
        await world.standing_rules.allow(approval, pattern, count=9)
        await world.settle()
        assert await propose(world, provider, {"city": "it/Bari", "nights": 5}) == ()
        for city in ("it/x/y", "it/..", "fr/Nice", "IT/Rome", "it"):
            [asked] = await propose(world, provider, {"city": city, "nights": 2})
            await world.decide(asked, approve=False)
            await world.settle()
        assert len(await propose(world, provider, ROME | {"city": "it/Rome"}, chat="other")) == 1
        assert booked(folder) == ["it/Rome 2", "it/Bari 5"]


async def test_a_value_that_is_no_pattern_or_too_much_is_refused(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        wrong: list[dict[str, Any]] = [{"city": "Rome"}, {"city": {"any": False}}, {"city": {"like": 1}}, {"city": {}}]
        for pattern in wrong:
            with pytest.raises(InvalidValue):
                await world.standing_rules.allow(approval, pattern)
        for count, lasts_s in ((0, 60.0), (1001, 60.0), (1, 0.0), (1, 31 * 86400.0)):
            with pytest.raises(InvalidValue):
                await world.standing_rules.allow(approval, count=count, lasts_s=lasts_s)
        with pytest.raises(NotFound):
            await world.standing_rules.allow("00ff")
        with pytest.raises(NotFound):
            await world.standing_rules.forget("00ff")
        assert await world.standing_rules.list() == []


async def test_only_those_who_may_approve_make_a_rule(provider: Provider, folder: Path) -> None:
    policy = ToolPolicy(("book",), require_approval_for_tools=("book",), approvers=("chief", "user"))
    async with opened(folder, provider.url, policy) as world:
        [approval] = await propose(world, provider, ROME)
        for roles, code in ((("agent",), "role_missing"), (("approver",), "not_an_approver")):
            other = world.acting_as(Caller("other", "", roles))
            with pytest.raises(UsageError) as error:
                await other.standing_rules.allow(approval)
            assert error.value.code == code
        await world.standing_rules.allow(approval)
        [seen] = await world.acting_as(Caller("other", "", ("approver",))).standing_rules.list()
        assert seen["pattern_json"] is None
        with pytest.raises(UsageError):
            await world.acting_as(Caller("other", "", ("agent",))).standing_rules.forget(seen["id"])


async def test_a_forgotten_rule_allows_nothing(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        made = await world.standing_rules.allow(approval)
        await world.settle()
        await world.standing_rules.forget(made["id"])
        assert await world.standing_rules.list() == []
        assert len(await propose(world, provider, ROME)) == 1


async def test_a_rule_does_not_outlive_the_policy_that_asked(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        await world.standing_rules.allow(approval)
        await world.settle()
        asking = ToolPolicy(("book",), require_approval_for_tools=("book",), approvers=("user",))
        await world.set_policy(asking)
        assert len(await propose(world, provider, ROME)) == 1


async def test_a_fork_has_no_rules(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        await world.standing_rules.allow(approval)
        await world.settle()
        await world.fork(folder.parent / "fork")
    async with opened(folder.parent / "fork", provider.url) as world:
        assert await world.standing_rules.list() == []
        assert len(await propose(world, provider, ROME)) == 1


async def test_a_rule_that_this_user_did_not_make_lets_no_call_begin(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
        await world.standing_rules.allow(approval)
        await world.settle()
    for kept in (folder.parent / ".config" / "demiurge").rglob("*.json"):
        kept.write_text(kept.read_text().replace("rule:", "role:"))
    async with opened(folder, provider.url) as world:
        await propose(world, provider, ROME)
        assert booked(folder) == ["Rome 2"]


POINTS = (
    "unit.advanced",
    "journal.before_commit",
    "journal.after_commit",
    "unit.committed",
    "unit.acknowledged",
    "effect.before_attempt",
    "effect.attempted",
    "tool.ran",
    "effect.received",
)


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_a_whole_rule_or_none(point: str, provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        [approval] = await propose(world, provider, ROME)
    killed = await run_program("standing_rule_child", folder, provider.url, faults=f"{point}=kill")
    assert killed.returncode != 0
    async with opened(folder, provider.url) as world:
        waiting, rules = await world.approvals(), await world.standing_rules.list()
        assert ([asked["id"] for asked in waiting], len(rules)) in (([approval], 0), ([], 1))
        assert [rule["left"] for rule in rules] in ([], [2])
        await world.settle()
        assert booked(folder) in ([], ["Rome 2"])
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["records"] > 0
