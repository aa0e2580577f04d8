"""Workspaces in memory and in a folder: versions, conflicts, roll-backs, paths, and a folder that others change too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolRunner, ToolUserError, faults, tool
from demiurge.capabilities import FolderWorkspaces, MemoryWorkspaces
from demiurge.errors import Conflict, Damaged, Unavailable
from demiurge.filesystems import Limits
from demiurge.tools.capabilities import WorkspaceCommit, WorkspaceEntry, WorkspaceFile, Workspaces
from demiurge.tools.core import CORE_TOOLS
from demiurge.values.clock import FixedClock

Make: TypeAlias = Callable[..., FolderWorkspaces | MemoryWorkspaces]


@pytest.fixture(params=["memory", "folder"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> FolderWorkspaces | MemoryWorkspaces:
    return MemoryWorkspaces() if request.param == "memory" else FolderWorkspaces(tmp_path / "notes")


async def write(to: Workspaces, path: str, text: str, expected: int | None = None, name: str = "main") -> int:
    done = await to.write(path, text, workspace=name, expected_version=expected)
    assert done.ok
    return done.version


async def read(of: Workspaces, path: str, name: str = "main") -> tuple[str, int]:
    file = await of.read(path, workspace=name)
    return file.text, file.version


# -- versions ----------------------------------------------------------------------------------------------------------


async def test_each_write_is_a_new_version_of_its_workspace(made: Workspaces) -> None:
    assert [await write(made, "a/b.txt", f"text {n}\n") for n in range(3)] == [1, 2, 3]
    assert await write(made, "c", "other", name="drafts") == 1
    assert await made.read("a/b.txt", workspace="main") == WorkspaceFile("a/b.txt", "text 2\n", 3, 7)
    assert await read(made, "c", "drafts") == ("other", 1)
    assert await write(made, "a/b.txt", "text 2\n") == 4, "also a write that changes no text"


async def test_a_write_that_expects_another_version_changes_nothing_and_names_both(made: Workspaces) -> None:
    assert await made.write("a", "1", workspace="main", expected_version=1) == WorkspaceCommit("a", 0, False, 1, 0)
    assert await write(made, "a", "1", 0) == 1
    assert await write(made, "b", "2", 1) == 2
    assert await made.write("a", "3", workspace="main", expected_version=1) == WorkspaceCommit("a", 2, False, 1, 2)
    assert await read(made, "a") == ("1", 2)


async def test_a_folder_is_listed_without_what_is_below_its_folders(made: Workspaces) -> None:
    assert await made.list("", workspace="main") == []
    for path in ("b/c/d.txt", "a.txt", "b/e.txt"):
        await write(made, path, "four")
    assert list(await made.list("", workspace="main")) == [
        WorkspaceEntry("a.txt", "file", 4),
        WorkspaceEntry("b", "dir", 0),
    ]
    found = await made.list("b", workspace="main")
    assert [entry.path for entry in found] == ["b/c", "b/e.txt"]
    assert await made.list("", workspace="other") == []


async def test_an_error_names_a_file_by_its_path_in_the_workspace(made: Workspaces) -> None:
    await write(made, "domain/x", "text")
    for there in ("gone", "domain/gone"):
        with pytest.raises(ToolUserError, match=f"There is no file or folder {there}"):
            await made.read(there, workspace="main")
    with pytest.raises(ToolUserError, match=r"There is no gone\."):
        await made.list("gone", workspace="main")
    with pytest.raises(ToolUserError, match="domain is a folder"):
        await made.read("domain", workspace="main")
    with pytest.raises(ToolUserError, match=r"domain/x is no folder"):
        await made.write("domain/x/y", "", workspace="main", expected_version=None)


@pytest.mark.parametrize(
    "path",
    [
        *("../other/x", "a/../../x", "..", "/etc/passwd", "//x", "a//b", "a/./b", "", ".", "a\0b", "a\nb", "a\\..\\b"),
        *("\uff0e\uff0e/x", "a/\u2024\u2024/b", "a\uff0fb", ".demiurge-tmp-1", "a\u202eb", "x" * 256, "a/" * 65 + "b"),
    ],
)
async def test_no_path_leads_out_of_a_workspace(made: Workspaces, path: str) -> None:
    await write(made, "x", "secret", name="other")
    with pytest.raises(ToolUserError):
        await made.write(path, "text", workspace="main", expected_version=None)
    with pytest.raises(ToolUserError):
        await made.read(path, workspace="main")
    assert await read(made, "x", "other") == ("secret", 1)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/", ".versions", ".git", "a b", "a\0", "x" * 256, "ä"])
async def test_a_name_that_no_workspace_may_have_is_refused(made: Workspaces, name: str) -> None:
    for use in (
        made.write("a", "text", workspace=name, expected_version=None),
        made.read("a", workspace=name),
        made.list("", workspace=name),
    ):
        with pytest.raises(ToolUserError, match="A workspace's name"):
            await use


async def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    for made in (
        MemoryWorkspaces(limits=Limits(file_bytes=10)),
        FolderWorkspaces(tmp_path, limits=Limits(file_bytes=10)),
    ):
        with pytest.raises(ToolUserError, match="at most 10 bytes"):
            await made.write("a", "x" * 11, workspace="main", expected_version=None)
        assert await made.list("", workspace="main") == []


# -- in a runner -------------------------------------------------------------------------------------------------------


def workspaces_of(context: ToolContext) -> Workspaces:
    found = context.resources.get(Workspaces)
    assert found is not None
    return found


@tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
async def write_and_fail(text: str, context: ToolContext) -> str:
    """Writes two files, then fails."""
    await workspaces_of(context).write("a", text, workspace="main", expected_version=None)
    await workspaces_of(context).write("new/b", text, workspace="main", expected_version=None)
    raise ToolUserError("The printer is on fire.")


@tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,), timeout=0.05)
async def write_and_hang(text: str, context: ToolContext) -> str:
    """Writes a file, then takes too long."""
    await workspaces_of(context).write("a", text, workspace="main", expected_version=None)
    await asyncio.Event().wait()
    return text


def runner_of(made: Workspaces) -> ToolRunner:
    shown = [each for each in CORE_TOOLS if each.name.startswith(("workspace__", "core__get_current_time"))]
    tools = [*shown, write_and_fail, write_and_hang]
    names = tuple(each.name for each in tools)
    return ToolRunner(
        tools, policy=ToolPolicy(names), resources={Workspaces: made}, clock=FixedClock(1_800_000_000 * 10**9)
    )


async def test_the_shipped_tools_work_without_a_world(made: Workspaces) -> None:
    runner = runner_of(made)
    calls = [
        ("c1", "workspace__list", "{}"),
        ("c2", "workspace__write", '{"path": "plan.md", "text": "# Plan\\n"}'),
        ("c3", "workspace__write", '{"path": "plan.md", "text": "", "expected_version": 0}'),
        ("c4", "workspace__list", "{}"),
        ("c5", "workspace__read", '{"path": "plan.md"}'),
        ("c6", "workspace__read", '{"path": "../plan.md"}'),
        ("c7", "core__get_current_time", '{"timezone": "Europe/Berlin"}'),
    ]
    results = await runner.exec_many(calls)
    assert [result.ok for result in results] == [True, True, True, True, True, False, True]
    assert results[1].value["version"] == 1
    assert "version 0 was expected, but it is 1" in results[2].content
    assert [entry["path"] for entry in results[3].value["entries"]] == ["plan.md"]
    assert "# Plan" in results[4].content
    assert "2027-01-15T09:00:00+01:00" in results[6].content


def test_the_shipped_tools_work_without_an_event_loop(made: Workspaces) -> None:
    runner = runner_of(made)
    assert runner.exec_sync("workspace__write", {"path": "a", "text": "sync"}).ok
    assert "sync" in runner.exec_sync("workspace__read", {"path": "a"}).content


async def test_the_writes_of_a_failed_call_are_taken_back_by_a_new_version(made: Workspaces) -> None:
    runner = runner_of(made)
    assert await write(made, "a", "before") == 1
    result = await runner.exec("write_and_fail", {"text": "lost"})
    assert (result.error_code, result.safe_message) == ("execution", "The printer is on fire.")
    text, version = await read(made, "a")
    assert (text, version > 3) == ("before", True), "the versions of the failed call are not used again"
    assert [entry.path for entry in await made.list("", workspace="main")] == ["a"]
    stale = await made.write("a", "stale", workspace="main", expected_version=2)
    assert not stale.ok


async def test_the_writes_of_a_call_that_took_too_long_are_taken_back(made: Workspaces) -> None:
    await write(made, "a", "before")
    assert (await runner_of(made).exec("write_and_hang", {"text": "lost"})).error_code == "unknown_outcome"
    assert (await read(made, "a"))[0] == "before"


async def test_only_the_writes_of_the_failed_call_are_taken_back(made: Workspaces) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
    async def fails_late(context: ToolContext) -> str:
        """Writes, waits, fails."""
        await workspaces_of(context).write("mine", "lost", workspace="main", expected_version=None)
        begun.set()
        await go_on.wait()
        raise ToolUserError("no")

    runner = ToolRunner([fails_late], policy=ToolPolicy(("fails_late",)), resources={Workspaces: made})
    call = asyncio.create_task(runner.exec("fails_late", {}))
    await begun.wait()
    await write(made, "yours", "stays")
    go_on.set()
    assert not (await call).ok
    assert [entry.path for entry in await made.list("", workspace="main")] == ["yours"]


async def test_a_call_that_is_over_changes_nothing_any_more(made: Workspaces) -> None:
    begun, over = asyncio.Event(), asyncio.Event()
    late: list[asyncio.Task[WorkspaceCommit]] = []

    @tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
    async def leaves_a_task(context: ToolContext) -> str:
        """Starts a write that comes after the call."""

        async def write_later() -> WorkspaceCommit:
            begun.set()
            await over.wait()
            return await workspaces_of(context).write("late", "x", workspace="main", expected_version=None)

        late.append(asyncio.create_task(write_later()))
        await begun.wait()
        raise ToolUserError("no")

    runner = ToolRunner([leaves_a_task], policy=ToolPolicy(("leaves_a_task",)), resources={Workspaces: made})
    assert not (await runner.exec("leaves_a_task", {})).ok
    over.set()
    with pytest.raises(Conflict, match="This call is over"):
        await late[0]
    assert await made.list("", workspace="main") == []


# -- in a folder -------------------------------------------------------------------------------------------------------


async def test_the_files_are_plain_files_and_another_object_goes_on_with_the_versions(tmp_path: Path) -> None:
    assert await write(FolderWorkspaces(tmp_path / "notes"), "sub/a.txt", "text\n") == 1
    assert (tmp_path / "notes" / "main" / "sub" / "a.txt").read_text() == "text\n"
    again = FolderWorkspaces(tmp_path / "notes")
    assert await read(again, "sub/a.txt") == ("text\n", 1)
    assert await write(again, "b", "2", 1) == 2


async def test_a_change_by_another_program_is_a_new_version(tmp_path: Path) -> None:
    made, files = FolderWorkspaces(tmp_path), tmp_path / "main"
    files.mkdir()
    (files / "a").write_text("by hand")
    assert await read(made, "a") == ("by hand", 1)
    (files / "a").write_text("edited by hand")
    done = await made.write("a", "stale", workspace="main", expected_version=1)
    assert done == WorkspaceCommit("a", 2, False, 1, 2)
    assert await read(made, "a") == ("edited by hand", 2)
    (files / "a").unlink()
    files.rmdir()
    assert await write(made, "a", "again") > 3


async def test_links_and_special_files_are_neither_shown_nor_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    made, files = FolderWorkspaces(tmp_path / "notes"), tmp_path / "notes" / "main"
    await write(made, "plain", "text")
    (files / "link").symlink_to(outside / "secret")
    (files / "folder").symlink_to(outside)
    os.mkfifo(files / "pipe")
    (tmp_path / "notes" / "linked").symlink_to(outside)
    assert [entry.path for entry in await made.list("", workspace="main")] == ["plain"]
    for path in ("link", "folder/secret", "pipe"):
        with pytest.raises(ToolUserError):
            await made.read(path, workspace="main")
        with pytest.raises(ToolUserError):
            await made.write(path, "overwritten", workspace="main", expected_version=None)
    for use in (
        made.read("secret", workspace="linked"),
        made.list("", workspace="linked"),
        made.write("new", "", workspace="linked", expected_version=None),
    ):
        with pytest.raises(ToolUserError):
            await use
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"


async def test_a_link_in_place_of_the_versions_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    made = FolderWorkspaces(tmp_path / "notes")
    (tmp_path / "notes" / ".versions").symlink_to(outside)
    with pytest.raises(ToolUserError):
        await made.write("a", "text", workspace="main", expected_version=None)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '["x", "y"]', "no json", "\xff"])
async def test_versions_that_cannot_be_read_are_damage_and_nothing_is_written(tmp_path: Path, text: str) -> None:
    made = FolderWorkspaces(tmp_path)
    await write(made, "a", "text")
    (tmp_path / ".versions" / "main").write_bytes(text.encode("latin-1"))
    with pytest.raises(Damaged, match="Remove the file"):
        await made.write("a", "lost", workspace="main", expected_version=None)
    assert (tmp_path / "main" / "a").read_text() == "text"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "notes", tmp_path / "gone" / "notes"):
        with pytest.raises(Unavailable, match=r"can't be (made|opened)"):
            FolderWorkspaces(path)


COUNTER = """
import asyncio, sys
from demiurge.capabilities import FolderWorkspaces

async def main(made):
    for _ in range(15):
        while True:
            file = await made.read("count", workspace="main")
            text = str(int(file.text) + 1)
            if (await made.write("count", text, workspace="main", expected_version=file.version)).ok:
                break

asyncio.run(main(FolderWorkspaces(sys.argv[1])))
"""


async def test_no_update_of_two_processes_and_two_threads_is_lost(tmp_path: Path) -> None:
    made = FolderWorkspaces(tmp_path)
    await write(made, "count", "0")
    others = [await asyncio.create_subprocess_exec(sys.executable, "-c", COUNTER, tmp_path) for _ in range(2)]

    async def count() -> None:
        for _ in range(15):
            while True:
                text, version = await read(made, "count")
                done = await made.write("count", str(int(text) + 1), workspace="main", expected_version=version)
                if done.ok:
                    break

    await asyncio.gather(count(), count())
    assert [await other.wait() for other in others] == [0, 0]
    assert await read(made, "count") == ("60", 61)


WRITER = """
import asyncio, sys
from demiurge.capabilities import FolderWorkspaces

async def main(made):
    version = None
    for number in range(1000):
        done = await made.write("a", str(number) * 10_000, workspace="main", expected_version=version)
        version = done.version
        print(number, version, done.ok, flush=True)

asyncio.run(main(FolderWorkspaces(sys.argv[1])))
"""


@pytest.mark.parametrize("point", ["file.half_written", "file.before_rename", "file.after_rename"])
@pytest.mark.parametrize("hit", [5, 6])
async def test_a_kill_leaves_whole_files_and_no_version_for_other_contents(
    tmp_path: Path, point: str, hit: int
) -> None:
    environment = {**os.environ, faults.VARIABLE: f"{point}=kill@{hit}"}
    done = subprocess.run([sys.executable, "-c", WRITER, tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    number, version, ok = done.stdout.splitlines()[-1].split()
    assert ok == "True"
    text, found = await read(FolderWorkspaces(tmp_path), "a")
    if text == number * 10_000:
        assert found == int(version)
    else:
        assert (text, found) == (str(int(number) + 1) * 10_000, int(version) + 1)
