"""A world that was moved keeps its policy; one that was copied runs under no policy that its user did not name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World
from demiurge.bootstrap.trust.world_profile import recall
from demiurge.errors import Unavailable

BELL = '''
from demiurge.tools import ToolEffect, tool

@tool(effect=ToolEffect.READ_ONLY)
def ring() -> str:
    """Ring the bell."""
    return "rung"
'''
STRICT = 'allowed_tools = ["ring"]\nrequire_approval_for_tools = ["ring"]\n'
RING = ("--json", "tools", "call", "ring", "{}")
CLOCK = ("--json", "tools", "call", "core__get_current_time", "{}")
CREATED = {"chat_id": "main", "title": "Mine", "created_at_ms": 1}


@pytest.fixture(autouse=True)
def strict(demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy that is remembered of a world, beside a tool."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strict_bell.py").write_text(BELL)
    (tmp_path / "strict.toml").write_text(STRICT)
    assert demiurge("init", "--tools", "strict_bell", "--policy", "strict.toml").status == 0
    return tmp_path / "strict.toml"


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    shutil.copytree(world, tmp_path / "copy")
    return tmp_path / "copy"


def code_of(done: Any) -> str | None:
    error = done.document.get("error")
    return error["code"] if error is not None else None


def is_strict(demiurge: Any, folder: Path) -> bool:
    """Whether commands in this folder have the remembered tool, and ask a person about it."""
    return code_of(demiurge("-w", str(folder), *RING)) == "approval_required"


def test_a_world_that_was_moved_keeps_its_tools_and_its_policy(demiurge: Any, world: Path, tmp_path: Path) -> None:
    moved = world.rename(tmp_path / "moved")
    assert is_strict(demiurge, moved)
    assert len(list((tmp_path / ".config/demiurge/worlds").glob("*.json"))) == 1, "the record went along"
    assert is_strict(demiurge, moved.rename(world)), "and back"


def test_a_new_world_in_the_old_place_takes_nothing_from_the_one_that_was_moved(
    demiurge: Any, world: Path, tmp_path: Path
) -> None:
    moved = world.rename(tmp_path / "moved")
    assert demiurge("init").status == 0
    assert code_of(demiurge(*RING)) == "policy_denied"
    assert is_strict(demiurge, moved)


def test_two_worlds_may_change_places(demiurge: Any, world: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tmp_path / "none.toml").write_text("allowed_tools = []\n")
    assert demiurge("-w", str(other), "init", "--policy", "none.toml").status == 0
    other.rename(tmp_path / "aside")
    world.rename(other)
    (tmp_path / "aside").rename(world)
    assert is_strict(demiurge, other)
    assert code_of(demiurge(*CLOCK)) == "policy_denied"
    assert is_strict(demiurge, other)


@pytest.mark.parametrize("gone", [False, True], ids=["copied", "moved to another disk"])
def test_a_copy_does_not_run_under_the_default_policy(
    gone: bool, demiurge: Any, world: Path, copy: Path, strict: Path
) -> None:
    if gone:
        shutil.rmtree(world)
    for command in (CLOCK, ("--json", "chat", "-m", "Hello."), ("--json", "approvals", "approve", "0123456789ab")):
        done = demiurge("-w", str(copy), *command)
        assert (done.status, code_of(done)) == (1, "moved")
    for words in (f" {world},", f"demiurge -w {copy} init --tools strict_bell --policy {strict}", "init --forget"):
        assert words in done.document["error"]["message"]
    looked = demiurge("-w", str(copy), "journal", "verify")
    assert looked.status == 0
    assert str(strict) in looked.err
    assert demiurge("-w", str(copy), "losses", "ls").status == 0, "nothing is lost"


def test_a_policy_that_is_named_counts_for_that_command(demiurge: Any, copy: Path) -> None:
    assert demiurge("-w", str(copy), *CLOCK, "--policy", "strict.toml").status == 1
    named = demiurge("-w", str(copy), *RING, "--tools", "strict_bell", "--policy", "strict.toml")
    assert code_of(named) == "approval_required"
    assert code_of(demiurge("-w", str(copy), *CLOCK)) == "moved"
    assert code_of(demiurge("-w", str(copy), *CLOCK, "--tools", "strict_bell")) == "moved"


def test_a_chat_that_names_a_policy_has_it_remembered(demiurge: Any, provider: Any, copy: Path) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    done = demiurge("-w", str(copy), "chat", "-m", "Hi.", "--tools", "strict_bell", "--policy", "strict.toml")
    assert done.status == 0, done.err
    assert "Remembered for this world" in done.err
    assert is_strict(demiurge, copy)


def test_a_copy_is_settled_by_what_its_user_says_of_it(demiurge: Any, world: Path, copy: Path) -> None:
    said = ("init", "--tools", "strict_bell", "--policy", "strict.toml")
    assert demiurge("-w", str(copy), *said).status == 0
    assert is_strict(demiurge, copy)
    assert is_strict(demiurge, world)


def test_a_copy_and_its_original_are_forgotten_one_by_one(demiurge: Any, world: Path, copy: Path) -> None:
    assert demiurge("-w", str(copy), "init", "--forget").status == 0
    assert code_of(demiurge("-w", str(copy), *CLOCK)) is None
    assert is_strict(demiurge, world)
    assert demiurge("-w", str(copy), "init", "--policy", "strict.toml").status == 0
    assert demiurge("init", "--forget").status == 0
    assert code_of(demiurge(*CLOCK)) is None, "the policy of the copy is not that of the original"
    assert code_of(demiurge("-w", str(copy), *CLOCK)) == "policy_denied"


def test_a_world_that_was_moved_can_be_forgotten(demiurge: Any, world: Path, tmp_path: Path) -> None:
    moved = world.rename(tmp_path / "moved")
    assert demiurge("-w", str(moved), "init", "--forget").status == 0
    assert code_of(demiurge("-w", str(moved), *CLOCK)) is None
    assert list((tmp_path / ".config/demiurge/worlds").glob("*.json")) != []
    assert recall(os.environ, moved) is not None


def test_a_copy_whose_mark_can_not_be_read_does_not_run(demiurge: Any, copy: Path) -> None:
    (copy / "mark.key").chmod(0o644)
    done = demiurge("-w", str(copy), *CLOCK)
    assert code_of(done) == "mark_changed"
    assert demiurge("-w", str(copy), "losses", "accept", "--reason", "It came from a stick.").status == 0
    assert code_of(demiurge("-w", str(copy), *CLOCK)) is None


def test_a_copy_does_not_ask_for_the_policy_of_another_user(
    demiurge: Any, copy: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    assert code_of(demiurge("-w", str(copy), *CLOCK)) is None


@pytest.mark.parametrize("lose", ["copy", "mark"])
async def test_in_python_nothing_runs_without_a_policy(lose: str, world: Path, copy: Path) -> None:
    folder = copy if lose == "copy" else world
    if lose == "mark":
        (world / "mark.key").unlink()
    async with World.open(folder) as opened:
        assert opened.journal.verify().ok, "it can be looked at"
        with pytest.raises(Unavailable) as refused:
            await opened.submit("demiurge/ChatCreated@1", CREATED)
    assert refused.value.code == {"copy": "moved", "mark": "mark_changed"}[lose]
    async with World.open(folder, policy=ToolPolicy()) as opened:
        assert (await opened.submit("demiurge/ChatCreated@1", CREATED)).seq == 0
