"""Costs that do not grow with the world: how much an answer reads, counted, in a short world and in a longer one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.server.conftest import Served
from tests.server.test_connect import apart, token
from tests.server.test_journal_stream import make_chat
from tests.shell.steps import ask_for_order

from demiurge import World
from demiurge.bootstrap.backend.http_client import HttpBackend
from demiurge.bootstrap.backend.operations import Operation
from demiurge.bootstrap.cost import cost_of_world
from demiurge.bootstrap.trace_view import records_of_chat, trace_trees
from demiurge.stores.protocol import Row
from demiurge.stores.sqlite import journal
from demiurge.world.host import Host
from demiurge.world.unit import Unit


async def test_the_inbox_reads_no_more_of_a_long_chat(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[str]()
    make = journal.make_rows

    def make_counted(*args: Any) -> Iterator[Row]:
        for row in make(*args):
            read["rows"] += 1
            yield row

    user = await served.client()
    await ask_for_order(served, "c1")
    monkeypatch.setattr(journal, "make_rows", make_counted)
    counts = []
    for _ in range(2):
        read.clear()
        [asked] = (await user.get("/api/approvals")).json()["approvals"]
        counts.append(read["rows"])
        page = (await user.get(f"/api/journal?unit=demiurge/Demiurge@1/c1&from={asked['seq']}&limit=1")).json()
        assert asked["asked_ns"] == page["records"][0]["time_ns"]
        for _ in range(30):
            await make_chat(user, "c1")
    assert counts[0] == counts[1] > 0


async def test_the_list_of_standing_rules_reads_the_chats_that_have_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await served.client()
    for number in range(20):
        await make_chat(user, f"idle-{number}")
    assert (await user.get("/api/approvals/rules")).json()["rules"] == []
    looked = []
    state = Host.state

    def counted(host: Host, unit: Unit) -> Any:
        looked.append(str(unit))
        return state(host, unit)

    monkeypatch.setattr(Host, "state", counted)
    await ask_for_order(served, "c1")
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    assert (await user.post(f"/api/approvals/{asked['id']}/rule", json={})).status_code == 200
    await served.world.settle()
    looked.clear()
    assert [rule["unit"] for rule in (await user.get("/api/approvals/rules")).json()["rules"]] == [asked["unit"]]
    assert looked == [asked["unit"]]


async def test_costs_and_traces_of_a_served_world_ask_for_many_blobs_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[str]()
    ask = HttpBackend._ask

    def counted(backend: HttpBackend, operation: Operation, args: Any) -> Any:
        asked[operation.name] += 1
        return ask(backend, operation, args)

    monkeypatch.setattr(HttpBackend, "_ask", counted)
    secret = await token(served, "user")

    async def look(answers: int) -> Counter[str]:
        asked.clear()
        async with World.connect(served.base, secret) as world:
            today = datetime.now(UTC).date()
            found = await asyncio.to_thread(cost_of_world, world.backend, today)
            assert found["total"]["answers"] == answers
            [tree] = await trace_trees(world.backend, records_of_chat(world.backend, "c1", 1))
            assert any("bolt" in (node.get("arguments_json") or "") for node in tree.nodes)
        return Counter(asked)

    user = await served.client()
    provider, counts = served.provider, list[Counter[str]]()
    for turns in (1, 6):
        parts = [{"part": f"bolt {turns}", "card": str(number)} for number in range(turns)]
        calls = [provider.call("order_part", part, f"c{number}") for number, part in enumerate(parts)]
        provider.say(provider.answer(*calls), provider.answer(provider.text("Ordered.")))
        await user.post("/api/chats/c1/messages", json={"text": "Order", "wait": True})
        for call in (await user.get("/api/approvals")).json()["approvals"]:
            await user.post(f"/api/approvals/{call['id']}", json={"decision": "approve"})
        await served.world.settle()
        counts.append(await apart(look(2 * len(counts) + 2)))
    assert counts[0]["read.get_blobs"] > 0
    assert counts[0] == counts[1]
