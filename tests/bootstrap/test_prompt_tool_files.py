"""Exports and readings of the files of prompt tools: the world's journal is the truth, and a file only proposes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.reviewed_worlds import approve, live, opened, proposals, propose, tool_in, user_file
from tests.registry.prompt_tools import tool_of
from tests.registry.proposals import proposal_of

from demiurge import World
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.errors import Conflict, Unavailable, UsageError
from demiurge.faults import armed
from demiurge.registry.layer_proposal import layer_proposal_id
from demiurge.registry.layers import LayerChange, LayerDamaged, read_layer, write_layer
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import read_proposal
from demiurge.values.caller import Caller


def no_successor() -> Any:
    raise Conflict("Nobody takes over.", code="gone")


def edit(path: Path, *tools: PromptTool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(write_layer(tools))


async def test_an_approved_tool_is_exported_with_its_history(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        written = await world.prompt_tools.export()
    assert written.files == (str(user_file(folder)),)
    assert read_layer(user_file(folder).read_bytes()).tools == (tool_in(),)
    [path] = map(Path, written.history)
    assert path.parent == folder / "prompts" / "history" / "scene_pacer"
    version = json.loads(path.read_text("utf-8"))
    assert version["tool"] == tool_in().to_json()
    assert (version["version"], version["parent"], version["proposal"], version["approvedBy"]) == (
        1,
        None,
        "p1",
        "user",
    )
    assert version["diff"][0]["field"] == "id"
    assert version["review"]["kind"] == "user"


async def test_a_project_tool_is_exported_into_the_folder_of_the_world(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1", target="project")
        await approve(world, "p1")
        await world.prompt_tools.export()
    assert read_layer((folder / "prompts" / "prompts.json").read_bytes()).tools == (tool_in(),)
    assert not user_file(folder).exists()


async def test_a_second_export_writes_nothing_new(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        await world.prompt_tools.export()
        before = len(world.backend.read.heads()), user_file(folder).stat().st_mtime_ns
        assert (await world.prompt_tools.export()).history == ()
        assert (len(world.backend.read.heads()), user_file(folder).stat().st_mtime_ns) == before


async def test_an_empty_registry_writes_no_files(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        assert (await world.prompt_tools.export()).files == ()
    assert not user_file(tmp_path / "w").parent.exists()


async def test_the_file_of_a_user_proposes_to_a_new_world_and_nothing_is_live(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    edit(user_file(folder), tool_of(), tool_of(id="other_tool"))
    async with opened(folder) as world:
        await world.chat("main").create()
        await world.settle()
        found = await proposals(world)
        assert {cell["tool"] for cell in found.values()} == {"scene_pacer", "other_tool"}
        assert {cell["submitted_by"] for cell in found.values()} == {"file:user"}
        assert {cell["state"] for cell in found.values()} == {"chief_review"}
        assert await live(world) == {}
        assert (await world.replay())["ok"]


async def test_a_file_of_the_project_proposes_to_the_project(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        edit(folder / "prompts" / "prompts.json", tool_of())
        await world.prompt_tools.sync()
        [cell] = (await proposals(world)).values()
        assert (cell["submitted_by"], cell["target"]) == ("file:project", "project")


async def test_a_change_is_proposed_once(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    edit(user_file(folder), tool_of())
    async with opened(folder) as world:
        user, project = await world.prompt_tools.sync()
        assert list(user.proposals) == list(await proposals(world))
        assert len(user.proposals) == 1
        assert project.proposals == ()
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        assert len(await proposals(world)) == 1


@pytest.mark.parametrize("taken", [1, 2])
async def test_a_change_is_proposed_although_an_agent_took_its_id(taken: int, tmp_path: Path) -> None:
    folder, change = tmp_path / "w", LayerChange("new", "scene_pacer", tool_of(), None)
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        agent = world.acting_as(Caller("agent", roles=("agent",)))
        for number in range(taken):
            await propose(agent, layer_proposal_id("user", change, 0, number), goals="Something else.")
        edit(user_file(folder), tool_of())
        for _ in range(2):
            user = (await world.prompt_tools.sync())[0]
            [name] = user.proposals
            found = await proposals(world)
            assert (user.problem, len(found)) == (None, taken + 1)
            assert found[name]["submitted_by"] == "file:user"
            user_file(folder).write_bytes(user_file(folder).read_bytes() + b"\n")


async def test_an_edit_that_somebody_revised_is_not_proposed_again(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    edit(user_file(folder), tool_of())
    async with opened(folder) as world:
        [name] = (await world.prompt_tools.sync())[0].proposals
        body = read_proposal(proposal_of(base=None, goals="Revised.")).encode()
        await world.submit("sys/ToolProposalRevise@1", {"proposal_id": name, "body_ref": world.blobs.put(body)})
        assert (await proposals(world))[name]["revision"] == 2
        edit(user_file(folder), tool_of(), tool_of(id="other_tool"))
        await world.prompt_tools.sync()
        assert sorted(cell["tool"] for cell in (await proposals(world)).values()) == ["other_tool", "scene_pacer"]


async def test_an_edited_tool_becomes_a_proposal_on_the_live_version(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        await world.prompt_tools.export()
        edit(user_file(folder), tool_in(goals="Edited by hand."))
        user, _ = await world.prompt_tools.sync()
        [name] = user.proposals
        cell = (await proposals(world))[name]
        assert (cell["kind"], cell["base"]) == ("modify", tool_in().digest)
        assert await live(world) == {"user/scene_pacer": tool_in().digest}
        await approve(world, name)
        assert await live(world) == {"user/scene_pacer": tool_in(goals="Edited by hand.").digest}


async def test_an_entry_that_is_taken_out_becomes_a_proposal_to_delete(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        await world.prompt_tools.export()
        edit(user_file(folder))
        user, _ = await world.prompt_tools.sync()
        [name] = user.proposals
        assert (await proposals(world))[name]["kind"] == "delete"
        assert await live(world) != {}
        await approve(world, name)
        assert await live(world) == {}
        written = await world.prompt_tools.export()
        assert len(written.history) == 1
        assert json.loads(Path(written.history[0]).read_text("utf-8"))["tool"] is None


async def test_a_missing_file_proposes_nothing_and_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        await world.prompt_tools.export()
        user_file(folder).unlink()
        user, _ = await world.prompt_tools.sync()
        assert user.state == "missing"
        assert "demiurge tools export" in (user.problem or "")
        assert len(await proposals(world)) == 1
        await world.prompt_tools.export()
        assert user_file(folder).exists()


async def test_an_approved_tool_that_was_not_exported_is_not_proposed_for_deletion(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    edit(user_file(folder), tool_of(id="first_tool"))
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        edit(user_file(folder), tool_of(id="first_tool"), tool_of(id="other_tool"))
        await world.prompt_tools.sync()
        assert {cell["kind"] for cell in (await proposals(world)).values()} == {"new"}


async def test_an_export_over_an_edit_that_nobody_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        edit(user_file(folder), tool_of(id="other_tool"))
        with pytest.raises(Conflict, match="demiurge tools sync") as raised:
            await world.prompt_tools.export()
        assert raised.value.code == "layer_changed"
        await world.prompt_tools.sync()
        written = await world.prompt_tools.export()
        assert written.kept["user"] == ("other_tool",)
    found = read_layer(user_file(folder).read_bytes())
    assert [tool.id for tool in found.tools] == ["other_tool", "scene_pacer"]


async def test_the_export_of_one_world_is_a_proposal_in_another(tmp_path: Path) -> None:
    async with opened(tmp_path / "a") as one:
        await propose(one, "p1")
        await approve(one, "p1")
        await one.prompt_tools.export()
    async with opened(tmp_path / "b") as other:
        await propose(other, "p1", id="other_tool")
        await approve(other, "p1")
        assert await live(other) == {"user/other_tool": tool_in(id="other_tool").digest}
        assert {cell["tool"] for cell in (await proposals(other)).values()} == {"scene_pacer", "other_tool"}
        await other.prompt_tools.export()
    async with opened(tmp_path / "a") as one:
        await one.prompt_tools.sync()
        assert {cell["tool"] for cell in (await proposals(one)).values()} == {"scene_pacer", "other_tool"}
        assert await live(one) == {"user/scene_pacer": tool_in().digest}
        assert {cell["kind"] for cell in (await proposals(one)).values()} == {"new"}


@pytest.mark.parametrize("data", [b"{", b"\xef\xbb\xbf{}", b'{"version": 2, "prompts": []}', b"[" * 100_000])
async def test_a_damaged_file_is_noted_and_left_alone(data: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    path = user_file(folder)
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(data)
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        user, project = await world.prompt_tools.files()
        assert (user.state, project.state) == ("damaged", "none")
        assert str(path) in (user.problem or "")
        cell = await world.state("sys/ToolRegistry@1", "main")
        assert cell is not None
        assert cell["layers"]["user"]["problem"] == user.problem
        with pytest.raises(LayerDamaged) as raised:
            await world.prompt_tools.export()
        assert raised.value.code == "layer_damaged"
        assert str(path) in raised.value.message
        assert len(await proposals(world)) == 1
    assert path.read_bytes() == data


async def test_entries_with_core_ids_are_noted_and_the_others_proposed(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    path = user_file(folder)
    path.parent.mkdir(parents=True, mode=0o700)
    records = [{**tool_of().to_json(), "id": "Beat-Architect"}, tool_of().to_json()]
    path.write_text(json.dumps({"version": 1, "prompts": records}))
    async with opened(folder) as world:
        user, _ = await world.prompt_tools.sync()
        assert "prompts[0]" in (user.problem or "")
        assert "Locked (core)" in (user.problem or "")
        assert [cell["tool"] for cell in (await proposals(world)).values()] == ["scene_pacer"]


async def test_a_process_that_joined_reads_and_writes_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as owner:
        await propose(owner, "p1")
        await approve(owner, "p1")
        joined = World(Remote(OwnerConnection(socket_path(folder), no_successor)), owner.opening)
        written = await joined.prompt_tools.export()
        assert written.files == (str(user_file(folder)),)
        edit(user_file(folder), tool_in(goals="Edited by hand."))
        before, after = await joined.prompt_tools.files(), await joined.prompt_tools.sync()
        assert ([one.state for one in before], len(after[0].proposals)) == (["changed", "none"], 1)
        await joined.close()


async def test_the_file_that_was_read_last_outlives_garbage_collection(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    edit(user_file(folder), tool_of(), tool_of(id="other_tool"))
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        await world.settle()
        await world.gc(keep_days=0)
        cell = await world.state("sys/ToolRegistry@1", "main")
        assert cell is not None
        assert world.blobs.get(cell["layers"]["user"]["digest"]) == user_file(folder).read_bytes()


async def test_an_erased_version_has_no_file_in_the_history(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        cell = await world.state("sys/ToolRegistry@1", "main")
        assert cell is not None
        await world.erase(cell["history"][0]["snapshot"], "A test.")
        written = await world.prompt_tools.export()
        assert (len(written.files), written.history) == (1, ())


async def test_a_disk_that_takes_no_writes_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        for fault, code in (("enospc", "disk_full"), ("erofs", "read_only")):
            with armed({"file.half_written": fault}), pytest.raises(Unavailable) as raised:
                await world.prompt_tools.export()
            assert raised.value.code == code
            assert not user_file(folder).exists()
        await world.prompt_tools.export()
        assert user_file(folder).exists()


async def test_only_a_user_reads_and_writes_the_files(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        for role in ("viewer", "agent", "approver", "chief"):
            tools = world.acting_as(Caller("someone", roles=(role,))).prompt_tools
            for call in (tools.sync, tools.export, tools.files):
                with pytest.raises(UsageError) as raised:
                    await call()
                assert raised.value.code == "role_missing"


@pytest.mark.parametrize("fault", ["layer.proposed=kill", "journal.after_commit=kill@2", "unit.committed=kill@3"])
async def test_a_kill_while_a_file_is_read_leaves_each_change_proposed_once(fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await world.prompt_tools.sync()
    edit(user_file(folder), tool_of(), tool_of(id="other_tool"))
    killed = await run_program("prompt_tools_child", folder, "sync", faults=fault)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        assert sorted(cell["tool"] for cell in (await proposals(world)).values()) == ["other_tool", "scene_pacer"]
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok


@pytest.mark.parametrize(
    "fault",
    ["layer.exported=kill", "file.half_written=kill", "file.half_written=kill@2", "file.before_rename=kill@2"],
)
async def test_a_kill_while_files_are_written_loses_nothing(fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with opened(folder) as world:
        await propose(world, "p1")
        await approve(world, "p1")
    killed = await run_program("prompt_tools_child", folder, "export", faults=fault)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = write_layer([tool_in()])
    assert not user_file(folder).exists() or user_file(folder).read_bytes() == whole
    for path in (folder / "prompts" / "history").rglob("*.json"):
        assert json.loads(path.read_bytes())["tool"] == tool_in().to_json()
    async with opened(folder) as world:
        await world.prompt_tools.sync()
        await world.prompt_tools.export()
        assert user_file(folder).read_bytes() == whole
        assert len(list((folder / "prompts" / "history").rglob("*.json"))) == 1
        assert len(await proposals(world)) == 1
