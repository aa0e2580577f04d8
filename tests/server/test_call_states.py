"""How calls and turns ended is said in one vocabulary: by traces, rows of the journal, chats and their export."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.conftest import Served

from demiurge.world.history.call_state import problem_text, state_of_code, state_text

ORDER = {"part": "bolt", "card": "4111"}
QUESTION = {"question": "Which?", "choices": ["red", "blue"]}

ENDS: list[tuple[str, dict[str, Any], str, dict[str, Any], tuple[str, str | None]]] = [
    (
        "order_part",
        ORDER,
        "",
        {"decision": "approve", "arguments_json": json.dumps({**ORDER, "part": "nut"})},
        ("changed", "user:user"),
    ),
    ("order_part", ORDER, "", {"decision": "reject", "reason": "too dear"}, ("rejected", "user:user")),
    ("order_part", ORDER, "", {}, ("stopped", None)),
    ("order_part", ORDER, "", {"decision": "approve"}, ("done", None)),
    ("core__ask_user", QUESTION, "/answer", {"answer": "red"}, ("answered", "user:user")),
]


@pytest.mark.parametrize(("tool", "arguments", "path", "given", "state"), ENDS, ids=[each[4][0] for each in ENDS])
async def test_a_call_ends_in_the_same_state_everywhere(
    served: Served,
    tool: str,
    arguments: dict[str, Any],
    path: str,
    given: dict[str, Any],
    state: tuple[str, str | None],
) -> None:
    user, provider = await served.client(), served.provider
    provider.title = "A title"
    provider.say(provider.answer(provider.call(tool, arguments)), provider.answer(provider.text("Well.")))
    await user.post("/api/chats/c1/messages", json={"text": "Go", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}{path}" if given else "/api/chats/c1/cancel", json=given or None)
    await served.world.settle()

    query: dict[str, str | bool] = {"calls": True, "unit": "demiurge/Demiurge@1/c1", "text": tool}
    rows = (await user.get("/api/journal/search", params=query)).json()["rows"]
    assert (rows[-1]["state"], rows[-1]["by"]) == state
    assert rows[-1]["ended_ns"] is not None
    trees = (await user.get("/api/trace", params={"chat": "c1"})).json()["trees"]
    nodes = [node for tree in trees for node in tree["nodes"]]
    said = {(node["state"], node["by"]) for node in nodes if node["kind"] in ("approval", "receipt", "decision")}
    assert said - {(None, None), ("rejected", None)} == ({state} if state[0] != "done" else set())
    answers = [
        message["tool"]
        for message in (await user.get("/api/chats/c1/messages")).json()["messages"]
        if "tool" in message
    ]
    expected = {"changed": "ok", "answered": "ok", "done": "ok"}.get(state[0], state[0])
    assert [answer["state"] for answer in answers] == [expected]


async def test_each_turn_that_failed_is_told_with_the_messages(served: Served) -> None:
    user, provider = await served.client(), served.provider
    provider.say(provider.answer(provider.text("")), provider.answer(provider.text("Yes.")))
    for text in ("One", "Two"):
        await user.post("/api/chats/c1/messages", json={"text": text, "wait": True})
    found = (await user.get("/api/chats/c1/messages")).json()
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert found["failures"] == [{"request_id": 1, "code": turn["error_code"], "message": turn["message"]}]
    assert (await user.get("/api/chats/c1/messages", params={"since": 2})).json()["failures"] == []


def test_states_are_words() -> None:
    assert state_text("changed", "user:ada") == "changed by user:ada"
    assert state_text("unknown_outcome") == "unknown outcome"
    assert state_text("awaiting_approval") == "waits for a person"
    assert state_of_code("approval_expired") == "expired"
    assert problem_text("approval_rejected", "too dear") == "rejected: too dear"
    assert problem_text("validation", "No part.") == "failed (validation): No part."
    assert problem_text("cancelled", "The call was cancelled.") == "stopped"
