"""The ledger of a world's folder: there when a tool needs it, the same in the next process, and copied into a fork."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import IdempotencyConfig, ToolPolicy, World
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools import LedgerSlot, ToolEffect, tool
from demiurge.tools.ledger.store import EntryState
from demiurge.values.clock import SystemClock

ordered: list[str] = []


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig())
def order(part: str) -> str:
    """Orders a part, once."""
    ordered.append(part)
    return f"ordered {part}"


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def keyless(part: str) -> str:
    """Orders a part, each time."""
    return f"ordered {part}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    ordered.clear()
    with serving() as running:
        yield running


def opened(folder: Path | os.PathLike[str], provider: Provider, *, asks: bool = True) -> World:
    policy = ToolPolicy(("order",), require_approval_for_tools=("order",) if asks else ())
    return World.open(folder, [order], policy, environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url})


def turns(provider: Provider, count: int) -> None:
    say, call = Provider.text("There."), Provider.call("order", {"part": "bolt"})
    provider.say(*(Provider.answer(part) for _ in range(count) for part in (call, say)))


async def test_an_equal_call_of_the_next_process_is_answered_and_asks_nobody(
    provider: Provider, tmp_path: Path
) -> None:
    turns(provider, 2)
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("shop").send("Order a bolt.")
        [waiting] = await world.approvals()
        await world.decide(waiting["id"], approve=True)
        await world.chat("shop").resume()
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat("shop").send("And once more.")
        assert (reply.status, [call.ok for call in reply.tool_calls]) == ("done", [True])
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]
    assert ordered == ["bolt"]
    assert oct((tmp_path / "w" / "ledger.db").stat().st_mode)[-3:] == "600"


async def test_a_fork_knows_the_ledger_entries_of_calls_that_were_done(provider: Provider, tmp_path: Path) -> None:
    turns(provider, 3)
    async with opened(tmp_path / "w", provider, asks=False) as world:
        await world.chat("shop").send("Hello.")
        made = await world.fork(tmp_path / "fork", at=0)
    async with opened(made, provider, asks=False) as fork:
        reply = await fork.chat("shop").send("Order a bolt.")
        assert reply.status == "done"
    assert ordered == ["bolt"], "it was ordered after the fork's position, and is not ordered again"
    async with opened(tmp_path / "w", provider, asks=False) as world:
        await world.fork(tmp_path / "later")
    async with opened(tmp_path / "later", provider, asks=False) as later:
        await later.chat("shop").send("Order a bolt.")
    assert ordered == ["bolt"]


async def test_a_world_without_such_tools_has_no_ledger(provider: Provider, tmp_path: Path) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    async with World.open(tmp_path / "w", [keyless], environment=environment) as world:
        await world.chat("shop").send("Hello.")
        await world.fork(tmp_path / "fork")
    assert not (tmp_path / "w" / "ledger.db").exists()
    assert not (tmp_path / "fork" / "ledger.db").exists()


def test_an_open_ledger_entry_is_in_doubt_in_a_copy(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir(0o700)
    clock = SystemClock()
    open_, done = (LedgerSlot("", "order", key) for key in ("open", "done"))
    with SqliteEffectLedger(here / "ledger.db") as ledger:
        claims = [
            ledger.claim(slot, params_hash="", ttl_ns=None, now_ns=clock.now_ns()).claimed for slot in (open_, done)
        ]
        assert claims[1] is not None
        ledger.settle(claims[1], message="", value=b"1", excluded=False, ttl_ns=None, now_ns=clock.now_ns())
        WorldLedger(here, clock).copy_to(there)
        found = ledger.find(open_, clock.now_ns())
        assert found is not None
        assert found.state is EntryState.CLAIMED
        with SqliteEffectLedger(there / "ledger.db") as copy:
            states = [row.state if (row := copy.find(slot, clock.now_ns())) else None for slot in (open_, done)]
            assert states == [EntryState.IN_DOUBT, EntryState.DONE]
            assert copy.invalidate(done)
        assert done in ledger
