"""A turn as it stands, and what a person sees of a call that waits."""

from __future__ import annotations

from tests.server.conftest import Served


async def test_a_turn_says_its_calls_tokens_and_that_its_cost_is_unknown(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["prompt_tokens"], turn["completion_tokens"]) == ("done", 10, 5)
    assert turn["cost_usd"] is None
    assert (await user.get("/api/chats/c1/turns/2")).status_code == 404


async def test_a_waiting_call_says_its_chat_effect_rule_and_times(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call))
    user = await served.client()
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    found = (await user.get("/api/approvals")).json()
    [asked] = found["approvals"]
    assert (asked["chat_id"], asked["title"], asked["effect"]) == ("c1", "Shop", "state_change")
    assert asked["rules"], "the lines of the policy that ask for a decision"
    assert asked["asked_ns"] < found["now_ns"] < asked["expires_ns"]
    assert (await user.get("/api/chats/c1/turns/1")).json()["status"] == "awaiting_approval"


async def test_a_viewer_is_told_that_words_take_another_role(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user, viewer = await served.client(), await served.client("viewer")
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    for path in ("/api/chats/c1/messages", "/api/chats/c1/turns/1"):
        answer = await viewer.get(path)
        assert (answer.status_code, answer.json()["code"]) == (403, "role_missing")
