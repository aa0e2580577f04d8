"""Rows of a ledger that another program deletes: equal calls are refused, never run again, and checking says it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from demiurge.errors import Damaged
from demiurge.stores.sqlite import ledger as sqlite_ledger
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.ledger.store import LedgerRow, LedgerSlot

NUMBERS = range(40)

DELETED = {
    "newest": "DELETE FROM entry WHERE id = (SELECT max(id) FROM entry)",
    "first": "DELETE FROM entry WHERE id = (SELECT min(id) FROM entry)",
    "several": "DELETE FROM entry WHERE id % 3 = 0",
    "neighbours": "DELETE FROM entry WHERE place IN (SELECT place FROM entry ORDER BY place LIMIT 5 OFFSET 7)",
    "all": "DELETE FROM entry",
}
LINKS = {
    "links stay": "",
    "links of the deleted too": "DELETE FROM link WHERE place NOT IN (SELECT place FROM entry) AND entries > 0",
    "all links too": "DELETE FROM link",
}


def slot(number: int) -> LedgerSlot:
    return LedgerSlot("", "pay", str(number))


def claim(ledger: SqliteEffectLedger, place: LedgerSlot) -> LedgerRow | None:
    return ledger.claim(place, params_hash="h", ttl_ns=None, now_ns=1).claimed


def fill(path: Path) -> None:
    with SqliteEffectLedger(path) as ledger:
        for number in NUMBERS:
            claimed = claim(ledger, slot(number))
            assert claimed is not None
            if number % 4:
                ledger.settle(claimed, message="m", value=b"1", excluded=False, ttl_ns=None, now_ns=1)


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def numbers_left(path: Path) -> set[int]:
    with closing(sqlite3.connect(path)) as db:
        return {int(key) for (key,) in db.execute("SELECT key FROM entry WHERE tool = 'pay'")}


def require_nothing_repeats(ledger: SqliteEffectLedger, left: set[int]) -> None:
    """No call is given a claim that it had before: its entry is there, or it is refused."""
    for number in NUMBERS:
        if number in left:
            assert claim(ledger, slot(number)) is None
        else:
            with pytest.raises(Damaged, match=r"ledger\.db is damaged"):
                claim(ledger, slot(number))
    with pytest.raises(Damaged, match=r"ledger\.db is damaged"):
        ledger.check()


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("which", DELETED)
def test_a_deleted_row_is_noticed_when_opened_when_used_and_when_checked(
    which: str, links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    with SqliteEffectLedger(path) as ledger:
        ledger.check()
        execute(path, *filter(None, (DELETED[which], LINKS[links])))
        left = numbers_left(path)
        require_nothing_repeats(ledger, left)
    with pytest.raises(Damaged, match=r"ledger\.db is damaged .*restore"):
        SqliteEffectLedger(path)
    monkeypatch.setattr(sqlite_ledger, "_CHECKED_BYTES", 0)
    with SqliteEffectLedger(path) as ledger:
        require_nothing_repeats(ledger, left)
    with SqliteEffectLedger(path, accepts_losses=True) as ledger:
        ledger.check()
        assert {number for number in NUMBERS if claim(ledger, slot(number)) is None} == left
        ledger.check()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM tally",
        "UPDATE tally SET claims = claims - 1",
        "UPDATE tally SET claims = 0, guard = 0",
        "DELETE FROM link",
        "DELETE FROM link WHERE place = (SELECT min(place) FROM link)",
        "UPDATE link SET next = NULL",
        "UPDATE link SET entries = 0",
        "DROP TABLE link",
        "DROP TABLE tally",
        "UPDATE entry SET state = 'done'",
        "UPDATE entry SET value = x'32'",
        "UPDATE entry SET key = 'x' || key",
        "INSERT INTO entry SELECT id + 1000, \"partition\", tool, 'x', state, effect, params_hash, created_ns, "
        "expires_ns, owner, message, value, success, excluded, rendering, guard, place FROM entry WHERE id = 1",
    ],
)
def test_an_altered_row_and_an_altered_count_are_noticed(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    execute(path, statement)
    monkeypatch.setattr(sqlite_ledger, "_CHECKED_BYTES", 0)
    with pytest.raises(Damaged, match=r"ledger\.db is"), SqliteEffectLedger(path) as ledger:
        ledger.check()


def test_an_older_copy_of_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    shutil.copy(path, tmp_path / "older.db")
    with SqliteEffectLedger(path) as ledger:
        assert claim(ledger, slot(1000)) is not None
    shutil.copy(tmp_path / "older.db", path)
    with pytest.raises(Damaged, match="has lost the last 1 of the 41 calls"):
        SqliteEffectLedger(path)


def test_a_person_who_knows_what_a_lost_call_did_frees_its_slot(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    with SqliteEffectLedger(path) as ledger:
        execute(path, "DELETE FROM entry WHERE key = '7'")
        assert ledger.invalidate(slot(7))
        ledger.check()
        assert claim(ledger, slot(7)) is not None


@pytest.mark.parametrize(
    "forget",
    [
        lambda ledger: ledger.clear(),
        lambda ledger: ledger.invalidate_by_tool("pay"),
        lambda ledger: [ledger.invalidate(slot(number)) for number in NUMBERS],
    ],
)
def test_rows_that_the_ledger_itself_deletes_are_not_missed(
    forget: Callable[[SqliteEffectLedger], object], tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    with SqliteEffectLedger(path) as ledger:
        kept = claim(ledger, LedgerSlot("", "other", "0"))  # the place of another tool's entry
        assert kept is not None
        forget(ledger)
        ledger.check()
        assert len(ledger.slots("0")) == 1
        ledger.release(kept)
        for number in NUMBERS:
            assert claim(ledger, slot(number)) is not None
        ledger.check()


def test_an_older_programs_ledger_gets_links(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    fill(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (ledger_id, claims) = db.execute("SELECT ledger, claims FROM tally").fetchone()
        db.execute("UPDATE tally SET guard = ?", (crc32(f"{ledger_id.hex()} {claims}".encode()),))
        db.execute("DROP TABLE link")
    with SqliteEffectLedger(path) as ledger:
        ledger.check()
        assert all(claim(ledger, slot(number)) is None for number in NUMBERS)
