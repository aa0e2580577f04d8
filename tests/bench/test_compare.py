"""The rows of docs/compare.md about Demiurge are true. The other contestants are left out: they need a network."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from bench.compare import trials
from bench.compare.contest import CONTESTANTS, Contestant, outside
from bench.compare.contestant import ADA
from bench.compare.damage import change, drop_last, places

OURS = CONTESTANTS[0]


@pytest.fixture
def only_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "CONTESTANTS", (OURS,))


@pytest.mark.usefixtures("only_us")
def test_an_email_is_sent_once_if_the_process_is_killed_after_it() -> None:
    [row] = trials.crash()[1]
    assert row[:2] == ("Demiurge", "1")
    assert "unknown_outcome" in row[2]


@pytest.mark.full
@pytest.mark.usefixtures("only_us")
def test_an_approval_survives_a_restart_and_is_void_for_a_changed_call() -> None:
    [row] = trials.approval()[1]
    assert row[1:3] == ("yes", "e-mail sent")
    assert row[3].startswith(f"no e-mail to {trials.EVE}")


@pytest.mark.full
@pytest.mark.usefixtures("only_us")
def test_a_changed_byte_and_a_dropped_record_are_found() -> None:
    [row] = trials.audit()[1]
    assert row[1:3] == ("found", "found")


def test_the_world_outside_starts_without_emails() -> None:
    with outside() as world:
        assert world.sent() == []


def test_a_text_is_changed_in_files_and_in_cells_of_a_database(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"to": "{ADA}"}}\n{{}}\n')
    hidden = base64.b64encode(f"to {ADA} again".encode()).decode()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE call (arguments TEXT)")
        database.execute("CREATE TRIGGER guard BEFORE UPDATE ON call BEGIN SELECT missing(); END")
        database.executemany("INSERT INTO call VALUES (?)", [(ADA,), (hidden,)])
        database.commit()
    found = places(tmp_path, ADA)
    assert [str(place) for place in found] == ["a.db, call.arguments", "a.db, call.arguments", "log.jsonl"]
    for place in found:
        change(tmp_path, place, ADA, trials.EVE)
    assert places(tmp_path, ADA) == []
    drop_last(tmp_path / "log.jsonl", None)
    assert (tmp_path / "log.jsonl").read_text() == f'{{"to": "{trials.EVE}"}}\n'
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        plain, packed = (cell for (cell,) in database.execute("SELECT arguments FROM call"))
        assert database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall() == [("guard",)]
    assert (plain, base64.b64decode(packed)) == (trials.EVE, f"to {trials.EVE} again".encode())
    drop_last(tmp_path / "a.db", "call")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        assert database.execute("SELECT count(*) FROM call").fetchone() == (1,)


@pytest.mark.parametrize("contestant", CONTESTANTS[1:], ids=lambda contestant: contestant.script)
def test_the_packages_of_a_contestant_are_pinned(contestant: Contestant) -> None:
    assert contestant.peer is not None
    lines = contestant.peer.requirements.read_text("utf-8").lower().replace("_", "-").splitlines()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    assert set(contestant.package.split()) <= pinned
