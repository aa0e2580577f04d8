"""`demiurge journal archive` and `archives`: old records in files, which may be kept elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Processes, Run
from tests.provider import Provider


@pytest.fixture
def chatted(demiurge: Run, provider: Provider) -> Run:
    """A world with two turns in it, and the command to work on it with."""
    provider.say(*(provider.answer(provider.text(text)) for text in ("Hello.", "Good.")))
    for message in ("Hi", "How are you?"):
        assert demiurge("chat", "-m", message).status == 0
    return demiurge


def verified(demiurge: Run, *options: str) -> Any:
    return demiurge("journal", "verify", *options, "--json").document


def test_records_are_archived_and_all_else_stays_as_it_was(chatted: Run, provider: Provider, world: Path) -> None:
    before, exported = verified(chatted), chatted("journal", "export").out
    count = before["records"]
    seal = chatted("journal", "seal", "--at", "5").out.strip()
    dry = chatted("journal", "archive", "--before", "6", "--dry-run", "--json").document
    done = chatted("journal", "archive", "--before", "6", "--json").document
    assert done == dry | {"segments": 1, "packed": done["packed"], "seal": seal, "dry_run": False}
    assert (done["records"], done["position"]) == (5, 5)
    rest = chatted("journal", "archive", "--keep", "0")
    assert rest.out.startswith(f"Archived {count - 5} records (")
    listed = chatted("journal", "archives", "--json").document["archives"]
    assert [(held["first"], held["last"], held["here"]) for held in listed] == [(1, 5, True), (6, count, True)]
    assert listed[0]["seal"] == seal
    assert listed[0]["bytes"] == done["bytes"]
    assert listed[0]["packed"] == done["packed"] == Path(listed[0]["file"]).stat().st_size
    assert chatted("journal", "export").out == exported
    assert verified(chatted, "--seal", seal) == before
    assert chatted("journal", "archive", "--keep", "0").out == "Archived 0 records (0 bytes).\n"
    assert chatted("replay").status == 0
    assert chatted("gc").status == 0
    assert chatted("fork", "copy").status == 0
    assert verified(chatted, "--world", "copy")["ok"]
    assert not (world.parent / "copy" / "archives").exists(), "a fork has all that it took over in its journal"
    provider.say(provider.answer(provider.text("As ever.")))
    assert chatted("chat", "-m", "And now?").status == 0


def test_younger_records_are_left(chatted: Run) -> None:
    assert chatted("journal", "archive", "--json").document["records"] == 0
    assert chatted("journal", "archives", "--json").document == {"archives": []}


def test_a_file_that_was_moved_away_is_asked_for_by_who_needs_it(chatted: Run, world: Path, tmp_path: Path) -> None:
    seal, exported = chatted("journal", "seal").out.strip(), chatted("journal", "export").out
    done = chatted("journal", "archive", "--before", "6", "--json").document
    [path] = (world / "archives").iterdir()
    shutil.move(path, tmp_path / "cold")
    for command in (["journal", "export"], ["replay"], ["gc"], ["fork", "copy"], ["journal", "prove", "2"]):
        found = chatted(*command, "--json")
        assert (found.status, found.document["error"]["code"]) == (1, "archived"), command
        assert str(path) in found.document["error"]["message"]
    assert not (tmp_path / "copy").exists()
    assert chatted("journal", "tail", "-n", "1").status == 0
    assert chatted("journal", "archives", "--json").document["archives"][0]["here"] is False
    assert " no " in chatted("journal", "archives").out
    found = verified(chatted, "--seal", seal)
    assert (found["ok"], found["archived"], found["seal"]) == (True, done["records"], seal)
    assert "archived" not in verified(chatted, "--archive", "cold", "--seal", seal)
    shutil.move(tmp_path / "cold", path)
    assert chatted("journal", "export").out == exported


def test_a_file_that_is_no_archive_is_an_error(chatted: Run, tmp_path: Path) -> None:
    chatted("journal", "archive", "--before", "6")
    (tmp_path / "words").write_text("no archive")
    assert verified(chatted, "--archive", "words")["error"]["code"] == "damaged"
    assert verified(chatted, "--archive", "nothing")["error"]["code"] == "not_found"


def test_a_damaged_file_is_named_and_an_intact_one_can_be_lent(chatted: Run, world: Path, tmp_path: Path) -> None:
    chatted("journal", "archive", "--before", "6")
    [path] = (world / "archives").iterdir()
    shutil.copy(path, tmp_path / "intact")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = verified(chatted)
    assert not found["ok"]
    assert "archive" in found["error"]["message"]
    assert verified(chatted, "--archive", str(tmp_path / "intact"))["ok"]


@pytest.mark.parametrize("options", [("--before", "0"), ("--keep", "-1"), ("--before", "x")])
def test_positions_and_days_are_numbers(demiurge: Run, options: tuple[str, str]) -> None:
    assert demiurge("journal", "archive", *options).status == 2


def test_no_number_of_days_at_all_is_refused(chatted: Run) -> None:
    assert chatted("journal", "archive", "--keep", "nan", "--json").document["error"]["code"] == "bad_window"


def test_the_owner_does_it_for_another_process(process: Processes, provider: Provider, world: Path) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    process("chat", "-m", "Hi", "--json")
    provider.asked.clear()
    provider.say(provider.answer(provider.text("That took a while."), held=True))
    owner = process.start("chat", "-m", "Think hard.", "--json")
    assert provider.asked.wait(20)
    done = process("journal", "archive", "--keep", "0", "--json").document
    assert done["records"] > 5
    [path] = (world / "archives").iterdir()
    place = path.rename(world.parent / "cold")
    found = process("journal", "export", "--json").document
    assert found["error"]["code"] == "archived"
    assert verified(process)["archived"] == done["records"]
    assert "archived" not in verified(process, "--archive", str(place))
    assert process("journal", "archives", "--json").document["archives"][0]["here"] is False
    place.rename(path)
    assert owner.poll() is None
    provider.let_go.set()
    assert process.finish(owner).document["text"] == "That took a while."
    assert verified(process)["ok"]
    assert process("replay").status == 0
