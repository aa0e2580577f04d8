"""Each change of the manifest in force is recorded before it takes effect: who, how, and which manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World, faults, tool
from demiurge.errors import Unavailable, UsageError
from demiurge.stores import SqliteStore
from demiurge.tools import ToolEffect
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock
from demiurge.world.manifest_log import MANIFESTS
from demiurge.world.retention.garbage import collect

ADA = Caller("user:ada", roles=("user",), transport="python")


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang" * times


ALLOWS = ToolPolicy(allowed_tools=("ring_bell",))
ASKS = ToolPolicy(allowed_tools=("ring_bell",), require_approval_for_tools=("ring_bell",))
DENIES = ToolPolicy()


def opened(path: Path, policy: ToolPolicy | None = ALLOWS, **more: Any) -> World:
    return World.open(path, [ring_bell], policy, environment={}, **more)


def log_entries(world: World) -> list[tuple[str, str, list[str] | None]]:
    return [(entry["caller"]["actor"], entry["how"], entry["changed"]) for entry in world.manifest_log()]


async def create_chat(world: World, chat: str = "main") -> None:
    await world.submit("demiurge/ChatCreated@1", {"chat_id": chat, "title": "t", "created_at_ms": 1}, None, chat)


async def assert_sound(world: World) -> None:
    assert world.journal.verify().ok
    assert (await world.replay())["ok"]


async def test_the_first_event_puts_the_first_manifest_in_the_log_and_reading_writes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", caller=ADA) as world:
        await world.info()
        assert world.manifest_log() == []
        assert list(world.journal.read()) == []
        await create_chat(world)
        [entry] = world.manifest_log()
        assert entry["caller"] == {"actor": "user:ada", "tenant": "", "roles": ["user"], "transport": "python"}
        assert (entry["how"], entry["old"], entry["changed"]) == ("opened with", None, None)
        assert entry["manifest"] == (await world.info())["manifest"]
        await create_chat(world, "another")
        assert len(world.manifest_log()) == 1
        await assert_sound(world)


async def test_opening_with_the_same_manifest_is_no_change_and_with_another_one_is(tmp_path: Path) -> None:
    for policy in (ALLOWS, ALLOWS, ASKS):
        async with opened(tmp_path / "w", policy) as world:
            await create_chat(world)
    async with opened(tmp_path / "w", ASKS) as world:
        assert log_entries(world) == [("user", "opened with", None), ("user", "opened with", ["policy"])]
        await assert_sound(world)


async def test_a_policy_that_is_set_applies_to_each_unit_at_its_next_event(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        assert (await world.call("ring_bell", '{"times": 1}')).status == "done"
        first = (await world.info())["manifest"]
        await world.acting_as(ADA).set_policy(DENIES)
        second = (await world.info())["manifest"]
        assert (await world.info())["catalog"] == []
        assert (await world.call("ring_bell", '{"times": 1}')).error_code == "policy_denied"
        assert log_entries(world)[-1] == ("user:ada", "policy set", ["policy"])
        assert [r.body["ref"] for r in world.journal.read(MANIFESTS) if r.kind == "manifest"] == [first, second]
        await assert_sound(world)


async def test_an_invalid_policy_is_not_set(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        with pytest.raises(UsageError, match=r"ToolPolicy\.load"):
            await world.set_policy("policy.toml")  # type: ignore[arg-type]
        assert world.manifest_log() == []


async def test_the_same_policy_again_is_no_change(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        await world.set_policy(ALLOWS)
        assert len(world.manifest_log()) == 1


async def test_a_policy_set_before_the_first_event_is_the_first_of_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await world.set_policy(ASKS)
        assert log_entries(world) == [("user", "policy set", None)]
        assert ToolPolicy.from_json(world.manifest()["tool_policy"]) == ASKS


async def test_a_manifest_that_is_set_is_kept_by_the_world(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        folder = own_folder(tmp_path / "own", world.manifest())
        await world.set_manifest(folder)
        assert log_entries(world)[-1] == ("user", "manifest set", ["definitions", "settings"])
        own, ref = (await world.info())["own_manifest"], (await world.info())["manifest"]
        await create_chat(world, "another")
        await assert_sound(world)
    environment = {"HOME": str(tmp_path)}
    async with World.open(tmp_path / "w", [ring_bell], ALLOWS, environment=environment) as world:
        assert (await world.info())["own_manifest"] == own
        assert (await world.info())["manifest"] == ref


def own_folder(folder: Path, node: Any) -> Path:
    """The shipped app's definitions with one schema more."""
    folder.mkdir()
    root = {name: value for name, value in node["root"].items() if name != "settings"}
    more = {"$kind": "defschema", "name": "ex/Note@1", "type": {"record": {"text": {"text": {}}}}}
    parts = [*node["definitions"], more, {"$kind": "manifest", **root}]
    (folder / "all.json").write_text(json.dumps(parts))
    return folder


async def test_only_a_user_changes_the_manifest_and_any_reader_sees_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        folder = own_folder(tmp_path / "own", world.manifest())
        for role in ("viewer", "agent", "approver", "chief"):
            other = world.acting_as(Caller("someone", roles=(role,)))
            with pytest.raises(UsageError, match="takes the role user"):
                await other.set_policy(DENIES)
            with pytest.raises(UsageError, match="takes the role user"):
                await other.set_manifest(folder)
            assert len(other.manifest_log()) == 1


async def test_the_log_outlives_garbage_collection_and_goes_along_to_a_fork(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        await world.set_policy(ASKS)
        await world.set_policy(DENIES)
        before = world.manifest_log()
    store = SqliteStore.open(tmp_path / "w")
    collect(store, now_s=SystemClock().now_ns() // 10**9 + 10**6, keep_s=0)
    store.close()
    async with opened(tmp_path / "w", DENIES) as world:
        await create_chat(world, "another")
        assert world.manifest_log() == before
        assert [entry["changed"] for entry in before] == [None, ["policy"], ["policy"]]
        await assert_sound(world)
        fork = await world.fork(tmp_path / "f")
    async with opened(fork.folder, ALLOWS) as world:
        assert world.manifest_log() == before
        await create_chat(world, "of the fork")
        assert [entry["how"] for entry in world.manifest_log()] == [*(e["how"] for e in before), "opened with"]
        await assert_sound(world)


async def test_a_world_whose_old_log_is_archived_elsewhere_goes_on_and_takes_changes(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        await world.set_policy(ASKS)
        log = world.manifest_log()
        done = await world.archive(before=world.journal.verify().records + 1)
        assert done.records > 0
    archives = list((tmp_path / "w" / "archives").iterdir())
    for file in archives:
        file.rename(tmp_path / file.name)
    for policy in (ASKS, ALLOWS):
        async with opened(tmp_path / "w", policy) as world:
            await create_chat(world, f"after {len(policy.require_approval_for_tools)}")
            if policy == ASKS:
                with pytest.raises(Unavailable, match="archived"):
                    world.manifest_log()
    for file in archives:
        (tmp_path / file.name).rename(file)
    async with opened(tmp_path / "w") as world:
        *former, last = world.manifest_log()
        assert former == log
        assert (last["how"], last["old"]) == ("opened with", log[-1]["manifest"])
        await assert_sound(world)


async def test_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        for number in range(12):
            await world.set_policy(ASKS if number % 2 else DENIES)
        log = world.manifest_log()
        assert len(log) == 13
        assert [entry["old"] for entry in log[1:]] == [entry["manifest"] for entry in log[:-1]]
    async with opened(tmp_path / "w", ASKS) as world:
        await create_chat(world, "another")
        assert len(world.manifest_log()) == 13
        await assert_sound(world)


@pytest.mark.parametrize("point", ["journal.before_commit", "blob.before_fsync"])
async def test_a_change_that_the_disk_refuses_changes_nothing(tmp_path: Path, point: str) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        before, folder = world.manifest(), own_folder(tmp_path / "own", world.manifest())
        with faults.armed({point: "enospc"}):
            with pytest.raises(Unavailable):
                await world.set_policy(ASKS)
            with pytest.raises(Unavailable):
                await world.set_manifest(folder)
        assert world.manifest() == before
        assert (await world.info())["own_manifest"] is None
        assert len(world.manifest_log()) == 1
        await world.set_policy(ASKS)
        await world.set_manifest(folder)
        assert [entry["how"] for entry in world.manifest_log()] == ["opened with", "policy set", "manifest set"]
        await assert_sound(world)


# -- calls that wait for a person --------------------------------------------------------------------------------------


async def waiting(world: World) -> str:
    assert (await world.call("ring_bell", '{"times": 1}')).status == "awaiting_approval"
    [asked] = await world.approvals()
    return str(asked["id"])


async def receipts(world: World) -> list[str | None]:
    await world.settle()
    return [r.body["payload"].get("error_code") for r in world.journal.read() if r.kind == "receipt"]


async def test_a_call_that_waits_is_not_run_if_the_new_policy_denies_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", ASKS) as world:
        asked = await waiting(world)
        await world.set_policy(DENIES)
        await world.decide(asked, approve=True)
        assert await receipts(world) == ["policy_denied"]
        await assert_sound(world)


async def test_a_call_that_waits_still_waits_if_the_new_policy_would_not_ask(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", ASKS) as world:
        asked = await waiting(world)
        await world.set_policy(ALLOWS)
        await world.settle()
        assert [each["id"] for each in await world.approvals()] == [asked]
        await world.decide(asked, approve=True)
        assert await receipts(world) == [None]
        await assert_sound(world)


async def test_an_approval_counts_for_nothing_if_the_new_policy_asks_others(tmp_path: Path) -> None:
    def policy(role: str) -> ToolPolicy:
        names = ("ring_bell",)
        return ToolPolicy(allowed_tools=names, require_approval_for_tools=names, approvers=(role,))

    async with opened(tmp_path / "w", policy("approver")) as world:
        asked = await waiting(world)
        await world.set_policy(policy("chief"))
        await world.acting_as(Caller("bob", roles=("approver",))).decide(asked, approve=True)
        assert await receipts(world) == ["approval_expired"]
        asked = await waiting(world)
        with pytest.raises(UsageError, match="a person with the role chief"):
            await world.acting_as(Caller("bob", roles=("approver",))).decide(asked, approve=True)
        await world.acting_as(Caller("ann", roles=("approver", "chief"))).decide(asked, approve=True)
        assert await receipts(world) == ["approval_expired", None]
        await assert_sound(world)
