"""`demiurge losses`, and the files whose loss stops what runs: nothing is passed over, and there is a way on."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

BELL = '''
from demiurge import ToolResult, tool


@tool
def ring() -> ToolResult[None]:
    """Rings."""
    return ToolResult("rung")
'''
STRICT = 'allowed_tools = ["ring"]\nrequire_approval_for_tools = ["ring"]\n'
MARK = "mark.key"


@pytest.fixture(autouse=True)
def kept(demiurge: Any, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world with tools and a strict policy that are remembered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strict_bell.py").write_text(BELL)
    (tmp_path / "strict.toml").write_text(STRICT)
    assert demiurge("init", "--tools", "strict_bell", "--policy", "strict.toml").status == 0
    assert demiurge("tools", "call", "ring", "{}", "--json").document["error"]["code"] == "approval_required"


def delete_mark(world: Path) -> None:
    (world / MARK).unlink()


def change(world: Path) -> None:
    (world / MARK).write_text("0" * 64 + "\n")


def damage_mark(world: Path) -> None:
    (world / MARK).write_text("no key\n")


def test_the_hints_name_the_world_that_was_named(
    demiurge: Any, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEMIURGE_WORLD")
    place = world.relative_to(tmp_path).as_posix()
    delete_mark(world)
    accept = f"demiurge -w {place} losses accept --reason TEXT"
    for done in (demiurge("-w", place, "tools", "call", "ring", "{}"), demiurge("losses", "ls", "-w", place)):
        assert (done.status, accept in done.err) == (1, True)
    listed = demiurge("-w", place, "losses", "ls", "--json").document
    assert accept in listed["lost"][0]
    assert accept in listed["error"]["message"]
    assert accept in demiurge("-w", place, "doctor").out
    said = accept.replace("TEXT", "gone")
    assert demiurge(*shlex.split(said)[1:]).status == 0, "what is printed works as it is printed"
    assert demiurge("-w", place, "losses", "ls").status == 0


@pytest.mark.parametrize("damage", [delete_mark, change, damage_mark])
def test_a_lost_mark_stops_what_runs_and_not_what_looks(damage: Any, demiurge: Any, world: Path) -> None:
    damage(world)
    for command in (("tools", "call", "ring", "{}"), ("chat", "-m", "Hello."), ("init", "--policy", "strict.toml")):
        done = demiurge(*command)
        assert done.status == 1
        assert str(world / MARK) in done.err
        assert "demiurge losses accept --reason TEXT" in done.err
    assert demiurge("journal", "verify").status == 0
    assert demiurge("losses", "ls").status == 1
    assert str(world / MARK) in demiurge("doctor").out


@pytest.mark.parametrize("damage", [delete_mark, change, damage_mark])
def test_a_lost_mark_can_be_accepted_and_that_is_recorded(damage: Any, demiurge: Any, world: Path) -> None:
    damage(world)
    done = demiurge("losses", "accept", "--reason", "The backup had none.", "--json")
    assert done.status == 0, done.err
    assert [MARK in text for text in done.document["lost"]] == [True]
    records = demiurge("journal", "tail", "--unit", "sys/World@1/losses", "--json").document["records"]
    assert [record["kind"] for record in records if record["kind"] == "loss"] == ["loss"]
    assert '"ring"' not in demiurge("tools", "ls", "--json").out
    assert demiurge("init", "--tools", "strict_bell", "--policy", "strict.toml").status == 0
    assert demiurge("losses", "accept", "--reason", "Once more.").out.startswith("Nothing is lost")


def test_a_trigger_is_refused_and_dropped_when_that_is_accepted(demiurge: Any, world: Path) -> None:
    with closing(sqlite3.connect(world / "journal.db")) as db:
        db.execute("CREATE TRIGGER quiet AFTER INSERT ON attempt BEGIN DELETE FROM attempt; END")
    for command in (("journal", "verify"), ("losses", "ls"), ("tools", "call", "ring", "{}")):
        done = demiurge(*command)
        assert done.status == 1
        assert "trigger 'quiet'" in done.err
    assert "trigger 'quiet'" in demiurge("doctor").out
    assert demiurge("losses", "accept", "--reason", "I know who made it.").status == 0
    assert demiurge("journal", "verify").status == 0
    assert demiurge("losses", "ls").status == 0


def test_a_journal_that_is_gone_is_not_replaced_without_a_word(demiurge: Any, world: Path) -> None:
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (world / name).unlink(missing_ok=True)
    for command in (("init",), ("chat", "-m", "Hello."), ("journal", "verify")):
        done = demiurge(*command)
        assert done.status == 1
        assert str(world / "journal.db") in done.err
        assert "demiurge losses accept" in done.err
    assert demiurge("losses", "accept", "--reason", "It can't be had back.").status == 0
    assert demiurge("journal", "verify").status == 0


def test_a_reason_is_needed(demiurge: Any) -> None:
    assert demiurge("losses", "accept").status == 2
    assert demiurge("losses", "accept", "--reason", " ").status == 2


def test_an_index_of_blobs_that_lacks_an_entry_is_named_and_made_anew(demiurge: Any, world: Path) -> None:
    with closing(sqlite3.connect(world / "journal.db", isolation_level=None)) as db:
        assert db.execute("DELETE FROM exposure WHERE seq = 0").rowcount > 0
    assert demiurge("losses", "ls").status == 0
    failed = demiurge("journal", "verify", "--json").document
    assert "The index of blobs lacks record 0" in str(failed)
    assert demiurge("losses", "accept", "--reason", "the index").status == 0
    assert demiurge("journal", "verify").status == 0
    assert [asked["tool"] for asked in demiurge("approvals", "ls", "--json").document["approvals"]] == ["ring"]
