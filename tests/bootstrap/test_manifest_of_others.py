"""A process that joined a world changes its manifest, follows it, and goes on with it when the owner has gone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.manifest_owner import ALLOWS, opened, ring_bell
from tests.bootstrap.test_manifest_log import own_folder

from demiurge import ToolPolicy, World
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.manifest import read_definitions
from demiurge.bootstrap.manifest_change import MANIFEST_SET, ManifestChange
from demiurge.errors import Conflict
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.world.manifest import BadManifest

ROOT = Path(__file__).parents[2]
ASKS = ToolPolicy(allowed_tools=("ring_bell",), require_approval_for_tools=("ring_bell",))


class Owner:
    """Another process that has the world open."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child

    def seen(self) -> dict[str, Any]:
        """Returns `{manifest, catalog, log}` as the child process reports them: the hash of the manifest in force, the
        names of the tools that a model may see, and how each manifest of the log came into force."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        seen: dict[str, Any] = json.loads(self.child.stdout.readline())
        return seen

    def leave(self) -> None:
        self.child.communicate()


@contextmanager
def owning(folder: Path, faults: str = "") -> Iterator[Owner]:
    words = [sys.executable, "-m", "tests.bootstrap.manifest_owner", str(folder), faults]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("open")
        try:
            yield Owner(child)
        finally:
            child.kill()


def joining(folder: Path, *named: Any) -> World:
    """The world of another process, as one opens it that brings no tools, or those that are named."""
    return World.open(folder, *named, environment={"HOME": str(folder.parent)})


async def create_chat(world: World, key: str) -> None:
    await world.submit("demiurge/ChatCreated@1", {"chat_id": key, "title": "t", "created_at_ms": 1}, None, key)


async def assert_sound(world: World) -> None:
    assert (await asyncio.to_thread(world.journal.verify)).ok
    assert (await world.replay())["ok"]


async def test_a_joined_process_sets_the_policy_and_everybody_follows(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        async with joining(folder) as joined, joining(folder) as third:
            assert not joined.owned
            before = owner.seen()
            assert before["catalog"] == ["ring_bell"]
            await joined.acting_as(Caller("user:ada", roles=("user",))).set_policy(ToolPolicy())
            after = owner.seen()
            assert after["catalog"] == (await third.info())["catalog"] == []
            assert after["manifest"] == (await third.info())["manifest"] != before["manifest"]
            assert ToolPolicy.from_json((third.manifest())["tool_policy"]) == ToolPolicy()
            assert (await third.call("ring_bell", '{"times": 1}')).error_code == "policy_denied"
            entry = third.manifest_log()[-1]
            assert (entry["caller"]["actor"], entry["how"]) == ("user:ada", "policy set")
            assert (entry["manifest"], entry["old"]) == (after["manifest"], before["manifest"])
            await assert_sound(third)


async def test_a_joined_process_sets_definitions_for_which_the_owner_has_the_code(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        async with joining(folder) as joined:
            own = own_folder(tmp_path / "own", joined.manifest())
            await joined.set_manifest(own)
            info = await joined.info()
            assert info["own_manifest"] is not None
            assert info["adopted"]
            assert info["manifest"] == owner.seen()["manifest"]
            assert any(each["name"] == "ex/Note@1" for each in joined.manifest()["definitions"])
            await create_chat(joined, "another")
            await assert_sound(joined)
        owner.leave()
    async with opened(folder) as world:
        assert (await world.info())["manifest"] == info["manifest"]
        assert [entry["how"] for entry in world.manifest_log()] == ["opened with", "manifest set"]


async def test_definitions_that_need_other_code_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        async with joining(folder) as joined:
            own = own_folder(tmp_path / "own", joined.manifest())
            parts = json.loads((own / "all.json").read_text())
            module = next(part for part in parts if part["$kind"] == "defmodule")
            (own / "more.json").write_text(json.dumps({**module, "name": "ex/Other@1"}))
            before = owner.seen()
            with pytest.raises(Conflict, match=r"lacks the code of ex/Other@1\. Code does not travel") as refused:
                await joined.set_manifest(own)
            assert refused.value.code == "no_code"
            (own / "more.json").write_text(json.dumps({"$kind": "defschema", "name": "ex/X@1", "type": {"no": 1}}))
            with pytest.raises(BadManifest):
                await joined.set_manifest(own)
            assert owner.seen() == before


async def test_a_process_joins_under_a_policy_that_changed_if_it_names_none(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder):
        async with joining(folder) as joined:
            await joined.set_policy(ASKS)
        async with joining(folder, [ring_bell]) as joined:
            assert (await joined.call("ring_bell", '{"times": 1}')).status == "awaiting_approval"
        async with joining(folder, [ring_bell], ASKS) as joined:
            assert not joined.owned
        for named, what in ((([ring_bell], ALLOWS), "another policy"), (([], None, "Hi."), "another system prompt")):
            with pytest.raises(Conflict, match=f"open with {what}") as refused:
                joining(folder, *named)
            assert refused.value.code == "owned"


async def test_a_successor_takes_over_with_the_policy_in_force(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        async with joining(folder, [ring_bell], ALLOWS) as joined:
            await joined.set_policy(ASKS)
            ref = owner.seen()["manifest"]
            owner.leave()
            assert (await joined.call("ring_bell", '{"times": 1}')).status == "awaiting_approval"
            assert joined.owned
            assert (await joined.info())["manifest"] == ref
            assert [entry["how"] for entry in joined.manifest_log()] == ["opened with", "policy set"]
            await joined.set_policy(ALLOWS)
            assert (await joined.call("ring_bell", '{"times": 1}')).status == "done"
            await assert_sound(joined)


async def test_a_process_that_lacks_the_code_looks_on_until_another_one_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        joined = joining(folder)
        await create_chat(joined, "before")
        log = joined.manifest_log()
        owner.leave()
    try:
        assert joined.manifest_log() == log
        assert (await joined.state("demiurge/Demiurge@1", "before") or {})["title"] == "t"
        assert "it lacks the tool ring_bell" in (joined.read_only or "")
        assert not joined.owned
        with pytest.raises(Conflict, match="only looks on") as refused:
            await create_chat(joined, "after")
        assert refused.value.code == "no_code"
        with owning(folder):
            await create_chat(joined, "after")
            assert joined.read_only is None
            assert not joined.owned
    finally:
        await joined.close()
    async with opened(folder) as world:
        assert [entry["how"] for entry in world.manifest_log()] == ["opened with"]
        await assert_sound(world)


# -- kill -9 ----------------------------------------------------------------------------------------------------------


def refuse_to_take_over() -> Backend:
    raise Conflict("Nobody takes over.", code="gone")


POINTS = {
    "before": ("manifest.accepted", "meta.before_commit"),
    "after": ("manifest.kept", "manifest.stored", "journal.before_commit", "journal.after_commit", "manifest.recorded"),
}


@pytest.mark.parametrize(("whose", "point"), [(whose, point) for whose, points in POINTS.items() for point in points])
async def test_a_process_killed_while_it_takes_definitions_leaves_the_old_or_the_new(
    tmp_path: Path, whose: str, point: str
) -> None:
    folder = tmp_path / "w"
    with owning(folder, f"{point}=kill") as owner:
        before = owner.seen()["manifest"]
        remote = Remote(OwnerConnection(socket_path(folder), refuse_to_take_over))
        given = read_definitions(own_folder(tmp_path / "own", cbor.decode(remote.read.manifest())))
        with pytest.raises(Conflict, match="Nobody takes over"):
            await remote.keep.replace_manifest(ManifestChange(MANIFEST_SET, given))
        assert owner.child.wait(20) < 0
        await remote.close()
    async with opened(folder) as world:
        info = await world.info()
        assert info["adopted"]
        assert (info["manifest"] == before) == (whose == "before")
        await create_chat(world, "another")
        entries = world.manifest_log()
        assert entries[-1]["manifest"] == info["manifest"]
        assert len(entries) == (1 if whose == "before" else 2)
        await assert_sound(world)


@pytest.mark.parametrize("point", ["manifest.stored", "journal.before_commit", "journal.after_commit"])
async def test_a_policy_that_was_asked_of_a_killed_process_is_asked_of_its_successor(
    tmp_path: Path, point: str
) -> None:
    folder = tmp_path / "w"
    with owning(folder, f"{point}=kill") as owner:
        owner.seen()
        async with joining(folder, [ring_bell], ALLOWS) as joined:
            await joined.set_policy(ASKS)
            assert joined.owned
            assert [entry["how"] for entry in joined.manifest_log()] == ["opened with", "policy set"]
            assert (await joined.call("ring_bell", '{"times": 1}')).status == "awaiting_approval"
            await assert_sound(joined)


async def test_a_process_that_followed_a_policy_joins_the_next_owner_under_it(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder) as owner:
        joined = joining(folder, [ring_bell], ALLOWS)
        other = joining(folder, [ring_bell], ALLOWS)
        await joined.set_policy(ASKS)
        assert len(other.manifest_log()) == 2
        owner.leave()
    try:
        await joined.backend.serve()
        assert (await joined.call("ring_bell", '{"times": 1}')).status == "awaiting_approval"
        assert joined.owned
        assert len(await other.approvals()) == 1
        assert not other.owned
    finally:
        await other.close()
        await joined.close()
    with owning(folder), pytest.raises(Conflict, match="another policy"):
        joining(folder, [ring_bell], ASKS)
