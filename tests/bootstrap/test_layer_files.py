"""Layer files and files of the history on disk: whole or untouched, through no link, and never over an unread edit."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.layer_file_child import HISTORY, NEW, VERSION
from tests.registry.prompt_tools import tool_of

from demiurge.bootstrap.layer_files import find_layer, layer_path, write_history, write_layer_file
from demiurge.errors import Conflict, DemiurgeError, Unavailable
from demiurge.faults import armed
from demiurge.registry.layers import LayerDamaged, write_layer
from demiurge.values.refs import ref_of

KILLS = ("file.half_written=kill", "file.before_rename=kill", "file.after_rename=kill")
OLD = write_layer([tool_of(name="Old name")])


def place(folder: Path) -> Path:
    return folder / "config" / "prompts" / "tools.json"


def with_file(folder: Path, data: bytes) -> Path:
    path = place(folder)
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(data)
    return path


def test_the_file_of_the_user_is_in_the_config_folder_and_that_of_a_project_in_the_world() -> None:
    world = Path("/worlds/w")
    assert layer_path("project", world, {}) == Path("/worlds/w/prompts/prompts.json")
    assert layer_path("user", world, {"HOME": "/home/u"}) == Path("/home/u/.config/demiurge/prompts/tools.json")
    assert layer_path("user", world, {"XDG_CONFIG_HOME": "/c"}) == Path("/c/demiurge/prompts/tools.json")
    assert layer_path("user", world, {}) is None


def test_a_missing_file_is_no_problem(tmp_path: Path) -> None:
    found = find_layer(place(tmp_path))
    assert found.is_missing
    assert found.file is None


def test_a_file_is_made_for_this_user_alone_and_read_back(tmp_path: Path) -> None:
    path = place(tmp_path)
    written = write_layer_file(path, NEW, {tool.id for tool in NEW}, None)
    found = find_layer(path)
    assert found.file is not None
    assert set(found.file.tools) == set(NEW)
    assert found.data == written.data == path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_that_the_world_knows_is_replaced(tmp_path: Path) -> None:
    path = with_file(tmp_path, OLD)
    write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(OLD))
    assert path.read_bytes() == write_layer(NEW)


def test_a_file_that_was_changed_by_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = with_file(tmp_path, OLD)
    for seen in (None, ref_of(b"another")):
        with pytest.raises(Conflict, match="demiurge tools sync") as raised:
            write_layer_file(path, NEW, {tool.id for tool in NEW}, seen)
        assert raised.value.code == "layer_changed"
    assert path.read_bytes() == OLD


def test_entries_of_other_worlds_are_kept_and_own_deleted_ones_are_not(tmp_path: Path) -> None:
    other, gone = tool_of(id="of_another_world"), tool_of(id="deleted_here")
    path = with_file(tmp_path, write_layer([other, gone, tool_of(name="Old name")]))
    written = write_layer_file(path, [tool_of()], {"scene_pacer", "deleted_here"}, ref_of(path.read_bytes()))
    assert written.kept == ("of_another_world",)
    assert path.read_bytes() == write_layer([other, tool_of()])


def test_an_own_tool_that_looks_like_an_entry_of_another_world_is_not_written(tmp_path: Path) -> None:
    path = with_file(tmp_path, data := write_layer([tool_of(id="scenepacer")]))
    with pytest.raises(Conflict, match="scene_pacer and scenepacer"):
        write_layer_file(path, [tool_of()], {"scene_pacer"}, ref_of(data))
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "data", [b"{", b"", b'{"version": 1, "prompts": [7]}', b'{"version": 9, "prompts": []}', OLD.replace(b"{", b"[")]
)
def test_a_damaged_file_is_named_and_never_written_over(data: bytes, tmp_path: Path) -> None:
    path = with_file(tmp_path, data)
    found = find_layer(path)
    assert found.data == data
    assert str(path) in (found.problem or "")
    with pytest.raises(LayerDamaged) as raised:
        write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(data))
    assert raised.value.code == "layer_damaged"
    assert str(path) in raised.value.message
    assert path.read_bytes() == data


def test_no_link_is_read_or_written_through(tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_bytes(OLD)
    path = place(tmp_path)
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    assert "is a link" in (find_layer(path).problem or "")
    with pytest.raises(LayerDamaged, match="is a link"):
        write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(OLD))
    assert target.read_bytes() == OLD
    assert path.is_symlink()


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tools.json").write_bytes(OLD)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "prompts").symlink_to(elsewhere)
    assert "is a link" in (find_layer(place(tmp_path)).problem or "")
    with pytest.raises(Unavailable) as raised:
        write_layer_file(place(tmp_path), NEW, {tool.id for tool in NEW}, ref_of(OLD))
    assert raised.value.code == "strange_entry"
    assert (elsewhere / "tools.json").read_bytes() == OLD
    world = tmp_path / "world"
    world.mkdir()
    (world / "prompts").mkdir()
    (world / "prompts" / "history").symlink_to(elsewhere)
    with pytest.raises(Unavailable):
        write_history(world, HISTORY)
    assert os.listdir(elsewhere) == ["tools.json"]


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_an_entry_that_is_no_file_is_a_problem(kind: str, tmp_path: Path) -> None:
    path = place(tmp_path)
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    found = find_layer(path)
    assert found.file is None
    assert not found.is_missing
    with pytest.raises(LayerDamaged):
        write_layer_file(path, NEW, {tool.id for tool in NEW}, None)


@pytest.mark.parametrize(("fault", "code"), [("enospc", "disk_full"), ("erofs", "read_only"), ("eio", "disk_error")])
def test_a_disk_that_takes_no_writes_is_a_clear_error(fault: str, code: str, tmp_path: Path) -> None:
    path = with_file(tmp_path, OLD)
    with armed({"file.half_written": fault}), pytest.raises(DemiurgeError) as raised:
        write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(OLD))
    assert raised.value.code == code
    assert str(path) in raised.value.message
    assert path.read_bytes() == OLD
    write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(OLD))
    assert path.read_bytes() == write_layer(NEW)


@pytest.mark.parametrize("fault", KILLS)
async def test_a_kill_leaves_the_old_layer_file_or_the_new_one(fault: str, tmp_path: Path) -> None:
    path = with_file(tmp_path, OLD)
    killed = await run_program("layer_file_child", path, ref_of(OLD), faults=fault)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() in (OLD, write_layer(NEW))
    write_layer_file(path, NEW, {tool.id for tool in NEW}, ref_of(path.read_bytes()))
    assert path.read_bytes() == write_layer(NEW)
    assert os.listdir(path.parent) == ["tools.json"]


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("fault", KILLS)
async def test_a_kill_leaves_no_half_file_of_the_history(fault: str, hit: int, tmp_path: Path) -> None:
    killed = await run_program("layer_file_child", tmp_path, faults=f"{fault}@{hit}")
    assert killed.returncode == -signal.SIGKILL
    found = tmp_path / "prompts" / "history" / "scene_pacer"
    assert {path.read_bytes() for path in found.glob("*.json")} <= {VERSION}
    write_history(tmp_path, HISTORY)
    assert sorted(path.name for path in found.iterdir()) == ["0.json", "1.json", "2.json"]
    assert {path.read_bytes() for path in found.iterdir()} == {VERSION}


def test_a_file_of_the_history_is_written_once(tmp_path: Path) -> None:
    assert len(write_history(tmp_path, HISTORY)) == 3
    edited = tmp_path / "prompts" / "history" / "scene_pacer" / "1.json"
    edited.write_bytes(b"edited")
    assert write_history(tmp_path, HISTORY) == []
    assert edited.read_bytes() == b"edited"
