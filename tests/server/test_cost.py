"""`GET /api/cost`: what answers cost, for callers that may read records."""

from __future__ import annotations

from tests.server.conftest import Served


async def test_the_cost_of_an_answer_without_a_price_is_null(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Hello.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    found = (await user.get("/api/cost", params={"chat": "c1", "days": 2})).json()
    [chat] = found["by_chat"]
    assert (chat["chat"], chat["answers"], chat["prompt_tokens"]) == ("c1", 1, 10)
    assert found["total"]["unpriced"] == (1 if found["total"]["cost_usd"] is None else 0)
    assert found["since"] < found["until"]


async def test_the_cost_of_the_answers_that_read_a_tools_result_is_apart(served: Served) -> None:
    provider = served.provider
    provider.say(provider.answer(provider.call("core__get_current_time", {})), provider.answer(provider.text("Noon.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "What time is it?", "wait": True})
    found = (await user.get("/api/cost")).json()
    rows = [(row["tool"], row["calls"], row["answers"], row["shared"]) for row in found["by_tool"]]
    assert rows == [("core__get_current_time", 1, 1, 0), (None, 0, 1, 0)]
    assert found["tools"] == {"calls": 1, "unpriced_calls": 0, "reported_tokens": 0, "reported_usd": "0"}


async def test_only_callers_that_may_read_records_are_told(served: Served) -> None:
    assert (await (await served.client("viewer")).get("/api/cost")).status_code == 403
    assert (await (await served.client("chief")).get("/api/cost")).json()["total"]["cost_usd"] == "0"
    assert (await (await served.client()).get("/api/cost", params={"chat": "nobody"})).status_code == 404
