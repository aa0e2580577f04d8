"""Rows that a connection store has accepted are on disk, sealed, and readable by its user only."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from demiurge import faults
from demiurge.errors import Conflict, Damaged, DemiurgeError, NotFound, Unavailable, UsageError
from demiurge.stores.connection_store import MemoryConnectionStore
from demiurge.stores.sqlite.connection_store import SqliteConnectionStore
from demiurge.tools import (
    Connection,
    ConnectionBroker,
    ConnectionStore,
    Credentials,
    DamagedConnections,
    KeyRing,
    SealedConnection,
)

KEYS = KeyRing({"v1": bytes(32)})
CANARY = "canary-77aa-token"


def row(name: str = "one", tenant: str = "ba_1", sealed: bytes = b"\0sealed\xff") -> SealedConnection:
    return SealedConnection(
        Connection(name, "github", "oauth2", tenant, ("repo", "Zürich"), 5, None, "v1"),
        sealed,
    )


STORES: dict[str, Callable[[Path], ConnectionStore]] = {
    "memory": lambda folder: MemoryConnectionStore(),
    "sqlite": lambda folder: SqliteConnectionStore(folder / "connections.db"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConnectionStore]:
    made = STORES[request.param](tmp_path)
    yield made
    if isinstance(made, SqliteConnectionStore):
        made.close()


def test_an_added_connection_is_returned_unchanged(store: ConnectionStore) -> None:
    store.add(row())
    assert store.get("one") == row()
    assert store.get("two") is None


def test_an_id_is_taken_once(store: ConnectionStore) -> None:
    store.add(row())
    with pytest.raises(Conflict):
        store.add(row(tenant="ba_2"))
    assert store.get("one") == row()


def test_a_tenants_rows_in_the_order_they_came(store: ConnectionStore) -> None:
    rows = [row("c"), row("a", "ba_2"), row("b")]
    for each in rows:
        store.add(each)
    assert list(store.list("ba_1")) == [rows[0], rows[2]]
    assert list(store.list()) == rows
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    "meanwhile",
    [
        row(sealed=b"other"),
        row(tenant="ba_2"),
        replace(row(), connection=replace(row().connection, revoked_at_ms=7)),
        replace(row(), connection=replace(row().connection, expires_at_ms=None)),
        replace(row(), connection=replace(row().connection, key_id="v2", scopes=())),
    ],
)
def test_only_what_is_there_can_be_replaced(store: ConnectionStore, meanwhile: SealedConnection) -> None:
    store.add(row())
    store.add(row("other"))
    assert store.swap(row(), meanwhile)
    assert not store.swap(row(), row(sealed=b"mine"))
    assert not store.swap(row("third"), row("third"))
    assert store.get("one") == meanwhile
    assert store.get("other") == row("other")


def test_of_many_writers_one_replaces_it(store: ConnectionStore) -> None:
    store.add(row())
    won: list[bytes] = []

    def write(mine: bytes) -> None:
        if store.swap(row(), row(sealed=mine)):
            won.append(mine)

    threads = [threading.Thread(target=write, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get("one")] == [row(sealed=mine) for mine in won]


# the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "connections.db"


def files(path: Path) -> list[Path]:
    return sorted(path.parent.glob(path.name + "*"))


def test_a_connection_is_there_after_the_store_is_reopened(path: Path) -> None:
    with SqliteConnectionStore(path) as store:
        store.add(row())
    with SqliteConnectionStore(str(path)) as store:
        assert store.get("one") == row()
    with pytest.raises(UsageError, match="closed"):
        store.get("one")


def test_two_at_a_time_see_each_other(path: Path) -> None:
    with SqliteConnectionStore(path) as one, SqliteConnectionStore(path) as two:
        one.add(row())
        assert two.get("one") == row()
        assert two.swap(row(), row(sealed=b"new"))
        assert not one.swap(row(), row(sealed=b"mine"))


async def test_no_file_has_the_secret_at_any_time(path: Path) -> None:
    """The log before it is merged, the file after, and what is left when a connection is revoked."""
    found = b""
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        credentials = Credentials(CANARY, refresh_token=f"refresh-{CANARY}", username="ada")
        made = [broker.add(tenant="ba_1", provider="github", credentials=credentials) for _ in range(3)]
        found += b"".join(file.read_bytes() for file in files(path))
        assert (path.parent / "connections.db-wal").stat().st_size > 0
        sealed = [kept.sealed for kept in store.list()]
        ConnectionBroker(store, KeyRing({"v1": bytes(32), "v2": "5a" * 32})).rotate()
        broker.revoke(made[0].id)
        found += b"".join(file.read_bytes() for file in files(path))
    whole = b"".join(file.read_bytes() for file in files(path))
    assert CANARY.encode() not in found + whole
    assert b"access_token" not in found + whole
    assert [old for old in sealed if old in whole] == []
    assert made[1].id.encode() in whole


def test_only_its_user_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteConnectionStore(path) as store:
            store.add(row())
            assert {stat.S_IMODE(file.stat().st_mode) for file in files(path)} == {0o600}
            assert len(files(path)) == 3
    finally:
        os.umask(before)
    path.chmod(0o644)
    with SqliteConnectionStore(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_link_is_not_followed(path: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / (path.name + suffix)).symlink_to(target)
    with pytest.raises(Unavailable, match="link"):
        SqliteConnectionStore(path)
    assert target.read_text() == "precious"


def test_a_folder_that_others_can_write_to_is_refused(path: Path) -> None:
    path.parent.chmod(0o777)
    with pytest.raises(Unavailable) as caught:
        SqliteConnectionStore(path)
    assert caught.value.code == "exposed"
    path.parent.chmod(0o700)


def test_a_folder_that_is_not_there_is_said(path: Path) -> None:
    with pytest.raises(Unavailable, match=r"There is no folder .*missing: make it first"):
        SqliteConnectionStore(path.parent / "missing" / "connections.db")


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE letters (text)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="another program"):
        SqliteConnectionStore(path)
    assert path.read_bytes() == before


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


def test_a_newer_format_is_refused(path: Path) -> None:
    SqliteConnectionStore(path).close()
    change(path, "PRAGMA user_version = 2")
    with pytest.raises(UsageError) as caught:
        SqliteConnectionStore(path)
    assert caught.value.code == "newer_format"


@pytest.mark.parametrize("scopes", ["'{'", "'null'", "'[1'"])
def test_scopes_that_are_none_are_damage(path: Path, scopes: str) -> None:
    with SqliteConnectionStore(path) as store:
        store.add(row())
        change(path, f"UPDATE connection SET scopes = {scopes}")
        with pytest.raises(Damaged):
            store.get("one")


@pytest.mark.parametrize("damage", ["scopes = '{'", "scopes = CAST(x'ff' AS TEXT)", "provider = CAST(x'67ff' AS TEXT)"])
def test_a_damaged_row_is_no_reason_not_to_read_the_others(path: Path, damage: str) -> None:
    newer = KeyRing({"v1": bytes(32), "v2": "5a" * 32})
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        bad, good = (broker.add(tenant="ba_1", provider="p", credentials=Credentials(CANARY)) for _ in range(2))
        change(path, f"UPDATE connection SET {damage} WHERE id = '{bad.id}'")
        for ask in (lambda: broker.list("ba_1"), ConnectionBroker(store, newer).rotate):
            with pytest.raises(DamagedConnections, match=bad.id) as caught:
                ask()
            assert caught.value.damaged == (bad.id,)
            assert [kept.connection.id for kept in caught.value.rows] == [good.id]
        kept = store.get(good.id)
        assert kept is not None
        assert kept.connection.key_id == "v2"
        with pytest.raises(Damaged):
            store.get(bad.id)


BROKEN = [
    "scopes = '{'",
    "scopes = CAST(x'ff' AS TEXT)",
    "provider = CAST(x'67ff' AS TEXT)",
    "key_id = CAST(x'ff' AS TEXT)",
    "id = CAST(x'6964ff' AS TEXT)",
]


@pytest.mark.parametrize("damage", BROKEN)
def test_a_row_that_can_not_be_read_is_revoked_by_the_name_that_its_error_says(path: Path, damage: str) -> None:
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        bad, good = (broker.add(tenant="ba_1", provider="p", credentials=Credentials(CANARY)) for _ in range(2))
        kept = store.get(bad.id)
        assert kept is not None
        change(path, f"UPDATE connection SET {damage} WHERE id = '{bad.id}'")
        with pytest.raises(DamagedConnections) as caught:
            broker.list("ba_1")
        (name,) = caught.value.damaged
        with pytest.raises(NotFound):
            broker.revoke(name, tenant="ba_2")
        broker.revoke(name, tenant="ba_1")
        assert broker.list("ba_1") == (good,)
        with pytest.raises(NotFound):
            broker.revoke(name)
        assert broker.rotate() == 0
    assert kept.sealed not in path.read_bytes()


def test_a_row_of_a_tenant_that_can_not_be_read_is_revoked_by_an_operator(path: Path) -> None:
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        bad = broker.add(tenant="ba_1", provider="p", credentials=Credentials(CANARY))
        change(path, "UPDATE connection SET tenant = CAST(x'62615fff' AS TEXT)")
        with pytest.raises(NotFound):
            broker.revoke(bad.id, tenant="ba_1")
        broker.revoke(bad.id)
        assert store.list() == ()


@pytest.mark.parametrize("damage", ["sealed = x'00'", "sealed = zeroblob(99)", "key_id = 'v0'", "tenant = 'ba_3'"])
def test_a_row_that_can_not_be_opened_is_revoked_like_any(path: Path, damage: str) -> None:
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        bad = broker.add(tenant="ba_1", provider="p", credentials=Credentials(CANARY))
        change(path, f"UPDATE connection SET {damage}")
        with pytest.raises(DamagedConnections):
            ConnectionBroker(store, KeyRing({"v1": bytes(32), "v2": "5a" * 32})).rotate()
        broker.revoke(bad.id)
        kept = store.get(bad.id)
        assert kept is not None
        assert (kept.sealed, kept.connection.revoked_at_ms is not None) == (b"", True)


def test_a_row_that_can_be_read_is_never_discarded(store: ConnectionStore) -> None:
    store.add(row())
    assert not store.discard("one")
    assert not store.discard("two")
    assert store.get("one") == row()


def test_a_file_that_is_no_database_is_damage(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(Damaged):
        SqliteConnectionStore(path)


async def test_a_changed_connection_file_never_lends_the_credentials_of_another_tenant(path: Path) -> None:
    """Rows are swapped, moved, cut and flipped at random; a lease gives the right token or a typed error."""
    chance = random.Random(7)
    with SqliteConnectionStore(path) as store:
        broker = ConnectionBroker(store, KEYS)
        tokens = {}
        for number in range(4):
            credentials = Credentials(f"{CANARY}-{number}")
            made = broker.add(tenant=f"ba_{number % 2}", provider="github", credentials=credentials)
            tokens[made.id] = (made.tenant, f"{CANARY}-{number}")
        names = list(tokens)
        for _ in range(200):
            one, two = chance.sample(names, 2)
            change(
                path,
                chance.choice(
                    [
                        f"UPDATE connection SET tenant = 'ba_{chance.randrange(3)}' WHERE id = '{one}'",
                        f"UPDATE connection SET sealed = (SELECT sealed FROM connection WHERE id = '{two}') "
                        f"WHERE id = '{one}'",
                        f"UPDATE connection SET sealed = substr(sealed, 2) WHERE id = '{one}'",
                        f"UPDATE connection SET revoked_at_ms = NULL, key_id = 'v1' WHERE id = '{one}'",
                        f"UPDATE connection SET provider = 'gitlab' WHERE id = '{one}'",
                    ]
                ),
            )
            for name, (owner, token) in tokens.items():
                for tenant in ("ba_0", "ba_1", "ba_2"):
                    try:
                        async with broker.lease(name, tenant=tenant, actor="a") as auth:
                            assert (auth.get_access_token(), tenant) == (token, owner)
                    except (NotFound, Damaged):
                        continue


CHILD = """
import sys
from demiurge.stores.sqlite.connection_store import SqliteConnectionStore
from demiurge.tools import Connection, SealedConnection

with SqliteConnectionStore(sys.argv[1]) as store:
    for number in range(20):
        there = Connection(f"c{number}", "github", "oauth2", "ba_1", (), None, None, "v1")
        store.add(SealedConnection(there, b"old"))
        print("added", number, flush=True)
        store.swap(SealedConnection(there, b"old"), SealedConnection(there, b"new"))
        print("swapped", number, flush=True)
"""


@pytest.mark.parametrize("point", ["connections.before_commit", "connections.after_commit"])
@pytest.mark.parametrize("hit", [2, 9, 24])
def test_a_kill_loses_nothing_that_was_told(path: Path, point: str, hit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)],
        env={**os.environ, faults.VARIABLE: f"{point}=kill@{hit}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with SqliteConnectionStore(path) as store:
        for told in done.stdout.splitlines():
            what, number = told.split()
            kept = store.get(f"c{number}")
            assert kept is not None
            assert what == "added" or kept.sealed == b"new"


@pytest.mark.parametrize("action", ["enospc", "eio", "erofs"])
def test_a_disk_that_fails_is_said_and_changes_nothing(path: Path, action: str) -> None:
    with SqliteConnectionStore(path) as store:
        store.add(row())
        with faults.armed({"connections.before_commit": action}):
            for attempt in (lambda: store.swap(row(), row(sealed=b"new")), lambda: store.add(row("two"))):
                with pytest.raises(DemiurgeError):
                    attempt()
        assert list(store.list()) == [row()]
        assert store.swap(row(), row(sealed=b"new"))
