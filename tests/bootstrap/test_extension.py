"""A world whose manifest extends the shipped app keeps the difference, and follows the app's upgrades."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_manifest_of_others import owning

import demiurge
from demiurge import World, tool
from demiurge.apps.demiurge import app
from demiurge.bootstrap import manifest as worlds_manifest
from demiurge.errors import Conflict, InvalidValue
from demiurge.stores import SqliteStore
from demiurge.tools import ToolEffect, ToolPolicy
from demiurge.world.manifest import BadManifest, Folder
from demiurge.world.manifest.folder import ManifestPart

NOTE = {"$kind": "defschema", "name": "ex/Note@1", "type": {"record": {"text": {"text": {}}}}}
PLAN = {
    "$kind": "defplan",
    "name": "demiurge/call_plan@1",
    "input": "demiurge/CallRequested@1",
    "steps": next(d for d in app().definitions if d["name"] == "demiurge/call_plan@1")["steps"],
    "edges": next(d for d in app().definitions if d["name"] == "demiurge/call_plan@1")["edges"],
}
AIR = Path(demiurge.__file__).with_name("apps") / "demiurge/air"
Change = Callable[[Any], Any]


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang" * times


ALLOWS = ToolPolicy(allowed_tools=("ring_bell",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return extension(tmp_path / "mine", NOTE, settings={"window_turns": 8})


def extension(folder: Path, *definitions: Any, **root: Any) -> Path:
    folder.mkdir(exist_ok=True)
    parts = [*definitions, {"$kind": "manifest", "extends": "demiurge", **root}]
    (folder / "mine.json").write_text(json.dumps(parts))
    return folder


def opened(world: Path, **more: Any) -> World:
    given: dict[str, Any] = {"environment": {"HOME": str(world.parent)}, **more}
    return World.open(world, [ring_bell], **given)


async def create_chat(world: World, chat: str = "main") -> None:
    await world.submit("demiurge/ChatCreated@1", {"chat_id": chat, "title": "t", "created_at_ms": 1}, None, chat)


async def assert_sound(world: World) -> None:
    assert world.journal.verify().ok
    assert (await world.replay())["ok"]


def upgrade(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Makes this program a later version, whose app is another one."""
    parts = [ManifestPart(change(json.loads(json.dumps(part.content))), part.place) for part in app().folder.parts]
    monkeypatch.setattr(worlds_manifest, "BASES", {"demiurge": lambda: Folder(tuple(parts))})


def with_more_tokens(content: Any) -> Any:
    if "settings" in content:
        content["settings"]["max_tokens"] = 2048
    return content


def with_another_call(content: Any) -> Any:
    """Calls of people carry a number from now on, and the plans know it."""
    if content.get("name") == "demiurge/CallRequested@1":
        del content["type"]["record"]["tool"]
    if content.get("name") == "demiurge/call_plan@1":
        content["steps"][0]["params"]["record"]["tool"] = "ring_bell"
    return content


async def test_a_world_runs_the_app_and_what_its_extension_adds(folder: Path, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", manifest=folder, policy=ALLOWS) as world:
        node = world.manifest()
        assert (node["root"]["settings"]["window_turns"], node["root"]["settings"]["max_tokens"]) == (8, 1024)
        root = {"$kind": "manifest", "extends": "demiurge", "settings": {"window_turns": 8}}
        assert node["extension"]["root"] == root
        assert node["extension"]["definitions"] == [NOTE]
        await create_chat(world)
        assert (await world.call("ring_bell", '{"times": 1}')).status == "done"
        await assert_sound(world)
        fork = await world.fork(tmp_path / "f")
    with SqliteStore.open(tmp_path / "w") as store:
        kept = json.loads(store.get_meta("definitions") or "")
    assert kept == {"definitions": node["extension"]["definitions"], "root": node["extension"]["root"]}
    async with opened(Path(fork), policy=ALLOWS) as other:
        assert other.manifest()["extension"] == node["extension"]
        await create_chat(other, "another")
        await assert_sound(other)
    async with opened(tmp_path / "w", policy=ALLOWS) as world:
        assert len(world.manifest_log()) == 1, "opening it again is no change"


async def test_the_world_follows_an_upgrade_of_the_app_and_the_log_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "w", manifest=folder) as world:
        await create_chat(world)
        before, own = world.manifest(), (await world.info())["own_manifest"]
    upgrade(monkeypatch, with_more_tokens)
    async with opened(tmp_path / "w") as world:
        await create_chat(world, "another")
        settings = world.manifest()["root"]["settings"]
        assert (settings["max_tokens"], settings["window_turns"]) == (2048, 8)
        assert world.manifest()["extension"] == before["extension"]
        assert (await world.info())["own_manifest"] == own
        assert [(e["how"], e["changed"]) for e in world.manifest_log()] == [
            ("manifest set", None),
            ("opened with", ["settings"]),
        ]
        await assert_sound(world)


async def test_an_extension_that_an_upgrade_breaks_leaves_a_world_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = extension(tmp_path / "mine", PLAN)
    async with opened(tmp_path / "w", manifest=mine, policy=ALLOWS) as world:
        assert (await world.call("ring_bell", '{"times": 1}')).status == "done"
        ref = (await world.info())["manifest"]
    upgrade(monkeypatch, with_another_call)
    async with opened(tmp_path / "w", policy=ALLOWS) as world:
        info = await world.info()
        assert info["manifest"] == ref, "the last manifest in force is shown"
        [notice] = info["notices"]
        assert "does not fit the app of this program" in notice
        assert "demiurge/call_plan@1: steps[0].params.record.tool.ref: @plan.input.tool is not there" in notice
        assert "demiurge manifest set --shipped" in notice
        for refused in (
            create_chat(world),
            world.call("ring_bell", '{"times": 1}'),
            world.set_policy(ALLOWS),
            world.fork(tmp_path / "f"),
        ):
            with pytest.raises(Conflict) as error:
                await refused
            assert error.value.code == "unfit_extension"
        await assert_sound(world)
        assert len(world.manifest_log()) == 1
        with pytest.raises(BadManifest):
            await world.set_manifest(mine)
        await world.set_manifest(extension(mine, NOTE))
        await create_chat(world)
        await assert_sound(world)
    async with opened(tmp_path / "w") as world:
        await create_chat(world, "another")


async def test_a_broken_extension_of_a_world_without_records_is_read_and_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = extension(tmp_path / "mine", PLAN)
    async with opened(tmp_path / "w", manifest=mine):
        pass
    upgrade(monkeypatch, with_another_call)
    async with opened(tmp_path / "w") as world:
        assert world.manifest()["extension"]["definitions"] == [PLAN]
        with pytest.raises(Conflict, match="can only be read"):
            await create_chat(world)
        await world.set_manifest(AIR)
        await create_chat(world)


async def test_an_extension_in_a_copied_world_has_no_effect_until_it_is_adopted(folder: Path, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", manifest=folder) as world:
        await create_chat(world)
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    async with opened(tmp_path / "copy") as world:
        assert not (await world.info())["adopted"]
        with pytest.raises(Conflict) as refused:
            await create_chat(world, "another")
        assert refused.value.code == "not_adopted"
        await assert_sound(world)
    async with opened(tmp_path / "copy", adopt=True) as world:
        await create_chat(world, "another")
        await assert_sound(world)


async def test_a_broken_extension_in_a_copied_world_cannot_be_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user would accept what nobody can show."""
    async with opened(tmp_path / "w", manifest=extension(tmp_path / "mine", PLAN)) as world:
        await create_chat(world)
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    with monkeypatch.context() as patched:
        upgrade(patched, with_another_call)
        with pytest.raises(Conflict, match="can only be read"):
            async with opened(tmp_path / "copy", adopt=True):
                raise AssertionError
        async with opened(tmp_path / "copy") as world:
            with pytest.raises(Conflict, match="can only be read"):
                await world.backend.keep.adopt((await world.info())["own_manifest"])
    async with opened(tmp_path / "copy") as world:
        assert not (await world.info())["adopted"]


async def test_an_extension_is_set_and_left_again(folder: Path, tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await create_chat(world)
        shipped = world.manifest()
        await world.set_manifest(folder)
        extended = world.manifest()
        await world.set_policy(ALLOWS)
        assert world.manifest()["extension"] == extended["extension"]
        assert {**world.manifest(), "tool_policy": extended["tool_policy"]} == extended
        await world.set_manifest(AIR)
        assert "extension" not in world.manifest()
        assert {**world.manifest(), "tool_policy": shipped["tool_policy"]} == shipped
        whole = ["definitions", "settings"]
        assert [e["changed"] for e in world.manifest_log()] == [None, whole, ["policy"], whole]
        await assert_sound(world)


async def test_a_joined_process_sets_an_extension_and_everybody_sees_it(folder: Path, tmp_path: Path) -> None:
    world_folder = tmp_path / "w"
    with owning(world_folder) as owner:
        async with World.open(world_folder, environment={"HOME": str(tmp_path)}) as joined:
            assert not joined.owned
            await joined.set_manifest(folder)
            assert (await joined.info())["manifest"] == owner.seen()["manifest"]
            assert joined.manifest()["extension"]["definitions"] == [NOTE]
            broken = extension(tmp_path / "broken", without={"cap_grants": ["cap_tool"]})
            with pytest.raises(BadManifest, match=r"demiurge/plans\.json: \[1\]\.steps\[0\]\.cap"):
                await joined.set_manifest(broken)
        owner.leave()
    async with opened(world_folder, policy=ALLOWS) as world:
        assert world.manifest()["root"]["settings"]["window_turns"] == 8
        assert [entry["how"] for entry in world.manifest_log()] == ["opened with", "manifest set"]
        await create_chat(world, "another")
        await asyncio.to_thread(world.journal.verify)


async def test_an_extension_of_something_unknown_makes_no_world(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.json").write_text('{"$kind": "manifest", "extends": "demiurge2"}')
    with pytest.raises(InvalidValue, match="there is nothing named demiurge2 to extend; perhaps you mean demiurge"):
        opened(tmp_path / "w", manifest=tmp_path / "mine")
    assert not (tmp_path / "w").exists()
