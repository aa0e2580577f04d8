"""Forks of worlds in folders: whole or not there, with a chat that goes on, and a parent that is as it was."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import World, faults
from demiurge.errors import Conflict, NotFound, Unavailable
from demiurge.tools import ToolEffect, tool

PROJECT = Path(__file__).parents[2]
CHAT = "demiurge/Demiurge@1"
LONG = b"a long text " * 4000


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


ordered: list[int] = []


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def order(count: int) -> str:
    """Order pieces."""
    ordered.append(count)
    return f"ordered {count}"


def opened(folder: Path | os.PathLike[str], provider: Provider) -> World:
    return World.open(Path(folder), [order], environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url})


def files(folder: Path) -> dict[str, str]:
    """What a closed world's folder holds."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


async def count_sound_records(folder: Path | os.PathLike[str], provider: Provider) -> int:
    """The number of records of a world that verifies and replays."""
    async with opened(folder, provider) as world:
        found = world.journal.verify()
        assert found.ok, found.problem
        assert (await world.replay())["ok"]
        return found.records


async def make_world(folder: Path, provider: Provider) -> None:
    """A chat with a call that was approved, one that waits, a workspace with a commit, a long blob."""
    ordered.clear()
    write = Provider.call("workspace__write", {"path": "a.txt", "text": "hello"}, "call_w")
    calls = [write, Provider.text("Written."), Provider.call("order", {"count": 1}), Provider.text("Ordered.")]
    provider.say(*map(Provider.answer, [*calls, Provider.call("order", {"count": 2}), Provider.text("So be it.")]))
    async with opened(folder, provider) as world:
        chat = world.chat()
        await chat.send("Write it.")
        [asked] = await world.approvals()
        await world.decide(asked["id"], approve=True)
        await chat.resume()
        await chat.send(LONG.decode())
        [asked] = await world.approvals()
        await world.decide(asked["id"], approve=True)
        await chat.resume()
        assert (await chat.reply()).text == "Ordered."
        assert (await chat.send("Two more.")).status == "awaiting_approval"
    assert ordered == [1]


async def test_a_fork_of_the_present_goes_its_own_way_and_the_parent_is_as_it_was(
    tmp_path: Path, provider: Provider
) -> None:
    await make_world(tmp_path / "w", provider)
    before = files(tmp_path / "w")
    async with opened(tmp_path / "w", provider) as world:
        fork = await world.fork(tmp_path / "f")
        parent = await world.info()
    assert files(tmp_path / "w") == before
    assert fork.ended == 1, "the call that waits for a person"
    async with opened(fork, provider) as world:
        assert (await world.info())["world_id"] == fork.world_id != parent["world_id"]
        assert await world.approvals() == []
        await world.settle()
        assert (await world.chat().reply()).status == "done"
        provider.say(Provider.answer(Provider.text("Here.")))
        assert (await world.chat().send("Where are you?")).text == "Here."
    assert ordered == [1]
    assert await count_sound_records(fork, provider) > fork.records
    async with opened(tmp_path / "w", provider) as world:
        [asked] = await world.approvals()
        assert asked["arguments_json"] == '{"count": 2}'


async def test_forks_of_every_step_are_whole_and_can_be_talked_with(tmp_path: Path, provider: Provider) -> None:
    await make_world(tmp_path / "w", provider)
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        begins = [record.position or 0 for record in world.journal.read() if record.is_ingress]
        forks = [await world.fork(tmp_path / f"f{position}", at=position - 1) for position in begins]
    for position, fork in zip(begins, forks, strict=True):
        assert fork.position == fork.records == position - 1
        async with opened(fork, provider) as world:
            assert world.journal.verify().ok
            await world.settle()
            assert await world.approvals() == []
            assert (await world.chat().send("Still there?")).text == "Yes."
            assert (await world.replay())["ok"]
    assert len({fork.world_id for fork in forks}) == len(begins)
    assert ordered == [1], "nothing ran twice"


async def test_the_state_of_a_position_is_the_state_of_its_fork(tmp_path: Path, provider: Provider) -> None:
    await make_world(tmp_path / "w", provider)
    async with opened(tmp_path / "w", provider) as world:
        last = max(record.position or 0 for record in world.journal.read())
        assert await world.state(CHAT, "main", at=0) is None
        assert await world.state(CHAT, "main", at=last) == await world.state(CHAT, "main")
        early = await world.state(CHAT, "main", at=3)
        assert early is not None
        assert early["messages"] == []
        with pytest.raises(NotFound, match=f"Name one from 0 to {last}"):
            await world.state(CHAT, "main", at=last + 1)
        with pytest.raises(NotFound, match="There is no module"):
            await world.state("nobody/Nothing@1", at=1)


async def test_long_blobs_are_shared_where_the_file_system_can(tmp_path: Path, provider: Provider) -> None:
    await make_world(tmp_path / "w", provider)
    async with opened(tmp_path / "w", provider) as world:
        fork = await world.fork(tmp_path / "f")
    ours = {path.name: path for path in (tmp_path / "w" / "blobs" / "sha256").glob("*/*")}
    theirs = {path.name: path for path in (fork.folder / "blobs" / "sha256").glob("*/*")}
    assert ours
    assert set(theirs) == set(ours)
    assert all(path.samefile(ours[name]) for name, path in theirs.items())


async def test_long_blobs_are_copied_where_the_file_system_cannot_share_them(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_world(tmp_path / "w", provider)

    def refused(*_args: object, **_options: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    async with opened(tmp_path / "w", provider) as world:
        fork = await world.fork(tmp_path / "f")
    theirs = list((fork.folder / "blobs" / "sha256").glob("*/*"))
    assert theirs
    assert all(path.stat().st_nlink == 1 for path in theirs)
    await count_sound_records(fork, provider)


async def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, provider: Provider) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().create()
        for taken in ("full", "file", "w"):
            with pytest.raises(Conflict) as raised:
                await world.fork(tmp_path / taken)
            assert raised.value.code == "exists"
        fork = await world.fork(tmp_path / "empty")
    assert (tmp_path / "full" / "mine").read_text() == "x"
    await count_sound_records(fork, provider)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full", "w"]


async def test_a_fork_that_fails_leaves_nothing(tmp_path: Path, provider: Provider) -> None:
    await make_world(tmp_path / "w", provider)
    async with opened(tmp_path / "w", provider) as world:
        with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
            await world.fork(tmp_path / "f")
        with pytest.raises(NotFound):
            await world.fork(tmp_path / "f", at=10**6)
        assert [path.name for path in tmp_path.iterdir()] == ["w"]
        fork = await world.fork(tmp_path / "f")
    await count_sound_records(fork, provider)


async def test_a_process_that_joined_can_fork_the_world(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await make_world(tmp_path / "w", provider)
    child = (
        "import asyncio, sys\nfrom demiurge import World\n"
        "async def main():\n"
        "    async with World.open('w') as world:\n"
        "        assert not world.owned\n"
        "        fork = await world.fork('f', at=5)\n"
        "        print(fork.folder, fork.position, (await world.state('demiurge/Demiurge@1', 'main', at=3))['title'])\n"
        "asyncio.run(main())\n"
    )
    async with opened(tmp_path / "w", provider) as world:
        await world.info()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", child, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.decode().split()[:2] == [str(tmp_path / "f"), "5"]
    await count_sound_records(tmp_path / "f", provider)


POINTS = (
    "create.after_commit",
    "blob.before_rename",
    "journal.after_commit",
    "meta.after_commit",
    "fork.before_rename",
)


@pytest.mark.parametrize("point", [*POINTS, "fork.after_rename"])
async def test_a_kill_while_forking_leaves_no_world_or_a_whole_one(
    point: str, tmp_path: Path, provider: Provider
) -> None:
    await make_world(tmp_path / "w", provider)
    before = await count_sound_records(tmp_path / "w", provider)
    done = subprocess.run(
        [sys.executable, "-m", "demiurge.cli", "-w", str(tmp_path / "w"), "fork", str(tmp_path / "f")],
        cwd=PROJECT,
        env={**os.environ, faults.VARIABLE: f"{point}=kill"},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "f").exists() is (point == "fork.after_rename")
    if (tmp_path / "f").exists():
        await count_sound_records(tmp_path / "f", provider)
    else:
        async with opened(tmp_path / "w", provider) as world:
            await count_sound_records(await world.fork(tmp_path / "f"), provider)
    assert await count_sound_records(tmp_path / "w", provider) == before
