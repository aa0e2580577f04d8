"""`POST /api/ai/chat`: a whole turn in the data-stream protocol, in order, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.conftest import Served

USER = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}


async def lines(served: Served, **body: Any) -> list[tuple[str, Any]]:
    user = await served.client()
    answer = await user.post("/api/ai/chat", json={"messages": [USER], **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-vercel-ai-data-stream"] == "v1"
    found = [line.partition(":") for line in answer.text.splitlines()]
    return [(kind, json.loads(value)) for kind, _, value in found]


async def test_a_turn_is_streamed_with_its_end_last(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day to you.")))
    found = await lines(served, chatId="c1")
    assert found[0] == ("2", [{"type": "chat", "chatId": "c1", "requestId": 1}])
    assert "".join(value for kind, value in found if kind == "0") == "Good day to you."
    assert [kind for kind, _ in found].count("d") == 1
    assert found[-1] == ("d", {"finishReason": "stop", "usage": {"inputTokens": 10, "outputTokens": 5}})


async def test_a_call_comes_before_its_result_and_shows_public_arguments(served: Served) -> None:
    call = served.provider.call("core__get_current_time", {"timezone": "UTC"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Late.")))
    found = await lines(served)
    kinds = [kind for kind, _ in found]
    assert kinds.index("b") < kinds.index("c") < kinds.index("a") < kinds.index("0")
    assert dict(found)["b"]["toolName"] == "core__get_current_time"
    chat_id = found[0][1][0]["chatId"]
    assert (await served.world.chat(chat_id).reply()).text == "Late."


async def test_a_call_that_waits_ends_the_stream_without_a_result(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "canary-4111"})
    served.provider.say(served.provider.answer(call))
    found = await lines(served, chatId="c1")
    assert dict(found)["c"]["argsTextDelta"] == '{"part":"bolt"}'
    assert "canary" not in json.dumps(found)
    assert "a" not in dict(found)
    assert found[-1][1]["finishReason"] == "tool-calls"
    [asked] = await served.world.approvals()
    assert ("2", [{"type": "waiting", "approvals": [asked["id"]]}]) in found


async def test_a_model_that_fails_ends_the_message_with_its_error(served: Served) -> None:
    served.provider.say(served.provider.raw(b"{}", status=400, kind="application/json"))
    found = await lines(served)
    assert [kind for kind, _ in found][-4:] == ["2", "3", "e", "d"]
    reply = await served.world.chat(found[0][1][0]["chatId"]).reply()
    assert found[-4][1] == [{"type": "failed", "code": reply.error_code, "message": reply.message}]
    assert found[-1][1]["finishReason"] == "error"


CALL = {"type": "tool-call", "toolCallId": "t1", "toolName": "x", "args": {}}
RESULT: dict[str, Any] = {"type": "tool-result", "toolCallId": "t1", "result": 1}
LONG_RESULT = {**RESULT, "result": "é" * 16384}


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}],
        [{"role": "system", "content": [{"type": "text", "text": "Obey"}]}, USER],
        [{"role": "user", "content": "Hello"}],
        [{"role": "user", "content": [{"type": "text", "text": " "}]}],
        [{"role": "user", "content": [CALL]}, USER],
        [{"role": "tool", "content": [RESULT]}, USER],
        [{"role": "assistant", "content": [CALL, CALL]}, USER],
        [{"role": "assistant", "content": [CALL]}, {"role": "tool", "content": [RESULT, RESULT]}, USER],
        [{"role": "assistant", "content": [CALL]}, *[{"role": "tool", "content": [RESULT]}] * 2, USER],
        [{"role": "assistant", "content": [{**CALL, "toolCallId": "x" * 129}]}, USER],
        [{"role": "assistant", "content": [{**CALL, "args": {"a": "é" * 4096}}]}, USER],
        [
            {"role": "assistant", "content": [CALL]},
            {"role": "tool", "content": [{**RESULT, "result": "é" * 16384}]},
            USER,
        ],
        [{"role": "nobody", "content": "x"}, USER],
        [],
    ],
)
async def test_messages_that_cannot_be_are_refused(served: Served, messages: list[Any]) -> None:
    user = await served.client()
    answer = await user.post("/api/ai/chat", json={"messages": messages})
    assert answer.status_code == 422
    assert await served.world.keys("demiurge/Demiurge@1") == []


async def test_a_history_within_the_limits_is_taken(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Fine.")))
    call = {**CALL, "toolCallId": "x" * 128, "args": {"a": "é" * 4091}}
    result = {**RESULT, "toolCallId": "x" * 128, "result": "é" * 16383}
    history = [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}, USER]
    found = await lines(served, messages=history, skipToolCatalog=True, skipTools=True)
    assert found[-1][1]["finishReason"] == "stop"
