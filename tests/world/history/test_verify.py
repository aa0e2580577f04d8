"""Verify: every kind of damage is found, and named."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from tests.world.small_world import (
    MAIN,
    A,
    EchoAdapter,
    ScriptedModel,
    call_answer,
    chat_manifest,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)

from demiurge.errors import Damaged, DemiurgeError, UsageError
from demiurge.stores import MemoryStore, SqliteStore
from demiurge.stores.protocol import Batch, Row
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.world.history.verify import Verified, verify
from demiurge.world.host import Host
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.run_step import advance_with_blobs

BIG = "a large text " * 4000


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A world with a finished chat, whose tool has written a file too large to be kept inline."""
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        model = ScriptedModel(
            call_answer(("c1", "workspace__write", {"path": "big.txt", "text": BIG})), text_answer("Done.")
        )
        async with chat_world(store, model) as talk:
            await talk.say("Write it.")
            assert talk.turn["status"] == "done"
        assert verify(store).ok
    return tmp_path / "w"


@pytest.fixture
def journal(folder: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(folder / "journal.db", isolation_level=None)
    yield db
    db.close()


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def found(folder: Path) -> Verified:
    with SqliteStore.open(folder) as store:
        return verify(store)


def row_of(db: sqlite3.Connection, kind: str) -> tuple[int, int, bytes]:
    """(position, number, bytes) of the chat's last record of a kind."""
    rows: list[tuple[int, int, bytes]] = db.execute(
        "SELECT position, seq, data FROM journal WHERE unit = (SELECT id FROM unit WHERE name = ?) AND kind = ?"
        " ORDER BY seq",
        (str(MAIN), kind),
    ).fetchall()
    return rows[-1]


@pytest.mark.parametrize("kind", ["event", "intent", "receipt", "capability_request", "step", "plan_ended", "manifest"])
@pytest.mark.parametrize("at", [3, 40, -1])
def test_a_flipped_byte_of_a_record_names_the_record(
    folder: Path, journal: sqlite3.Connection, kind: str, at: int
) -> None:
    position, number, data = row_of(journal, kind)
    journal.execute("UPDATE journal SET data = ? WHERE position = ?", (flipped(data, at), position))
    problem = found(folder).problem
    assert problem is not None
    assert str(number) in problem
    assert str(MAIN) in problem


async def test_a_record_whose_hash_was_made_to_fit_breaks_the_chain() -> None:
    store = MemoryStore("world_1")
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
        await host.submit("ex/Ev@1", poke_event("two"))
    forged = MemoryStore("world_1")
    forged.put_blobs([store.get_blob(ref) for ref in store.iter_blobs()])
    for row in store.read(str(A)):
        node = cbor.decode(row.data)
        if row.unit_seq == 1:
            node["cause"] = 7
        data = cbor.encode(node)
        changed = replace(row, data=data, hash=sha256(data).digest(), position=0)
        forged.append([Batch(str(A), row.unit_seq, (changed,), False)])
    assert f"Record 2 of unit {A} is damaged (it doesn't follow" in str(verify(forged).problem)


def test_a_record_that_is_gone_is_missed(folder: Path, journal: sqlite3.Connection) -> None:
    position, number, _ = row_of(journal, "step")
    journal.execute("DELETE FROM journal WHERE position = ?", (position,))
    problem = found(folder).problem
    assert problem is not None
    assert str(number) in problem


def test_a_journal_that_lost_its_last_record_is_shorter_than_its_head_says(
    folder: Path, journal: sqlite3.Connection
) -> None:
    last = journal.execute(
        "SELECT max(position), max(seq) FROM journal WHERE unit = (SELECT id FROM unit WHERE name = ?)", (str(MAIN),)
    ).fetchone()
    journal.execute("DELETE FROM journal WHERE position = ?", (last[0],))
    problem = found(folder).problem
    assert problem is not None
    assert str(last[1]) in problem


@pytest.mark.parametrize("column", ["hash = zeroblob(32)", "next_seq = next_seq - 1", "open = 1 - open"])
def test_a_changed_head_names_its_unit(folder: Path, journal: sqlite3.Connection, column: str) -> None:
    journal.execute(f"UPDATE unit SET {column} WHERE name = ?", (str(MAIN),))
    problem = found(folder).problem
    assert problem is not None
    assert str(MAIN) in problem


async def test_a_head_that_is_damaged_while_its_unit_is_open_is_found_too(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
            await host.submit("ex/Ev@1", poke_event("ask:x"))
    db = sqlite3.connect(tmp_path / "w" / "journal.db", isolation_level=None)
    db.execute("UPDATE unit SET hash = zeroblob(32)")
    db.close()
    problem = found(tmp_path / "w").problem
    assert problem is not None
    assert str(A) in problem
    with SqliteStore.open(tmp_path / "w") as store, pytest.raises(Damaged, match=str(A)):
        list(Host(store, small_manifest(), []).replay())


def test_a_flipped_byte_of_an_inline_blob_names_the_blob_and_who_exposes_it(
    folder: Path, journal: sqlite3.Connection
) -> None:
    with SqliteStore.open(folder) as store:
        receipt = [r for r in stored_records(store) if r.kind == "receipt"][-1]
        ref = receipt.body["payload"]["output_ref"]
    digest = bytes.fromhex(ref.removeprefix("sha256:"))
    [data] = journal.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
    journal.execute("UPDATE blob SET data = ? WHERE digest = ?", (flipped(data, 5), digest))
    problem = found(folder).problem
    assert problem is not None
    assert ref in problem
    assert f"record {receipt.unit} {receipt.unit_seq} (receipt)" in problem


def test_a_flipped_byte_of_a_blob_file_names_the_blob(folder: Path) -> None:
    files = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
    assert files
    for path in files:
        whole = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(flipped(whole, len(whole) // 2))
        problem = found(folder).problem
        assert problem is not None
        assert path.name in problem or sha256(whole).hexdigest() in problem
        path.write_bytes(whole)
    assert found(folder).ok


def test_a_blob_that_is_gone_is_missed(folder: Path, journal: sqlite3.Connection) -> None:
    with SqliteStore.open(folder) as store:
        receipt = [r for r in stored_records(store) if r.kind == "receipt"][-1]
    ref = receipt.body["payload"]["output_ref"]
    journal.execute("DELETE FROM blob WHERE digest = ?", (bytes.fromhex(ref.removeprefix("sha256:")),))
    problem = found(folder).problem
    assert problem is not None
    assert ref in problem
    assert f"record {MAIN} {receipt.unit_seq}" in problem


def test_a_blob_that_only_another_blob_names_is_checked_too(folder: Path, journal: sqlite3.Connection) -> None:
    for digest, data in journal.execute("SELECT digest, data FROM blob").fetchall():
        journal.execute("UPDATE blob SET data = ? WHERE digest = ?", (flipped(data, 0), digest))
        problem = found(folder).problem
        assert problem is not None
        assert digest.hex() in problem
        journal.execute("UPDATE blob SET data = ? WHERE digest = ?", (data, digest))
    assert found(folder).ok


def test_a_row_that_lost_where_it_came_from_is_found(folder: Path, journal: sqlite3.Connection) -> None:
    position, number, _ = row_of(journal, "receipt")
    journal.execute("UPDATE journal SET ingress_id = NULL WHERE position = ?", (position,))
    problem = found(folder).problem
    assert problem is not None
    assert str(number) in problem


async def test_a_world_that_grows_holds_every_seal_it_had_and_one_that_was_cut_does_not() -> None:
    store = MemoryStore("world_1")
    seals = {verify(store).seal}
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(3):
            await host.submit("ex/Ev@1", poke_event(str(number), f"r{number % 2}"))
            seals.add(verify(store).seal)
    assert len(seals) == 4
    done = verify(store)
    assert (done.units, done.records, done.problem) == (2, 8, None)
    assert verify(store).seal == done.seal
    assert all(verify(store, seal).ok for seal in seals)
    cut = MemoryStore("world_1")
    assert not verify(cut, done.seal).ok


async def test_a_world_that_grows_while_it_is_verified_is_not_called_damaged() -> None:
    store = MemoryStore("world_1")
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
        waiting: list[object] = []

        def grow(done: int) -> None:
            if done == 2:
                live = host._units[A]
                state = live.state
                ingress = Ingress(
                    "event", "late", {"schema": "ex/Ev@1", "value": poke_event("late")}, host._stamp(Caller("user"))
                )
                records = advance_with_blobs(host.manifest, state, ingress, store.get_blob).records
                rows = [
                    Row(r.unit, r.unit_seq, r.kind, r.hash, r.data, None if i else "late")
                    for i, r in enumerate(records)
                ]
                store.append([Batch(str(A), state.seq, tuple(rows), False)])
                waiting.append(rows)

        done = verify(store, progress=grow)
        assert waiting
        assert done.ok
        assert verify(store).ok


def test_opening_a_damaged_unit_says_where(folder: Path, journal: sqlite3.Connection) -> None:
    position, number, data = row_of(journal, "receipt")
    journal.execute("UPDATE journal SET data = ? WHERE position = ?", (flipped(data, 50), position))
    with SqliteStore.open(folder) as store:
        host = Host(store, chat_manifest(), [])
        with pytest.raises(DemiurgeError) as raised:
            list(host.replay())
    assert str(number) in str(raised.value)


def test_a_store_that_is_closed_is_no_damage(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        pass
    with pytest.raises(UsageError):
        verify(store)
