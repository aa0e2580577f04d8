"""`GET /api/trace`: the causal trees of events, as far as a caller may see them."""

from __future__ import annotations

import json
from typing import Any

import httpx
from tests.server.conftest import Served

SECRET = "canary-4111"


async def order(served: Served) -> str:
    """Says something that makes the model order a part, which waits for a person; returns the approval's id."""
    call = served.provider.call("order_part", {"part": "bolt", "card": SECRET})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    return str(asked["id"])


async def trees(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get("/api/trace", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["trees"])


def calls(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in tree["nodes"] if node["says"].startswith("tool.call")]


async def test_a_call_that_waits_for_a_person_has_an_open_phase(served: Served) -> None:
    await order(served)
    [newest, *_] = await trees(await served.client(), chat="c1")
    assert newest["state"] == "waiting"
    [call] = calls(newest)
    assert json.loads(call["arguments_json"]) == {"part": "bolt", "card": SECRET}
    assert [(phase["phase"], phase["to_ns"]) for phase in call["phases"]] == [("person", None)]


async def test_the_phases_of_an_approved_call_follow_each_other(served: Served) -> None:
    user, approval = await served.client(), await order(served)
    await user.post(f"/api/approvals/{approval}", json={"decision": "approve"})
    await served.world.settle()
    [newest, *_] = await trees(user, chat="c1", count=1)
    assert newest["state"] == "done"
    [call] = calls(newest)
    phases = call["phases"]
    assert [phase["phase"] for phase in phases] == ["person", "queued", "running"]
    assert phases[0]["from_ns"] == call["time_ns"]
    assert [phase["to_ns"] for phase in phases[:-1]] == [phase["from_ns"] for phase in phases[1:]]
    [receipt] = [n for n in newest["nodes"] if n["kind"] == "receipt" and n["cause"] == call["seq"]]
    assert phases[-1]["to_ns"] == receipt["time_ns"]


async def test_a_call_that_has_ended_has_its_result_for_a_user_and_the_redacted_view_for_everybody(
    served: Served,
) -> None:
    await served.world.decide(await order(served), approve=True)
    await served.world.settle()
    value = {"order": 7, "card": SECRET}
    content = f"ordered bolt\n\n{json.dumps(value, separators=(',', ':'))}"
    for role in ("user", "viewer", "approver"):
        client = await served.client(role)
        [newest, *_] = await trees(client, chat="c1", count=1)
        [call] = calls(newest)
        assert (await client.get(f"/api/blob/{call['view_ref']}")).json() == {"order": 7}
        if role == "user":
            assert (call["content"], call["value"], call["value_ref"]) == (content, value, None)
            assert json.loads((await client.get(f"/api/blob/{call['message_ref']}")).text)["content"] == content
        else:
            assert not {"content", "value", "message_ref"} & call.keys()
            assert SECRET not in json.dumps(newest)


async def test_the_trees_of_a_chat_are_the_newest_and_as_many_as_asked_for(served: Served) -> None:
    user = await served.client()
    for text in ("One", "Two", "Three"):
        served.provider.say(served.provider.answer(served.provider.text("Yes.")))
        await user.post("/api/chats/c1/messages", json={"text": text, "wait": True})
    every = await trees(user, chat="c1")
    for count in (1, 2):
        assert [tree["seq"] for tree in await trees(user, chat="c1", count=count)] == [
            tree["seq"] for tree in every[:count]
        ]
    assert len(every) >= 3
    assert [tree["seq"] for tree in every] == sorted((tree["seq"] for tree in every), reverse=True)


async def test_a_viewer_sees_the_same_tree_without_private_arguments(served: Served) -> None:
    user, approval = await served.client(), await order(served)
    await user.post(f"/api/approvals/{approval}", json={"decision": "reject", "reason": "too dear"})
    await served.world.settle()
    viewer = await served.client("viewer")
    answer = await viewer.get("/api/trace", params={"chat": "c1"})
    assert SECRET not in answer.text
    seen, whole = answer.json()["trees"], await trees(user, chat="c1")
    assert [[(n["unit"], n["seq"], n["state"]) for n in tree["nodes"]] for tree in seen] == [
        [(n["unit"], n["seq"], n["state"]) for n in tree["nodes"]] for tree in whole
    ]
    [call] = calls(seen[0])
    assert call["arguments_json"] is None
    assert SECRET in json.dumps(whole)


async def test_a_tree_is_found_by_place_and_by_hash(served: Served) -> None:
    await order(served)
    user = await served.client()
    [newest, *_] = await trees(user, chat="c1")
    assert await trees(user, unit=newest["unit"], seq=newest["seq"]) == [newest]
    assert await trees(user, event_hash=newest["event_hash"]) == [newest]
    assert await trees(await served.client("viewer"), event_hash=newest["nodes"][0]["hash"][:12]) != []


async def test_a_trace_of_a_missing_or_ambiguous_event_is_refused(served: Served) -> None:
    user = await served.client()
    refused: tuple[tuple[dict[str, str], int], ...] = (
        ({"chat": "nobody"}, 404),
        ({"unit": "demiurge/Demiurge@1/nobody", "seq": "3"}, 404),
        ({"event_hash": "abcdef123456"}, 404),
        ({"event_hash": "ab"}, 422),
        ({"unit": "demiurge/Demiurge@1/c1"}, 422),
        ({"chat": "c1", "event_hash": "abcdef"}, 422),
        ({}, 422),
    )
    for query, status in refused:
        assert (await user.get("/api/trace", params=query)).status_code == status, query
