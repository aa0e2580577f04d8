"""Files of a killed world are damaged, deleted, emptied or put back: no effect runs twice, and what is lost is said.

Reduced here; under the mark `full` every frame of both write-ahead logs is damaged, in several places each.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.chaos.killed_world import CALLS, Book, ask_for_every_call, open_small_world, tools

ROOT = Path(__file__).parents[2]
ACCEPT = "`demiurge losses accept --reason TEXT`"
DONE = {"ok", "unknown_outcome"}

Damage = Callable[[Path], object]


def run(folder: Path, begin: int, end: int, how: str) -> None:
    """Make calls in another process, which kills itself."""
    command = [sys.executable, "-m", "tests.chaos.killed_world", str(folder), str(begin), str(end), how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


class Killed:
    """A world in `folder` that was killed; `older` is a copy of it from before its last calls."""

    def __init__(self, place: Path, how: str) -> None:
        self.folder, self.older, self.how = place / "world", place / "older", how
        run(self.folder, 0, 2, "after")
        shutil.copytree(self.folder, self.older, ignore=shutil.ignore_patterns("*.sock"))
        run(self.folder, 2, len(CALLS), how)

    def copy(self, place: Path) -> Path:
        place.mkdir()
        for name in ("world", "world.home"):
            shutil.copytree(self.folder.with_name(name), place / name, ignore=shutil.ignore_patterns("*.sock"))
        shutil.copy(self.folder.with_name("book"), place / "book")
        return place / "world"


@pytest.fixture(scope="module", params=["within", "after"])
def killed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed"), request.param)


def answers_after_damage(folder: Path) -> list[str]:
    """What a later process is told, which runs no effect twice."""
    book = Book(folder.with_name("book"))
    said = asyncio.run(ask_for_every_call(folder, book))
    assert set(book.orders().values()) == {1}, (book.orders(), said)
    return said


def is_refusal(said: list[str], *names: str) -> bool:
    """Whether a sentence names the file and what to do."""
    return any(all(name in text for name in names) and (ACCEPT in text or "backup" in text) for text in said)


def flip(path: Path, at: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def frames(path: Path) -> list[int]:
    """Where each frame of a write-ahead log begins that is in use."""
    log = path.read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    starts = range(32, len(log) - size + 1, size)
    return [at for at in starts if log[at + 8 : at + 16] == log[16:24]]


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_without_damage_all_calls_are_answered(killed: Killed, tmp_path: Path) -> None:
    said = answers_after_damage(killed.copy(tmp_path / "w"))
    assert said == ["ok"] * (len(said) - 1) + ["unknown_outcome" if killed.how == "within" else "ok"]


def sample(starts: list[int]) -> list[int]:
    """The first, the last, and some between."""
    return sorted({starts[0], starts[-1], *starts[:: max(1, len(starts) // 5)]})


def flipping(
    name: str, killed: Killed, places: Callable[[list[int]], list[int]], offsets: tuple[int, ...]
) -> Iterator[Damage]:
    for start in places(frames(killed.folder / name)):
        for offset in offsets:
            yield at_file(name, partial(flip, at=start + offset))


def answers_or_refuses(killed: Killed, place: Path, damages: Iterator[Damage], name: str) -> int:
    """How often what was lost was refused."""
    refused = 0
    for number, damage in enumerate(damages):
        folder = killed.copy(place / str(number))
        damage(folder)
        said = answers_after_damage(folder)
        if not set(said) <= DONE:
            assert is_refusal(said, name), said
            refused += 1
        shutil.rmtree(place / str(number))
    return refused


@pytest.mark.parametrize("name", ["journal.db-wal", "ledger.db-wal"])
def test_a_flipped_bit_in_a_log(name: str, killed: Killed, tmp_path: Path) -> None:
    """In the first frame all since the last checkpoint is lost, which is refused; at the end little or nothing."""
    base = name.removesuffix("-wal")
    assert answers_or_refuses(killed, tmp_path, flipping(name, killed, sample, (500,)), base)


@pytest.mark.full
@pytest.mark.parametrize("offset", [0, 9, 20, 24, 500, 4100])
@pytest.mark.parametrize("name", ["journal.db-wal", "ledger.db-wal"])
def test_a_flipped_bit_in_every_frame(name: str, offset: int, killed: Killed, tmp_path: Path) -> None:
    damages = flipping(name, killed, lambda starts: starts, (offset,))
    assert answers_or_refuses(killed, tmp_path, damages, name.removesuffix("-wal"))


@pytest.mark.full
@pytest.mark.parametrize("first", range(10, 4096, 512))
@pytest.mark.parametrize("name", ["journal.db", "ledger.db"])
def test_a_flipped_bit_in_every_page(name: str, first: int, killed: Killed, tmp_path: Path) -> None:
    size = (killed.folder / name).stat().st_size
    damages = (partial(flip, at=at) for at in range(first, size, 4096))
    answers_or_refuses(killed, tmp_path, (at_file(name, damage) for damage in damages), "")


def at_file(name: str, damage: Callable[[Path], object]) -> Damage:
    return lambda folder: damage(folder / name)


def remove(*names: str) -> Damage:
    def delete(folder: Path) -> None:
        for name in names:
            (folder / name).unlink(missing_ok=True)

    return delete


def empty(*names: str) -> Damage:
    return lambda folder: [(folder / name).write_bytes(b"") for name in names if (folder / name).exists()]


def roll_back(*names: str) -> Damage:
    def put_back(folder: Path) -> None:
        older = folder.parent.parent / "older"
        for name in names:
            (folder / name).unlink(missing_ok=True)
            if (older / name).exists():
                shutil.copy(older / name, folder / name)

    return put_back


def change(name: str, *statements: str) -> Damage:
    return lambda folder: execute(folder / name, *statements)


JOURNAL = ("journal.db", "journal.db-wal", "journal.db-shm")
LEDGER = ("ledger.db", "ledger.db-wal", "ledger.db-shm")
TRIGGER = "CREATE TRIGGER t AFTER INSERT ON {0} BEGIN DELETE FROM {0} WHERE rowid = new.rowid; END"

REFUSED: dict[str, tuple[Damage, str]] = {
    "journal deleted": (remove(*JOURNAL), "journal.db"),
    "journal's main file deleted": (remove("journal.db"), "journal.db"),
    "journal emptied": (empty(*JOURNAL), "journal.db"),
    "journal's main file emptied": (empty("journal.db"), "journal.db"),
    "journal's log deleted": (remove("journal.db-wal", "journal.db-shm"), "journal.db"),
    "journal rolled back": (roll_back(*JOURNAL), "journal.db"),
    "journal has a trigger": (change("journal.db", TRIGGER.format("attempt")), "journal.db"),
    "journal has a trigger on records": (change("journal.db", TRIGGER.format("journal")), "journal.db"),
    "journal has a view": (change("journal.db", "CREATE VIEW v AS SELECT * FROM attempt"), "journal.db"),
    "journal has a table": (change("journal.db", "CREATE TABLE other (x)"), "journal.db"),
    "journal lacks a table": (change("journal.db", "DROP TABLE attempt"), "journal.db"),
    "journal lacks an index": (change("journal.db", "DROP INDEX journal_ingress"), "journal.db"),
    "effect log deleted": (remove("effects.log"), "effects.log"),
    "effect log emptied": (empty("effects.log"), "effects.log"),
    "effect log of another world": (lambda folder: flip(folder / "effects.log", 20), "effects.log"),
    "ledger deleted": (remove(*LEDGER), "ledger.db"),
    "ledger and its count deleted": (remove(*LEDGER, "claims-of-ledger.db"), "ledger.db"),
    "ledger emptied": (empty(*LEDGER), "ledger.db"),
    "ledger's main file emptied": (empty("ledger.db"), "ledger.db"),
    "ledger's log deleted": (remove("ledger.db-wal", "ledger.db-shm"), "ledger.db"),
    "ledger rolled back": (roll_back(*LEDGER), "ledger.db"),
    "ledger's entries dropped": (change("ledger.db", "DROP TABLE entry"), "ledger.db"),
    "ledger's tally dropped": (change("ledger.db", "DROP TABLE tally"), "ledger.db"),
    "ledger's keys altered": (change("ledger.db", "UPDATE entry SET key = 'x' || key"), "ledger.db"),
    "ledger's partitions altered": (change("ledger.db", "UPDATE entry SET \"partition\" = 'x'"), "ledger.db"),
    "ledger's keys and places altered": (
        change("ledger.db", "UPDATE entry SET key = 'x' || key, place = id"),
        "ledger.db",
    ),
    "ledger's newest entry deleted": (
        change("ledger.db", "DELETE FROM entry WHERE id = (SELECT max(id) FROM entry)"),
        "ledger.db",
    ),
    "ledger's entries deleted": (change("ledger.db", "DELETE FROM entry"), "ledger.db"),
    "ledger's entries and links deleted": (
        change("ledger.db", "DELETE FROM entry", "DELETE FROM link"),
        "ledger.db",
    ),
    "ledger's count of claims deleted": (change("ledger.db", "DELETE FROM tally"), "ledger.db"),
    "ledger has a trigger": (change("ledger.db", TRIGGER.format("entry")), "ledger.db"),
    "count of claims deleted": (remove("claims-of-ledger.db"), "claims-of-ledger.db"),
    "count of claims emptied": (empty("claims-of-ledger.db"), "claims-of-ledger.db"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("what", REFUSED)
def test_a_world_with_lost_files_refuses_calls_until_the_loss_is_accepted(
    what: str, killed: Killed, tmp_path: Path
) -> None:
    damage, name = REFUSED[what]
    shutil.copytree(killed.older, tmp_path / "older")
    folder = killed.copy(tmp_path / "w")
    damage(folder)
    said = answers_after_damage(folder)
    assert is_refusal(said, name), said
    assert "ok" not in said[1:]
    assert answers_after_damage(folder) == said, "looking changes nothing"
    if ACCEPT not in " ".join(said):
        return
    offered = tools(Book(folder.with_name("book")))

    async def accept() -> None:
        async with open_small_world(folder, offered, accept_losses="I looked at the book.") as world:
            assert world.accepted is not None
            assert any(name in text for text in world.accepted.lost)
            assert world.journal.verify().ok
            assert (await world.replay())["ok"]
            assert world.lost() == []
            done = await world.call("pay", '{"order": "new"}', "call-new")
            assert done.ok
            kinds = [record.kind for record in world.journal.read("sys/World@1/losses")]
            assert "loss" in kinds

    asyncio.run(accept())
    assert Book(folder.with_name("book")).orders()["new"] == 1
    again = asyncio.run(asked_again(folder))
    assert again == "ok"
    assert Book(folder.with_name("book")).orders()["new"] == 1
    if "journal" not in what:  # else the calls themselves are forgotten, and that is what was accepted
        told = answers_after_damage(folder)
        assert set(told) <= DONE
        assert "unknown_outcome" in told or what != "ledger deleted"


async def asked_again(folder: Path) -> str:
    async with open_small_world(folder, tools(Book(folder.with_name("book")))) as world:
        assert world.lost() == []
        return "ok" if (await world.call("pay", '{"order": "new"}', "call-new")).ok else "failed"


HARMLESS: dict[str, Damage] = {
    "effect log cut": lambda folder: os.truncate(folder / "effects.log", 200),
    "effect log's last record damaged": lambda folder: flip(folder / "effects.log", 80 * 3 + 30),
    "one of two counts damaged": lambda folder: flip(folder / "claims-of-ledger.db", 10),
    "lock deleted": remove("lock"),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_a_world_runs_on_if_the_lost_data_is_also_in_another_file(what: str, killed: Killed, tmp_path: Path) -> None:
    folder = killed.copy(tmp_path / "w")
    HARMLESS[what](folder)
    assert set(answers_after_damage(folder)) <= DONE
