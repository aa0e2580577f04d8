"""What waits for a person is found by the list, and all of it is found, whatever became of the list."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from tests.stores.old_formats import make_older
from tests.world.small_world import ChatClient, ScriptedModel, call_answer, chat_world, text_answer

from demiurge import faults
from demiurge.apps.demiurge import CHAT
from demiurge.errors import Conflict, NotFound
from demiurge.stores import Batch, DamagedRow, MemoryStore, SqliteStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.policy import ToolPolicy
from demiurge.values.caller import USER, Caller
from demiurge.world.host import Host
from demiurge.world.unit import Unit

DONE: list[str] = []


async def bump(what: str) -> str:
    """Bumps the counter."""
    DONE.append(what)
    return "bumped"


BUMP = Tool.wrap(bump, name="bump")
ASKS = ToolPolicy(allowed_tools=("bump",), require_approval_for_tools=("bump",))
KEYS = "abc"
IDLE = "vwxyz"


def chat_unit(key: str) -> Unit:
    return Unit(CHAT, key)


@asynccontextmanager
async def host_of_chats(store: Store, *answers: Any) -> AsyncIterator[Host]:
    DONE.clear()
    async with chat_world(store, ScriptedModel(*answers), [BUMP], policy=ASKS) as talk:
        yield talk.host


async def fill(store: Store) -> dict[str, bytes]:
    """Makes a world of chats in which a call waits, and idle ones; the waiting intent of each chat."""
    async with host_of_chats(store, *(call_answer(("c1", "bump", {"what": key})) for key in KEYS)) as host:
        for key in KEYS:
            await ChatClient(host, chat_unit(key)).create()
            await ChatClient(host, chat_unit(key)).say("go")
        for key in IDLE:
            await ChatClient(host, chat_unit(key)).create()
        return waiting_intents(host)


def waiting_intents(host: Host) -> dict[str, bytes]:
    return {unit.key: intent.id for unit, intent in host.approvals()}


def execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


async def test_only_the_units_in_which_something_waits_are_read(store: Store) -> None:
    asked = await fill(store)
    assert sorted(asked) == sorted(KEYS)
    async with host_of_chats(store) as host:
        assert waiting_intents(host) == asked
        assert host.loaded() == [chat_unit(key) for key in KEYS]
    async with host_of_chats(store) as host:
        assert host.approvals(chat_unit("v")) == []
        assert [intent.id for _, intent in host.approvals(chat_unit("b"))] == [asked["b"]]


async def test_a_decision_reads_its_unit_alone(store: Store) -> None:
    asked = await fill(store)
    async with host_of_chats(store, text_answer("Done.")) as host:
        await host.decide(asked["b"], approve=True, reason="", caller=USER)
        assert host.loaded() == [chat_unit("b")]
        await host.settle(chat_unit("b"))
        assert DONE == ["b"]
        assert sorted(waiting_intents(host)) == ["a", "c"]
    async with host_of_chats(store) as host:
        await host.decide(asked["b"], approve=True, reason="", caller=USER)
        with pytest.raises(Conflict, match="already decided"):
            await host.decide(asked["b"], approve=False, reason="", caller=USER)
        with pytest.raises(Conflict, match="already decided"):
            await host.decide(asked["b"], approve=True, reason="", caller=Caller("somebody else"))
        with pytest.raises(NotFound, match="approvals ls"):
            await host.decide(bytes(32), approve=True, reason="", caller=USER)
        assert host.loaded() == [chat_unit("b")]


DAMAGE: dict[str, Sequence[str]] = {
    "an entry is gone": ["DELETE FROM waiting WHERE unit LIKE '%/b'"],
    "all are gone": ["DELETE FROM waiting"],
    "an entry is another unit's": ["UPDATE waiting SET unit = 'demiurge/Chat@1/v' WHERE unit LIKE '%/b'"],
    "an entry has another id": ["UPDATE waiting SET intent = zeroblob(32) WHERE unit LIKE '%/b'"],
    "the sum is gone": ["DELETE FROM waiting_sum"],
    "the sum has changed": ["UPDATE waiting_sum SET digest = zeroblob(32)"],
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_damaged_list_hides_nothing(tmp_path: Path, what: str) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
    execute(tmp_path / "w", *DAMAGE[what])
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store, text_answer("Done.")) as host:
            assert waiting_intents(host) == asked
            assert store.waiting.read() == {asked[key]: str(chat_unit(key)) for key in KEYS}
            await host.decide(asked["b"], approve=True, reason="", caller=USER)
            await host.settle(chat_unit("b"))
            assert DONE == ["b"]
            assert sorted(waiting_intents(host)) == ["a", "c"]


async def test_a_list_of_open_units_that_is_damaged_as_well_hides_nothing(tmp_path: Path) -> None:
    """Nothing can be written to such a file, so nobody can decide; what waits is shown all the same."""
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
    execute(
        tmp_path / "w",
        "DELETE FROM waiting",
        "PRAGMA writable_schema = 1",
        "CREATE TABLE other (name TEXT)",
        "CREATE INDEX other_name ON other (name)",
        """UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'other_name')
           WHERE name = 'unit_open'""",
        "DELETE FROM sqlite_master WHERE name IN ('other', 'other_name')",
    )
    with SqliteStore.open(tmp_path / "w") as store:
        assert list(store.heads(open_only=True)) == []
        async with host_of_chats(store) as host:
            assert waiting_intents(host) == asked


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_call_can_be_decided_by_its_id_though_the_list_is_damaged(tmp_path: Path, what: str) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
    execute(tmp_path / "w", *DAMAGE[what])
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store, text_answer("Done.")) as host:
            await host.decide(asked["b"], approve=True, reason="", caller=USER)
            await host.settle(chat_unit("b"))
            assert DONE == ["b"]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_world_of_an_older_program_shows_all_that_waits(tmp_path: Path, version: int) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
        async with host_of_chats(store, text_answer("No.")) as host:
            await host.decide(asked["c"], approve=False, reason="", caller=USER)
    make_older(tmp_path / "w", version)
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store) as host:
            with pytest.raises(Conflict, match="already decided"):
                await host.decide(asked.pop("c"), approve=True, reason="", caller=USER)
            assert waiting_intents(host) == asked
            assert store.waiting.read() == {asked[key]: str(chat_unit(key)) for key in "ab"}


async def test_a_list_that_the_disk_can_t_take_is_computed_each_time(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
        async with host_of_chats(store) as host:
            execute(tmp_path / "w", "DELETE FROM waiting")
            with faults.armed({"meta.before_commit": "enospc"}):
                assert waiting_intents(host) == asked
                assert waiting_intents(host) == asked
            assert store.waiting.read() is None
            assert waiting_intents(host) == asked
            assert store.waiting.read() is not None


async def test_an_append_on_its_way_makes_the_list_be_computed_again(tmp_path: Path) -> None:
    """It was computed before the append, and so may lack what that asks for."""
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
        execute(tmp_path / "w", "DELETE FROM waiting")
        async with host_of_chats(store) as host:
            length = store.length()
            lengths: list[int] = []

            def slow_length() -> int:
                lengths.append(length - 1 if not lengths else length)
                return lengths[-1]

            store.length = slow_length  # type: ignore[method-assign]
            assert waiting_intents(host) == asked
            assert lengths == [length - 1, length]
            assert store.waiting.read() == {asked[key]: str(chat_unit(key)) for key in KEYS}


async def test_a_list_is_not_put_back_while_a_unit_can_t_be_read(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asked = await fill(store)
    with closing(sqlite3.connect(tmp_path / "w" / "journal.db", isolation_level=None)) as db:
        find = "SELECT min(position), data FROM journal WHERE unit = (SELECT id FROM unit WHERE name LIKE '%/b')"
        position, data = db.execute(find).fetchone()
        db.execute("UPDATE journal SET data = x'00' WHERE position = ?", (position,))
        db.execute("DELETE FROM snapshot")
        db.execute("DELETE FROM waiting")
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store) as host:
            found, problems = host.waiting()
            assert {unit.key for unit, _ in found} == {"a", "c"}
            assert [(where, type(problem)) for where, problem in problems.items()] == [(chat_unit("b"), DamagedRow)]
            assert store.waiting.read() is None
    with closing(sqlite3.connect(tmp_path / "w" / "journal.db", isolation_level=None)) as db:
        db.execute("UPDATE journal SET data = ? WHERE position = ?", (data, position))
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store) as host:
            assert waiting_intents(host) == asked
            assert store.waiting.read() is not None


async def test_a_unit_whose_records_are_damaged_is_looked_at_because_of_the_list(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        await fill(store)
    broken = "unit = (SELECT id FROM unit WHERE name LIKE '%/b')"
    execute(tmp_path / "w", f"UPDATE journal SET data = x'00' WHERE seq = 1 AND {broken}", "DELETE FROM snapshot")
    with SqliteStore.open(tmp_path / "w") as store:
        async with host_of_chats(store) as host:
            found, problems = host.waiting()
            assert {unit.key for unit, _ in found} == {"a", "c"}
            assert list(problems) == [chat_unit("b")]


async def test_the_list_is_written_with_the_records_that_ask(memory: MemoryStore) -> None:
    """The batch that has an intent for a person says so, and the one with the decision takes it back."""
    batches: list[Batch] = []
    append = memory.append

    def watching(given: Sequence[Batch], **more: Any) -> list[list[int]]:
        batches.extend(given)
        return append(given, **more)

    memory.append = watching  # type: ignore[method-assign, assignment]
    async with host_of_chats(memory, call_answer(("c1", "bump", {"what": "x"})), text_answer("Done.")) as host:
        await ChatClient(host).say("go")
        [(_, intent)] = host.approvals()
        await host.decide(intent.id, approve=True, reason="", caller=USER)
        await host.settle()
    told = [(batch.waiting, {row.kind for row in batch.rows}) for batch in batches if batch.waiting is not None]
    assert [waiting for waiting, _ in told] == [(intent.id,), ()]
    assert "intent" in told[0][1]
    assert "approval" in told[1][1]
