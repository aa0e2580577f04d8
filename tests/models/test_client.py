from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from demiurge.errors import InvalidValue, UsageError
from demiurge.models.client import ModelClient
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.tools.spec import ToolSpec
from demiurge.values.clock import FixedClock, SeededEntropy
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion, Delivery, Message, NamedTool, Text, TextFormat

WIRE_GOLDEN = Path(__file__).parent.parent / "wire" / "golden"
KEY = "sk-canary-0123456789abcdef"
SPEC = ToolSpec(
    "math__add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
)


class Sleeps:
    """Stands in for the wait between tries; the clock goes on by it."""

    def __init__(self, clock: FixedClock) -> None:
        self.waits: list[float] = []
        self._clock = clock

    async def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.advance(int(seconds * 1e9))


def a_request(base_url: str, provider: str = "openai-chat", **changes: Any) -> GenerateRequest:
    fields: dict[str, Any] = {
        "provider": provider,
        "model": "m-1",
        "items": (Message("user", (Text("hi"),)),),
        "api_key": KEY,
        "base_url": base_url,
        **changes,
    }
    return GenerateRequest(**fields)


async def send(
    request: GenerateRequest, *, on_event: Callable[[AiEvent], None] | None = None, **options: Any
) -> tuple[Completion, Sleeps]:
    clock = FixedClock(0)
    sleeps = Sleeps(clock)
    options = {"clock": clock, "entropy": SeededEntropy(1), "sleep": sleeps, **options}
    async with ModelClient(**options) as client:
        return await client.generate(request, on_event=on_event), sleeps


async def send_and_fail(request: GenerateRequest, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await send(request, **options)
    error = caught.value
    for text in (str(error), repr(error), error.detail, repr(error.__cause__)):
        assert KEY not in text
    return error


async def test_the_client_streams_the_text_and_returns_the_whole_answer(server: Any, chat_text: Any) -> None:
    server.script = [chat_text("Hel", "lo")]
    events: list[AiEvent] = []
    completion, sleeps = await send(a_request(server.url), on_event=events.append)
    assert completion.text == "Hello"
    assert completion.finish_reason == "stop"
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "Hello"
    assert sleeps.waits == []


async def test_the_request_carries_model_messages_tools_limit_and_key(server: Any, chat_text: Any) -> None:
    server.script = [chat_text("ok")]
    await send(a_request(server.url, specs=(SPEC,), tool_choice="auto", temperature="0.7", idempotency_key="once"))
    (seen,) = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["idempotency-key"] == "once"
    assert seen.body["model"] == "m-1"
    assert seen.body["messages"][0]["role"] == "user"
    assert seen.body["tools"][0]["function"]["name"] == "math__add"
    assert seen.body["tool_choice"] == "auto"
    assert seen.body["temperature"] == 0.7
    assert seen.body["max_tokens"] == 4096
    assert seen.body["stream"] is True


async def test_half_a_surrogate_pair_in_somebodys_words_is_sent_as_a_replacement(server: Any, chat_text: Any) -> None:
    server.script = [chat_text("ok")]
    await send(a_request(server.url, items=(Message("user", (Text("\ud83d \ud83d\ude00 ü"),)),)))
    assert server.seen[0].body["messages"][0]["content"] == "\ufffd \U0001f600 ü"


async def test_the_responses_api_has_its_own_path_and_shape(server: Any, answer: Any, sse: Any) -> None:
    response = {
        "id": "r",
        "status": "completed",
        "model": "m-1",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
        "usage": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6},
    }
    body = b"event: response.completed\n" + sse({"type": "response.completed", "response": response})
    server.script = [answer(headers={"Content-Type": "text/event-stream"}, chunks=(body,))]
    completion, _ = await send(a_request(server.url, "openai", max_tokens=50))
    assert completion.text == "Hi"
    assert server.seen[0].path == "/v1/responses"
    assert server.seen[0].body["max_output_tokens"] == 50
    assert server.seen[0].body["input"][0]["role"] == "user"


async def test_messages_go_to_anthropic_with_its_own_key_header_and_version(server: Any, answer: Any) -> None:
    """The answer is recorded traffic: text, a search among tools that the provider ran, and a call."""
    recorded = json.loads((WIRE_GOLDEN / "messages_stream_call.json").read_text("utf-8"))
    body, expect = recorded["body"].encode(), recorded["expect"]
    chunks = tuple(body[at : at + 100] for at in range(0, len(body), 100))
    server.script = [answer(headers={"Content-Type": "text/event-stream"}, chunks=chunks)]
    events: list[AiEvent] = []
    base_url = server.url.removesuffix("/v1")
    items = (Message("system", (Text("Be brief."),)), Message("user", (Text("hi"),)))
    request = a_request(base_url, "anthropic", items=items, specs=(SPEC,), tool_choice="required", max_tokens=50)
    completion, _ = await send(request, on_event=events.append)
    assert [[call.id, call.name, call.arguments_json, call.invalid] for call in completion.tool_calls] == expect[
        "calls"
    ]
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == completion.text == expect["text"]
    assert completion.finish_reason == "tool_calls"
    (seen,) = server.seen
    assert seen.path == "/v1/messages"
    assert seen.headers["x-api-key"] == KEY
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert seen.body == {
        "model": "m-1",
        "tools": [{"name": "math__add", "description": "Add.", "input_schema": SPEC.input_schema}],
        "tool_choice": {"type": "any"},
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "max_tokens": 50,
    }


async def test_an_error_of_anthropic_has_its_code_and_not_the_key(server: Any, answer: Any) -> None:
    said = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}
    server.script = [answer(status=401, chunks=(json.dumps(said).encode(),))]
    error = await send_and_fail(a_request(server.url.removesuffix("/v1"), "anthropic"))
    assert error.code == "authentication"


async def test_a_host_that_ignores_streaming_is_understood(server: Any, answer: Any) -> None:
    body = b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}'
    server.script = [answer(headers={"Content-Type": "application/json"}, chunks=(body,))]
    completion, _ = await send(a_request(server.url))
    assert completion.text == "Hi"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_refusal_before_any_work_is_tried_again(server: Any, answer: Any, chat_text: Any, status: int) -> None:
    server.script = [answer(status=status, chunks=(b'{"error":{"message":"busy"}}',)), chat_text("ok")]
    completion, sleeps = await send(a_request(server.url, idempotency_key="once"))
    assert completion.text == "ok"
    assert len(server.seen) == 2
    assert {seen.headers["idempotency-key"] for seen in server.seen} == {"once"}
    [wait] = sleeps.waits
    assert 0.25 <= wait <= 0.55


async def test_retry_after_is_honoured(server: Any, answer: Any, chat_text: Any) -> None:
    server.script = [answer(status=429, headers={"Retry-After": "7"}), chat_text("ok")]
    _, sleeps = await send(a_request(server.url))
    [wait] = sleeps.waits
    assert 7.0 <= wait <= 7.7


async def test_the_providers_own_limits_say_when_to_come_back(server: Any, answer: Any, chat_text: Any) -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "4s"}
    server.script = [answer(status=429, headers=headers), chat_text("ok")]
    _, sleeps = await send(a_request(server.url))
    [wait] = sleeps.waits
    assert 4.0 <= wait <= 4.4


async def test_after_a_429_others_with_the_same_key_wait_too(server: Any, answer: Any, chat_text: Any) -> None:
    """The first is refused and waits; another with its key asks nothing meanwhile, one with another key is served."""
    server.script = [answer(status=429, headers={"Retry-After": "5"}), chat_text("ok")]
    clock, waits, refused, later = FixedClock(0), list[float](), asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        refused.set()
        await later.wait()

    async with ModelClient(clock=clock, entropy=SeededEntropy(1), sleep=sleep) as client:
        first = asyncio.create_task(client.generate(a_request(server.url)))
        await refused.wait()
        second = asyncio.create_task(client.generate(a_request(server.url)))
        await client.generate(a_request(server.url, api_key="sk-another-0123456789"))
        assert [seen.headers["authorization"] for seen in server.seen] == [
            f"Bearer {KEY}",
            "Bearer sk-another-0123456789",
        ]
        assert len(waits) == 2
        clock.advance(6 * 10**9)
        later.set()
        assert [(await task).text for task in (first, second)] == ["ok", "ok"]
    assert len(server.seen) == 4
    assert all(5.0 <= wait <= 5.5 for wait in waits)


async def test_no_wait_is_longer_than_the_request_has_time(server: Any, answer: Any, chat_text: Any) -> None:
    server.script = [answer(status=429, headers={"Retry-After": "30"}), chat_text("ok")]
    clock = FixedClock(0)
    sleeps = Sleeps(clock)
    async with ModelClient(clock=clock, entropy=SeededEntropy(1), sleep=sleeps) as client:
        for _ in range(2):  # refused, then not even asked: the gate is closed for longer than there is time
            with pytest.raises(ProviderError) as caught:
                await client.generate(a_request(server.url, timeout_s=20))
            assert (caught.value.code, caught.value.status, sleeps.waits) == ("rate_limit", 429, [])
        assert len(server.seen) == 1
        assert (await client.generate(a_request(server.url, timeout_s=40))).text == "ok"
    assert len(sleeps.waits) == 1


async def test_other_refusals_close_no_gate(server: Any, answer: Any, chat_text: Any) -> None:
    server.script = [answer(status=503, headers={"Retry-After": "5"}), chat_text("ok")]
    clock, asleep, later = FixedClock(0), asyncio.Event(), asyncio.Event()

    async def sleep(_seconds: float) -> None:
        asleep.set()
        await later.wait()

    async with ModelClient(clock=clock, entropy=SeededEntropy(1), sleep=sleep) as client:
        first = asyncio.create_task(client.generate(a_request(server.url)))
        await asleep.wait()
        assert (await client.generate(a_request(server.url))).text == "ok"
        later.set()
        assert (await first).text == "ok"


async def test_a_long_retry_after_is_an_error_at_once(server: Any, answer: Any) -> None:
    server.script = [answer(status=429, headers={"Retry-After": "3600"})]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, len(server.seen)) == ("rate_limit", 1)


async def test_tries_are_bounded(server: Any, answer: Any) -> None:
    server.script = [answer(status=503)]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, error.status, len(server.seen)) == ("provider_unavailable", 503, 4)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, b'{"error":{"message":"Incorrect API key provided: %KEY%"}}', "authentication"),
        (400, b'{"error":{"message":"bad thing about %KEY%"}}', "invalid_request"),
        (404, b'{"error":{"message":"no such model","code":"model_not_found"}}', "not_found"),
        (
            429,
            b'{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}',
            "insufficient_quota",
        ),
        (400, b'{"error":{"message":"too long","code":"context_length_exceeded"}}', "context_overflow"),
        (500, b'{"error":{"message":"request exceeds the context size","code":"context_length_exceeded"}}', None),
        (418, b"%KEY% is no JSON", "invalid_request"),
        (504, b"<html>gateway</html>", "timeout"),
        (302, b"", "bad_response"),
    ],
)
async def test_other_refusals_are_errors_at_once_and_never_quote_the_key(
    server: Any, answer: Any, status: int, body: bytes, code: str | None
) -> None:
    server.script = [answer(status=status, chunks=(body.replace(b"%KEY%", KEY.encode()),))]
    error = await send_and_fail(a_request(server.url))
    assert error.code == (code or "context_overflow")
    assert len(server.seen) == 1


async def test_a_key_cut_off_by_the_limit_of_length_is_not_shown_in_part(server: Any, answer: Any) -> None:
    server.script = [answer(status=400, chunks=(b"x" * 480 + KEY.encode(),))]
    error = await send_and_fail(a_request(server.url))
    assert KEY[:8] not in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(server: Any, answer: Any, status: int) -> None:
    server.script = [answer(status=status, headers={"Location": server.url + "/elsewhere"})]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, len(server.seen)) == ("bad_response", 1)


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (b"<html>not what you think</html>",),
        (b"data: {garbage\n\n",),
        (b"\x00\xff\xfe",),
        (b"{}",),
        (b"[]",),
        (b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',),
    ],
)
async def test_a_malformed_answer_is_an_error_and_not_requested_again(
    server: Any, answer: Any, chunks: tuple[bytes, ...]
) -> None:
    server.script = [answer(chunks=chunks)]
    error = await send_and_fail(a_request(server.url))
    assert error.code in ("bad_response", "truncated", "provider_unavailable")
    assert len(server.seen) == 1


async def test_a_stream_that_breaks_off_is_not_asked_for_again(server: Any, answer: Any, sse: Any) -> None:
    part = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    server.script = [answer(headers={"Content-Type": "text/event-stream"}, chunks=(part,), length=9999)]
    events: list[AiEvent] = []
    error = await send_and_fail(a_request(server.url), on_event=events.append)
    assert (error.code, error.status, len(server.seen)) == ("truncated", 200, 1)
    assert events == [TextDelta("Hel")]


async def test_an_error_inside_the_stream_is_not_asked_for_again(server: Any, answer: Any, sse: Any) -> None:
    body = sse({"error": {"message": f"overloaded, key {KEY}", "type": "server_error"}})
    server.script = [answer(headers={"Content-Type": "text/event-stream"}, chunks=(body,))]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, len(server.seen)) == ("provider_unavailable", 1)


async def test_a_connection_closed_without_an_answer_is_not_tried_again(server: Any, answer: Any) -> None:
    server.script = [answer(silent=True)]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, error.retryable, len(server.seen)) == ("provider_unavailable", False, 1)


@pytest.mark.parametrize("silent", [True, False])
async def test_silence_ends_in_a_timeout(server: Any, answer: Any, silent: bool) -> None:
    server.script = [answer(silent=silent, hang=True)]
    error = await send_and_fail(a_request(server.url), read_idle_s=0.05)
    assert (error.code, len(server.seen)) == ("timeout", 1)


async def test_the_whole_request_has_a_limit(server: Any, answer: Any) -> None:
    server.script = [answer(hang=True)]
    error = await send_and_fail(a_request(server.url, timeout_s=0.05))
    assert error.code == "timeout"


async def test_a_stream_that_drips_for_ever_has_the_same_limit(server: Any, answer: Any, sse: Any) -> None:
    drop = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "."}}]})
    for status, drip in ((200, drop), (200, b": still here\n\n"), (500, b"x")):
        server.script = [answer(status=status, drip=drip)]
        error = await send_and_fail(a_request(server.url, timeout_s=0.1))
        assert error.code == "timeout"


async def test_a_connection_that_is_not_made_in_time_is_tried_again_and_then_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # it takes connections and never greets: TLS is not made
        url = f"https://127.0.0.1:{deaf.getsockname()[1]}/v1"
        clock = FixedClock(0)
        sleeps = Sleeps(clock)
        error = await send_and_fail(a_request(url), connect_s=0.05, clock=clock, sleep=sleeps)
    assert error.code == "provider_unavailable"
    assert len(sleeps.waits) == 3


async def test_cancelling_closes_the_connection_at_once(server: Any, answer: Any, sse: Any) -> None:
    part = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    server.script = [answer(headers={"Content-Type": "text/event-stream"}, chunks=(part,), hang=True)]
    shown = asyncio.Event()
    async with ModelClient() as client:
        task = asyncio.create_task(client.generate(a_request(server.url), on_event=lambda _event: shown.set()))
        await shown.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.left.wait, 10)  # while the client is still open


async def test_cancelling_a_wait_ends_it_and_asks_nothing_more(server: Any, answer: Any) -> None:
    server.script = [answer(status=503)]
    asleep = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    async with ModelClient(sleep=sleep) as client:
        task = asyncio.create_task(client.generate(a_request(server.url)))
        await asleep.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.seen) == 1


async def test_a_connection_is_used_again(monkeypatch: pytest.MonkeyPatch, chat_text: Any) -> None:
    """By an address that is not taken for this machine's own, where it would not be."""
    monkeypatch.setenv("NO_PROXY", "*")
    body, peers = b"".join(chat_text("ok").chunks), list[Any]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            peers.append(self.client_address)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    kept = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.daemon_threads = True
    thread = threading.Thread(target=kept.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        async with ModelClient() as client:
            for _ in range(3):
                await client.generate(a_request(f"http://0.0.0.0:{kept.server_port}/v1"))
    finally:
        kept.shutdown()
        kept.server_close()
        thread.join()
    assert len(peers) == 3
    assert len(set(peers)) == 1


async def test_ids_and_costs_of_a_proxy_come_with_the_answer(server: Any, answer: Any, chat_text: Any) -> None:
    headers = {"x-litellm-call-id": "call-7", "x-litellm-response-cost": "0.00042", "x-request-id": f"r-{KEY}"}
    server.script = [answer(headers=headers, chunks=chat_text("ok").chunks), chat_text("ok")]
    completion, _ = await send(a_request(server.url))
    assert completion.delivery == Delivery("r-[key]", "call-7", 420)
    completion, _ = await send(a_request(server.url))
    assert completion.delivery is None


@pytest.mark.parametrize("encoding", ["gzip", "GZIP, gzip", "identity, deflate", "br", "made-up"])
async def test_a_compressed_answer_is_refused_unread(server: Any, answer: Any, encoding: str) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    server.script = [answer(headers={"Content-Encoding": encoding}, chunks=(bomb,))]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, error.status, len(server.seen)) == ("bad_response", 200, 1)
    assert server.seen[0].headers["accept-encoding"] == "identity"


async def test_a_compressed_refusal_is_known_by_its_status(server: Any, answer: Any) -> None:
    server.script = [answer(status=401, headers={"Content-Encoding": "gzip"}, chunks=(gzip.compress(b"x" * 10_000),))]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, error.detail) == ("authentication", "")


async def test_an_answer_that_says_it_is_not_compressed_is_read(server: Any, answer: Any, chat_text: Any) -> None:
    server.script = [answer(headers={"Content-Encoding": "Identity"}, chunks=chat_text("ok").chunks)]
    completion, _ = await send(a_request(server.url))
    assert completion.text == "ok"


async def test_an_answer_without_end_is_refused(server: Any, answer: Any) -> None:
    server.script = [answer(chunks=(b":" + b"x" * 2**20 + b"\n",) * 65)]
    error = await send_and_fail(a_request(server.url))
    assert (error.code, len(server.seen)) == ("bad_response", 1)


async def test_a_refused_connection_is_tried_again_and_then_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    clock = FixedClock(0)
    sleeps = Sleeps(clock)
    error = await send_and_fail(a_request(f"http://127.0.0.1:{port}/v1"), clock=clock, sleep=sleeps)
    assert error.code == "provider_unavailable"
    assert "127.0.0.1" in error.message
    assert len(sleeps.waits) == 3


async def test_a_large_answer_arrives_whole(server: Any, chat_text: Any) -> None:
    server.script = [chat_text(*["lorem ipsum " * 1000] * 100)]
    completion, _ = await send(a_request(server.url))
    assert len(completion.text) == 1_200_000


@pytest.mark.parametrize("key", ["sk-with\nnewline", "sk-ключ", "sk with space"])
async def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(server: Any, key: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await send(a_request(server.url, api_key=key))
    assert caught.value.code == "authentication"
    assert key not in str(caught.value)
    assert server.seen == []


async def test_a_request_does_not_show_its_key() -> None:
    assert KEY not in repr(a_request("http://x"))


async def test_unknown_providers_and_missing_addresses_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="openai-chat"):
        await send(a_request("http://127.0.0.1:1", "nobody"))
    with pytest.raises(UsageError, match="base URL"):
        await send(a_request("", "local"))
    with pytest.raises(InvalidValue, match="message"):
        await send(a_request("http://127.0.0.1:1", items=()))


async def test_a_local_answer_that_is_a_call_as_text_becomes_a_call(server: Any, chat_text: Any) -> None:
    server.script = [chat_text("```json\n", '{"name": "math__add", ', '"arguments": {"a": 1}}', "\n```")]
    events: list[AiEvent] = []
    completion, _ = await send(a_request(server.url, "local", specs=(SPEC,)), on_event=events.append)
    (call,) = completion.tool_calls
    assert (call.name, call.arguments_json, call.invalid) == ("math__add", '{"a": 1}', False)
    assert (completion.text, completion.finish_reason, completion.items) == ("", "tool_calls", (call,))
    assert events == []


async def test_a_paid_providers_text_is_never_read_as_a_call(server: Any, chat_text: Any) -> None:
    said = '{"name": "math__add", "arguments": {"a": 1}}'
    server.script = [chat_text(said)]
    completion, _ = await send(a_request(server.url, specs=(SPEC,)))
    assert (completion.text, completion.tool_calls) == (said, ())


async def test_a_local_required_call_is_bound_by_a_schema(server: Any, chat_text: Any) -> None:
    server.script = [chat_text('{"name": "math__add", "arguments": {"a": 2}}')]
    request = a_request(server.url, "local", specs=(SPEC,), tool_choice=NamedTool("math__add"))
    completion, _ = await send(request)
    assert completion.tool_calls[0].arguments_json == '{"a": 2}'
    schema = server.seen[0].body["response_format"]["json_schema"]["schema"]
    assert schema["anyOf"][0]["properties"]["name"] == {"const": "math__add"}
    assert "tool_choice" not in server.seen[0].body


async def test_a_local_required_call_that_is_cut_is_kept_and_marked_invalid(server: Any, chat_text: Any) -> None:
    server.script = [chat_text('{"name": "math__add", "arguments": {"a', finish="length")]
    completion, _ = await send(a_request(server.url, "local", specs=(SPEC,), tool_choice="required"))
    (call,) = completion.tool_calls
    assert (call.name, call.invalid, completion.finish_reason) == ("math__add", True, "length")
    server.script = [chat_text('{"nam', finish="length")]
    error = await send_and_fail(a_request(server.url, "local", specs=(SPEC,), tool_choice="required"))
    assert error.code == "truncated"


async def test_no_tools_are_sent_to_the_local_model_for_the_choice_none(server: Any, chat_text: Any) -> None:
    said = '{"name": "math__add", "arguments": {}}'
    server.script = [chat_text(said)]
    completion, _ = await send(a_request(server.url, "local", specs=(SPEC,), tool_choice="none"))
    assert (completion.text, completion.tool_calls) == (said, ())
    assert "tools" not in server.seen[0].body


async def test_a_response_format_is_sent(server: Any, chat_text: Any) -> None:
    server.script = [chat_text("{}")]
    await send(a_request(server.url, response_format=TextFormat("x", '{"type": "object"}')))
    assert server.seen[0].body["response_format"]["json_schema"]["schema"] == {"type": "object"}


READ = [
    {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_progress": {"total": 900, "processed": read}}
    for read in (0, 300, 600, 900)
]
SAID = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
async def test_a_local_model_has_time_as_long_as_it_reads_and_says_how_far_it_is(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four parts, 400 s apart, where a request may take 600 s: a provider's is over, a local one's counts anew."""
    loop, later = asyncio.get_running_loop(), 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + later)

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal later
            for part in (*READ, SAID):
                later += 400.0
                yield f"data: {json.dumps(part)}\n\n".encode()
                await asyncio.sleep(0)  # the limit's timer has its turn
            yield b"data: [DONE]\n\n"

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content).get("return_progress", False))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Slow())

    asked: list[bool] = []
    seen: list[AiEvent] = []
    request = a_request("http://127.0.0.1:9/v1", provider)
    sending = send(request, on_event=seen.append, transport=httpx.MockTransport(answer))
    if provider == "local":
        assert (await sending)[0].text == "Yes."
        assert seen == [
            Status("thinking", "reading the prompt: 33 %"),
            Status("thinking", "reading the prompt: 66 %"),
            TextDelta("Yes."),
        ]
    else:
        with pytest.raises(ProviderError) as failed:
            await sending
        assert failed.value.code == "timeout"
    assert asked == [provider == "local"]
