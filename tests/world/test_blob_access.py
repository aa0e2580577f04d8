"""Who was given a blob: found by the index, decided by the record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.stores.old_formats import make_older
from tests.world.effects.effect_asker import effect_asker
from tests.world.small_world import A

from demiurge.errors import Conflict
from demiurge.stores import MemoryStore, Row, SqliteStore, Store
from demiurge.values.refs import Ref, ref_digest, ref_of
from demiurge.world.blob_access import exposing_records, granting_records
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.history.verify import verify
from demiurge.world.unit import Unit

GRANTS: dict[str, dict[str, object]] = {"blob": {}}


async def give_blobs(store: Store, *blobs: bytes) -> list[Ref]:
    async with effect_asker(store, [BlobEffects()], GRANTS) as asker:
        return [await asker.give(blob) for blob in blobs]


def execute_sql(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


class Counting(MemoryStore):
    """Counts the rows that are read."""

    rows = 0

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        for row in super().read(unit, from_seq, limit):
            self.rows += 1
            yield row


async def test_a_look_reads_as_many_records_as_give_the_blob_however_long_the_unit_is() -> None:
    store = Counting("w")
    [first, *_] = await give_blobs(store, b"first", *(f"{number}".encode() for number in range(300)))
    head = store.head(str(A))
    assert head is not None
    assert head.next_seq > 600
    store.rows = 0
    assert [record.unit_seq for record in granting_records(store, A, first)] == [0]
    assert store.rows == 1
    assert list(granting_records(store, A, ref_of(b"unknown"))) == []
    assert store.rows == 1


async def test_an_entry_that_is_wrong_grants_nothing(tmp_path: Path) -> None:
    """The record that it leads to decides: another one, one that is not there, one of another unit."""
    with SqliteStore.create(tmp_path / "w", "w") as store:
        await give_blobs(store, b"given")
        secret = store.put_blob(b"secret")
    key = int.from_bytes(ref_digest(secret)[:8], "big", signed=True)
    places = "(1, 0), (1, 1), (1, 99), (7, 0)"
    execute_sql(
        tmp_path / "w",
        f"INSERT INTO exposure (blob, unit, seq) SELECT {key}, column1, column2 FROM (VALUES {places})",
        f"INSERT INTO exposure (blob, unit, seq) VALUES ({key}, 1, 'text')",
    )
    with SqliteStore.open(tmp_path / "w") as store:
        assert list(granting_records(store, A, secret)) == []
        assert list(exposing_records(store, secret)) == []
        async with effect_asker(store, [BlobEffects()], GRANTS) as asker:
            assert await asker.code("blob.get", blob_ref=secret) == "not_found"
        assert verify(store).ok


async def test_verify_names_the_record_that_the_index_lacks(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "w") as store:
        [ref] = await give_blobs(store, b"given")
        assert verify(store).ok
    execute_sql(tmp_path / "w", "DELETE FROM exposure WHERE seq = 0")
    with SqliteStore.open(tmp_path / "w") as store:
        assert list(granting_records(store, A, ref)) == [], "what is not found is refused"
        problem = verify(store).problem
        assert problem is not None
        assert problem.startswith(f"The index of blobs lacks record 0 of unit {A},")
    with SqliteStore.open(tmp_path / "w", accepts_losses=True) as store:
        assert verify(store).ok
        assert [record.unit_seq for record in granting_records(store, A, ref)] == [0]


async def test_a_world_of_an_older_program_refuses_nobody(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "w") as store:
        [old] = await give_blobs(store, b"old")
        known = [record.hash for record in granting_records(store, A, old)]
    make_older(tmp_path / "w", 3)
    with SqliteStore.open_read_only(tmp_path / "w", Conflict("Its owner does not answer.")) as store:
        for found in (granting_records(store, A, old), exposing_records(store, old)):
            assert [record.hash for record in found] == known
        for found in (granting_records(store, A, ref_of(b"unknown")), exposing_records(store, ref_of(b"unknown"))):
            assert list(found) == []
        assert store.exposures.indexed_from() == store.length() + 1, "nothing can be written"
        assert verify(store).ok
    with SqliteStore.open(tmp_path / "w") as store:
        [new] = await give_blobs(store, b"new")
        for ref in (old, new):
            assert len(list(granting_records(store, A, ref))) == 1
        assert store.exposures.indexed_from() == 1
        assert verify(store).ok


async def test_every_unit_that_was_given_a_blob_is_found(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        ref = await asker.give(b"shared")
        await asker.host.submit("ex/Ev@1", {"$tag": "Given", "$value": {"room": "b", "it": ref}})
    assert {record.unit for record in exposing_records(memory, ref)} == {str(A), str(Unit(A.module, "b"))}
