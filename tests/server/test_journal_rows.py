"""`GET /api/journal/rows` and `/search`: records in a few words, and those that a search finds, newest first."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.server.conftest import Served
from tests.shell.steps import ask_for_order

from demiurge.bootstrap import journal_rows


async def search(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/api/journal/search", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def approval_of(client: httpx.AsyncClient) -> str:
    [asked] = (await client.get("/api/approvals")).json()["approvals"]
    return str(asked["id"])


async def test_rows_say_what_the_records_are_without_their_bodies(served: Served) -> None:
    await ask_for_order(served)
    user = await served.client()
    rows = (await user.get("/api/journal/rows", params={"unit": "demiurge/Demiurge@1/c1"})).json()["rows"]
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    assert not any("body" in row for row in rows)
    [asked] = [row for row in rows if row["kind"] == "intent" and row["says"].startswith("tool.call")]
    assert asked["says"].startswith("tool.call order_part")
    assert asked["state"] == "awaiting_approval"
    [answered] = [row for row in rows if row["kind"] == "receipt"]
    assert answered["says"].startswith("with llm/api@1") or answered["says"].startswith("llm.generate")
    assert rows[0]["says"] == "demiurge/ChatEvent@1 ChatCreated"


async def test_a_search_before_a_place_that_the_journal_does_not_reach_begins_at_its_end(served: Served) -> None:
    user = await served.client()
    async with asyncio.timeout(60):
        assert await search(user, before=2**53) == await search(user)
        unit = "sys/World@1/tokens"
        assert await search(user, before=2**53, unit=unit) == await search(user, unit=unit)


async def test_one_search_finds_what_failed_or_waits(served: Served) -> None:
    await ask_for_order(served)
    user = await served.client()
    found = await search(user, attention=True)
    assert [row["state"] for row in found["rows"]] == ["awaiting_approval"]
    approval = await approval_of(user)
    await user.post(f"/api/approvals/{approval}", json={"decision": "reject", "reason": "too dear"})
    await served.world.settle()
    found = await search(user, attention=True)
    assert "awaiting_approval" not in [row["state"] for row in found["rows"]]
    [rejected] = [row for row in found["rows"] if row["kind"] == "approval"]
    assert (rejected["state"], rejected["why"]) == ("rejected", "too dear")
    assert "order_part" in rejected["says"]


async def test_calls_are_listed_with_how_they_ended(served: Served) -> None:
    await ask_for_order(served)
    user = await served.client()
    states = {row["says"].split(" ")[1]: row["state"] for row in (await search(user, calls=True))["rows"]}
    assert states == {"order_part": "awaiting_approval", "gpt-5-mini": "done"}
    await user.post(f"/api/approvals/{await approval_of(user)}", json={"decision": "approve"})
    await served.world.settle()
    rows = (await search(user, calls=True, text="ORDER_PART"))["rows"]
    assert [(row["state"], row["ended_ns"] >= row["time_ns"]) for row in rows] == [("done", True)]


async def test_text_is_found_only_in_what_the_caller_may_see(served: Served) -> None:
    await ask_for_order(served)
    user, viewer = await served.client(), await served.client("viewer")
    withheld = '"ALIAS": "llm/api"'
    assert [row["says"].split()[0] for row in (await search(user, text=withheld, kind="intent"))["rows"]] == [
        "llm.generate"
    ]
    assert (await search(viewer, text=withheld))["rows"] == []
    assert len((await search(viewer, text="ORDER_PART", kind="intent"))["rows"]) == 1


async def test_a_long_search_goes_on_where_it_stopped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_rows, "LOOKED_AT", 100)
    monkeypatch.setattr(journal_rows, "PAGE", 50)
    values = [
        {"$tag": "ChatCreated", "$value": {"chat_id": f"c{n}", "title": f"title {n}", "created_at_ms": 1}}
        for n in range(150)
    ]
    await asyncio.gather(*(served.world.submit("demiurge/ChatEvent@1", value) for value in values))
    user = await served.client()
    seen, found, pages, before = 0, list[int](), 0, None
    while True:
        page = await search(user, text='"title', limit=7, **({} if before is None else {"before": before}))
        found += [row["position"] for row in page["rows"]]
        seen, pages, before = seen + page["looked_at"], pages + 1, page["before"]
        if before is None:
            break
        assert len(page["rows"]) == 7 or page["looked_at"] == 100
    assert len(found) == 150
    assert found == sorted(set(found), reverse=True)
    assert seen == (await user.get("/api/journal/head")).json()["length"]
    one_unit = await search(user, unit="demiurge/Demiurge@1/c7")
    assert [row["seq"] for row in one_unit["rows"]] == list(range(len(one_unit["rows"])))[::-1]


async def test_the_head_of_a_unit_is_found_behind_many_others(served: Served) -> None:
    for n in range(3):
        value = {"$tag": "ChatCreated", "$value": {"chat_id": f"c{n}", "title": "t", "created_at_ms": 1}}
        await served.world.submit("demiurge/ChatEvent@1", value)
    user = await served.client()
    wanted: dict[str, str | int] = {"prefix": "demiurge/Demiurge@1/c2", "limit": 1}
    found = (await user.get("/api/journal/head", params=wanted)).json()
    assert [(head["unit"], head["records"]) for head in found["units"]] == [("demiurge/Demiurge@1/c2", 3)]
    assert found["units"][0]["hash"].startswith("sha256:")
    assert found["length"] > 9
