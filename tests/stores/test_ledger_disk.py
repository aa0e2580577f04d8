"""A ledger whose file can't be written, is damaged, or is not its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.stores.ledger_child import Book, place_all
from tests.tools.order_shop import NAME, Order, Receipt, Shop, order_tool, runner_for

from demiurge import SqliteEffectLedger, faults
from demiurge.errors import Damaged, Unavailable, UsageError
from demiurge.stores.sqlite import ledger as sqlite_ledger
from demiurge.tools import LedgerSlot, ToolContext, ToolResult, ToolUserError, partition_of
from demiurge.tools.ledger.store import EntryState

ROOT = Path(__file__).parents[2]
ARGS = {"order_id": "o"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def refuse(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
    raise ToolUserError("no")


def break_off(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
    raise SystemExit


ACTIONS = [("enospc", "disk_full"), ("eio", "disk_error"), ("erofs", "read_only")]


@pytest.mark.parametrize("action", [action for action, _ in ACTIONS])
async def test_a_call_that_can_not_claim_does_not_run_and_may_be_made_again(path: Path, action: str) -> None:
    shop = Shop()
    with SqliteEffectLedger(path) as ledger:
        runner = runner_for(order_tool(shop.place), ledger)
        with faults.armed({"ledger.claim.before_commit": action}):
            assert (await runner.exec(NAME, ARGS)).error_code == "execution"
            assert runner.exec_sync(NAME, ARGS).error_code == "execution"
        assert shop.taken == []
        assert (await runner.exec(NAME, ARGS)).ok
        assert ledger.in_doubt() == ()


@pytest.mark.parametrize("action", [action for action, _ in ACTIONS])
async def test_a_result_that_can_not_be_stored_is_answered_and_then_in_doubt(path: Path, action: str) -> None:
    """For all who share the ledger, at once, and also while the process goes on with other calls."""
    shop = Shop()
    with SqliteEffectLedger(path) as ledger, SqliteEffectLedger(path) as other:
        runner = runner_for(order_tool(shop.place), ledger)
        with faults.armed({"ledger.settle.before_commit": action}):
            first = await runner.exec(NAME, ARGS)
        assert (first.ok, first.content) == (True, "ordered\n\n<<o>>")
        for ledger_there in (ledger, other):
            again = await runner_for(order_tool(shop.place), ledger_there).exec(NAME, ARGS)
            assert again.error_code == "unknown_outcome"
        assert (await runner.exec(NAME, {"order_id": "next"})).ok
        assert shop.taken == ["o", "next"]
        (slot,) = other.in_doubt()
        assert other.invalidate(slot)
        assert (await runner.exec(NAME, ARGS)).ok


async def test_a_lost_result_shows_when_the_other_calls_of_its_process_have_ended(path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        if params.order_id == "slow":
            begun.set()
            await go.wait()
        return ToolResult("m", Receipt(params.order_id))

    with SqliteEffectLedger(path) as ledger, SqliteEffectLedger(path) as other:
        runner = runner_for(order_tool(place), ledger)
        slow = asyncio.create_task(runner.exec(NAME, {"order_id": "slow"}))
        await begun.wait()
        with faults.armed({"ledger.settle.before_commit": "enospc"}):
            assert (await runner.exec(NAME, ARGS)).ok
        assert len(ledger.in_doubt()) == 1, "its own process knows at once"
        assert (await runner.exec(NAME, {"order_id": "other"})).ok
        go.set()
        assert (await slow).ok
        assert len(other.in_doubt()) == 1


def test_a_claim_that_was_refused_holds_up_nobody(path: Path) -> None:
    slot = LedgerSlot("", "t", "k")
    with SqliteEffectLedger(path) as ledger, SqliteEffectLedger(path) as other:
        mine = ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed
        assert mine is not None
        assert ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed is None
        with faults.armed({"ledger.release.before_commit": "eio"}), pytest.raises(Unavailable):
            ledger.release(mine)
        assert other.in_doubt() == (slot,)


def test_a_call_that_ends_while_it_is_looked_at_is_not_taken_for_dead(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = LedgerSlot("", "t", "k")
    with SqliteEffectLedger(path) as ledger:
        mine = ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed
        assert mine is not None
        owners = ledger._file._owners
        works_on = owners.works_on

        def meanwhile(name: str, claim: bytes) -> bool:
            monkeypatch.undo()
            ledger.settle(mine, message="m", value=b"1", excluded=False, ttl_ns=None, now_ns=0)
            return works_on(name, claim)

        monkeypatch.setattr(owners, "works_on", meanwhile)
        found = ledger.find(slot, 0)
        assert found is not None
        assert found.state is EntryState.DONE


@pytest.mark.parametrize(("write", "handler"), [("release", refuse), ("doubt", break_off)])
def test_a_failure_that_can_not_be_stored_is_in_doubt(path: Path, write: str, handler: Any) -> None:
    with SqliteEffectLedger(path) as ledger:
        with faults.armed({f"ledger.{write}.before_commit": "enospc"}):
            assert not runner_for(order_tool(handler), ledger).exec_sync(NAME, ARGS).ok
        assert runner_for(order_tool(Shop().place), ledger).exec_sync(NAME, ARGS).error_code == "unknown_outcome"


def test_an_entry_that_has_expired_makes_room_by_itself(path: Path) -> None:
    def work(ledger: SqliteEffectLedger, first: int, count: int) -> None:
        for number in range(first, first + count):
            got = ledger.claim(LedgerSlot("", "t", str(number)), params_hash="h", ttl_ns=1, now_ns=number * 10)
            assert got.claimed is not None
            ledger.settle(got.claimed, message="", value=b"1", excluded=False, ttl_ns=1, now_ns=number * 10)

    with SqliteEffectLedger(path) as ledger:
        work(ledger, 0, 50)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (1,)


@pytest.mark.parametrize(("action", "code"), ACTIONS)
def test_an_edit_that_can_not_be_written_says_why_and_changes_nothing(path: Path, action: str, code: str) -> None:
    with SqliteEffectLedger(path) as ledger:
        ledger.record(idempotency_key="k", tool_name="t", params=None, result=ToolResult("m"))
        edits: list[Any] = [
            lambda: ledger.record(idempotency_key="n", tool_name="t", params=None, result=ToolResult("m")),
            lambda: ledger.invalidate("k"),
            ledger.clear,
            ledger.prune_expired,
        ]
        for edit in edits:
            with faults.armed({"ledger.edit.before_commit": action}), pytest.raises(Unavailable) as caught:
                edit()
            assert caught.value.code == code
        assert ("k" in ledger, len(ledger)) == (True, 1)


@pytest.mark.parametrize("action", ["enospc", "erofs"])
def test_a_ledger_that_could_not_be_made_can_be_made_later(path: Path, action: str) -> None:
    with faults.armed({"ledger.create.before_commit": action}), pytest.raises(Unavailable):
        SqliteEffectLedger(path)
    SqliteEffectLedger(path).close()


def test_on_a_disk_that_gets_full_nothing_runs_twice_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.stores.ledger_child", str(tmp_path), "fill"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    answers = json.loads(done.stdout)
    book = Counter(Book(tmp_path).orders())
    assert set(book.values()) == {1}
    half = len(answers) // 2
    first, again = dict(answers[:half]), dict(answers[half:])
    assert list(first.values())[-3:] == ["execution"] * 3
    for order, code in first.items():
        if code is None:
            assert book[order] == 1
            assert again[order] in (None, "unknown_outcome")
        else:
            assert again[order] is None, "it never ran, so now it does"
    assert list(again.values()).count("unknown_outcome") <= 1, "the one that found no room for its result"
    kept = asyncio.run(place_all(tmp_path, "place", list(first)))
    assert [answer[0] for answer in kept] == list(again.values())
    assert Counter(Book(tmp_path).orders()) == book


# Damage


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statement).rowcount == 1


@pytest.mark.parametrize(
    "change",
    [
        "value = x'00'",
        "message = 'other'",
        "state = 'in_doubt'",
        "success = 0",
        "excluded = 1",
        "rendering = 'other'",
        "expires_ns = NULL",
        "effect = zeroblob(16)",
        "owner = 'x'",
        "guard = guard + 1",
    ],
)
async def test_a_damaged_entry_answers_nothing_and_runs_nothing(path: Path, change: str) -> None:
    shop = Shop()
    with SqliteEffectLedger(path) as ledger:
        await runner_for(order_tool(shop.place), ledger).exec(NAME, ARGS)
    execute(path, f"UPDATE entry SET {change}")
    with closing(sqlite3.connect(path)) as db:
        (key,) = db.execute("SELECT key FROM entry").fetchone()
    with SqliteEffectLedger(path) as ledger:
        runner = runner_for(order_tool(shop.place), ledger)
        assert (await runner.exec(NAME, ARGS)).error_code == "execution"
        with pytest.raises(Damaged, match=r"An entry in .*ledger.db is damaged: invalidate it when it is known"):
            ledger.lookup(key)
        assert (await runner.exec(NAME, {"order_id": "other"})).ok
        assert shop.taken == ["o", "other"]
        assert ledger.invalidate(key)
        assert (await runner.exec(NAME, ARGS)).ok


@pytest.mark.parametrize("copy", [0, 1], ids=["bit in the table", "bit in the index"])
def test_a_bit_that_hides_an_entry_is_found_when_the_file_is_opened(path: Path, copy: int) -> None:
    with SqliteEffectLedger(path) as ledger:
        runner_for(order_tool(Shop().place), ledger).exec_sync(NAME, ARGS)
    content, key = bytearray(path.read_bytes()), f"session:{NAME}:".encode()
    places = [at for at in range(len(content)) if content.startswith(key, at)]
    assert len(places) == 2
    content[places[copy] + len(key)] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match="is damaged"):
        SqliteEffectLedger(path)


def flipped(path: Path, pattern: bytes, copy: int, at: int, bit: int) -> None:
    """Flips one bit of one of the places where `pattern` is: a row, an index of it, and a link."""
    content = bytearray(path.read_bytes())
    places = [found.start() for found in re.finditer(re.escape(pattern), content)]
    assert 2 <= len(places) <= 3
    content[places[copy] + at] ^= bit
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("column", "copy"),
    [*((column, copy) for column in ("key", "place", "expires_ns") for copy in (0, 1)), ("place", 2)],
)
def test_in_a_file_too_large_to_be_checked_no_flipped_bit_makes_a_call_run_twice(
    path: Path, column: str, copy: int
) -> None:
    shop = Shop()
    with SqliteEffectLedger(path) as ledger:
        runner_for(order_tool(shop.place), ledger).exec_sync(NAME, ARGS)
        ledger.record(idempotency_key="large", tool_name="t", params={}, result=ToolResult("m", "x" * 17 * 2**20))
    with closing(sqlite3.connect(path)) as db:
        (value,) = db.execute(f"SELECT {column} FROM entry WHERE tool = ?", (NAME,)).fetchone()
    pattern = value.encode() if isinstance(value, str) else value.to_bytes(8, signed=True)
    last = len(pattern) - 1
    flipped(path, pattern, copy, *((last, 1) if column == "key" else (0, pattern[0] & 0x10 or 0x40)))
    with SqliteEffectLedger(path) as ledger:
        runner = runner_for(order_tool(shop.place), ledger)
        for number in range(3):  # each claims, and tidies up
            assert runner.exec_sync(NAME, {"order_id": f"other {number}"}).ok
        answer = runner.exec_sync(NAME, ARGS)
        ledger.prune_expired()
        again = runner.exec_sync(NAME, ARGS)
    assert shop.taken.count("o") == 1
    for each in (answer, again):
        assert (each.ok, each.record.replayed) == (True, True) or each.error_code == "execution"


def test_an_entry_that_its_index_hides_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteEffectLedger(path) as ledger:
        entry = ledger.record(idempotency_key="order-17", tool_name=NAME, params={}, result=ToolResult("m", 1))
    monkeypatch.setattr(sqlite_ledger, "_CHECKED_BYTES", 0)
    flipped(path, b"order-17", 1, 7, 1)
    with SqliteEffectLedger(path) as ledger:
        for key in ("order-17", LedgerSlot("", NAME, "order-17")):
            with pytest.raises(Damaged, match="an index hides an entry"):
                ledger.lookup(key)
        assert ledger.lookup("order-18") is None
    assert entry.result_value == 1


def test_a_sessions_entry_that_the_index_of_keys_hides_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = partition_of(session="s")
    with SqliteEffectLedger(path) as ledger:
        slot = LedgerSlot(partition, NAME, "order-17")
        ledger.record(idempotency_key=slot, tool_name=NAME, params={}, result=ToolResult("m", 1))
        other = LedgerSlot(partition_of(tenant="t"), NAME, "order-17")
        ledger.record(idempotency_key=other, tool_name=NAME, params={}, result=ToolResult("m", 1))
    monkeypatch.setattr(sqlite_ledger, "_CHECKED_BYTES", 0)
    content = bytearray(path.read_bytes())
    (at, *_) = [found.start() for found in re.finditer(re.escape(f"order-17{partition}".encode()), content)]
    content[at + 7] ^= 1
    path.write_bytes(content)
    with SqliteEffectLedger(path) as ledger:
        for use in (ledger.lookup, ledger.invalidate, ledger.slots, ledger.__contains__):
            with pytest.raises(Damaged, match="an index hides an entry"):
                use("order-17")


@pytest.mark.parametrize("bytes_left", [100, 4096, 5000])
def test_a_file_that_is_cut_short_is_said(path: Path, bytes_left: int) -> None:
    with SqliteEffectLedger(path) as ledger:
        runner_for(order_tool(Shop().place), ledger).exec_sync(NAME, ARGS)
    os.truncate(path, bytes_left)
    with pytest.raises(Damaged, match="is damaged"), SqliteEffectLedger(path) as ledger:
        ledger.clear()


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    path.write_bytes(b"precious " * 1000)
    with pytest.raises(Damaged, match="is damaged"):
        SqliteEffectLedger(path)
    assert path.read_bytes() == b"precious " * 1000
    path.unlink()
    execute_all = "CREATE TABLE precious (x)"
    with closing(sqlite3.connect(path)) as db:
        db.execute(execute_all)
    with pytest.raises(UsageError, match="another program"):
        SqliteEffectLedger(path)


@pytest.mark.parametrize(("change", "said"), [(1, "newer Demiurge"), (-1, "earlier Demiurge")])
def test_a_file_of_another_format_is_refused(path: Path, change: int, said: str) -> None:
    SqliteEffectLedger(path).close()
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + change}")
    with pytest.raises(UsageError, match=said):
        SqliteEffectLedger(path)


# Privacy


def test_nobody_else_can_read_or_write_any_of_its_files(path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteEffectLedger(path) as ledger:
            runner_for(order_tool(Shop().place), ledger).exec_sync(NAME, ARGS)
            found = {file: stat.S_IMODE(file.stat().st_mode) for file in path.parent.rglob("*")}
    finally:
        os.umask(before)
    assert len(found) == 6
    assert {mode for file, mode in found.items() if file.is_file()} == {0o600}
    assert {mode for file, mode in found.items() if file.is_dir()} == {0o700}


@pytest.mark.parametrize(
    "name", ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal", "ledger.db-owners"]
)
def test_a_link_is_not_followed(path: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(Unavailable, match="link"):
        SqliteEffectLedger(path)
    assert victim.read_text() == "precious"


def test_a_folder_that_others_can_write_to_is_refused(path: Path) -> None:
    path.parent.chmod(0o777)
    with pytest.raises(Unavailable, match="Others can write"):
        SqliteEffectLedger(path)
    with pytest.raises(Unavailable):
        SqliteEffectLedger(path.parent / "nowhere" / "ledger.db")


@pytest.mark.parametrize("name", ["ledger.db", "claims-of-ledger.db"])
def test_a_file_that_others_can_write_to_is_refused(path: Path, name: str) -> None:
    with SqliteEffectLedger(path) as ledger:
        runner_for(order_tool(Shop().place), ledger).exec_sync(NAME, ARGS)
    path.with_name(name).chmod(0o666)
    with pytest.raises(Unavailable, match=f"Others can write to .*{name}"):
        SqliteEffectLedger(path)


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = SqliteEffectLedger(path)
    runner = runner_for(order_tool(Shop().place), ledger)
    ledger.close()
    with pytest.raises(UsageError, match="closed"):
        ledger.lookup("k")
    assert runner.exec_sync(NAME, ARGS).error_code == "execution"
