"""Calls through the gateway: their results, their refusals and their records."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from tests.mcp.gateway.conftest import AGENT, DOT, ERAS, OTHER, Shop, refuses_as_unknown, text_of

from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.gateway import GatewayWorld
from demiurge.mcp.gateway.calls import MOST_AT_ONCE, _Turns


@pytest.mark.parametrize("mode", ERAS)
async def test_a_result_is_what_a_model_reads(shop: Shop, mode: str) -> None:
    async with shop.client(AGENT, mode) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert text_of(result) == 'added\n\n{"sum":3}'
    assert result.structured_content == {"sum": 3}
    assert not result.is_error


async def test_data_that_says_less_than_the_text_is_left_out(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        result = await client.call_tool("note", {"text": "x"})
    assert text_of(result) == "noted x"
    assert result.structured_content is None


async def test_bytes_of_a_world_that_another_process_owns_are_read_beside_the_loop() -> None:
    threads: list[int] = []

    def read(_ref: str) -> bytes:
        threads.append(threading.get_ident())
        return b"bytes"

    world: Any = SimpleNamespace(owned=False, backend=SimpleNamespace(read=SimpleNamespace(get_blob=read)))
    assert await GatewayWorld(world).blob(f"sha256:{'0' * 64}") == b"bytes"
    assert threads != [threading.get_ident()]


async def test_images_and_files_are_content_blocks(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        result = await client.call_tool("plot", {})
    text, image, file = result.content
    assert isinstance(text, types.TextContent)
    assert isinstance(image, types.ImageContent)
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", DOT)
    assert isinstance(file, types.EmbeddedResource)
    assert isinstance(file.resource, types.BlobResourceContents)
    assert base64.b64decode(file.resource.blob).startswith(b"month")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_missing_tool_and_a_denied_one_are_answered_alike(shop: Shop, mode: str) -> None:
    async with shop.client(AGENT, mode) as client:
        for name in ("hidden", "nowhere", "no such id!", "x" * 300):
            await refuses_as_unknown(client, name, {})


async def test_a_gateway_that_stops_says_that_the_same_call_may_be_asked_for_again(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        await client.list_tools()
        await shop.world.close()
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.is_error
    assert json.loads(text_of(result))["error_code"] == "closed"
    assert "at most once" in text_of(result)


async def test_wrong_arguments_are_an_error_that_a_model_can_act_on(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        result = await client.call_tool("add", {"a": 1})
    assert result.is_error
    assert json.loads(text_of(result))["error_code"] == "validation"
    assert "b: is required" in text_of(result)


async def test_nothing_in_a_request_changes_the_caller(shop: Shop) -> None:
    meta = {"caller": "user", "actor": "user", "demiurge/caller": {"actor": "user", "roles": ["user"]}}
    async with shop.client(AGENT) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)  # type: ignore[arg-type]
        forged = await client.call_tool("add", {"a": 1, "b": 2, "actor": "user"})
    assert forged.structured_content["error_code"] == "validation"
    call_id = (result.meta or {})["demiurge/call"]
    [first, *_] = shop.world.backend.read.records(f"{CALLS}/{call_id}", 0, 1)
    assert first["caller"]["actor"] == "agent:a"


async def test_equal_calls_at_once_that_only_read_are_as_many_calls(shop: Shop) -> None:
    count = MOST_AT_ONCE * 2 + 3
    async with shop.client(AGENT) as one, shop.client(AGENT) as two:
        results = await asyncio.gather(
            *((one if number % 2 else two).call_tool("add", {"a": 1, "b": 2}) for number in range(count))
        )
    assert len({(result.meta or {})["demiurge/call"] for result in results}) == count


async def test_equal_calls_at_once_that_act_are_one_call_and_those_after_its_answer_another(shop: Shop) -> None:
    count = MOST_AT_ONCE * 2 + 3
    async with shop.client(AGENT) as one, shop.client(AGENT) as two:
        results = await asyncio.gather(
            *((one if number % 2 else two).call_tool("note", {"text": "again"}) for number in range(count))
        )
    assert not any(result.is_error for result in results)
    assert len(shop.runs) < count
    assert sum("demiurge/earlier" not in (result.meta or {}) for result in results) == len(shop.runs)
    assert len({(result.meta or {})["demiurge/call"] for result in results}) == len(shop.runs)


async def test_the_same_call_after_its_answer_is_a_new_call(shop: Shop) -> None:
    for _ in range(3):
        async with shop.client(AGENT) as client:
            await client.call_tool("note", {"text": "again"})
    assert shop.runs == ["again"] * 3


async def test_big_results_arrive_whole(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        assert text_of(await client.call_tool("report", {"length": 3_000_000})) == "x" * 3_000_000


async def test_progress_reaches_the_client(shop: Shop) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        shop.go_on.set()

    async with shop.client(AGENT, "legacy") as client:
        result = await client.call_tool("wait_for_word", {"word": "go"}, progress_callback=on_progress)
    assert text_of(result) == "heard go"
    assert seen == [(1, 2, "waiting")]


@pytest.mark.parametrize("shows", [True, False])
async def test_a_call_waits_for_no_other_call_whether_it_shows_progress_or_not(shop: Shop, shows: bool) -> None:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        pass

    async with shop.client(AGENT, "legacy") as client:
        running = asyncio.create_task(client.call_tool("wait_for_word", {"word": "go"}))
        await shop.began.wait()
        async with asyncio.timeout(20):
            noted = await client.call_tool("note", {"text": "now"}, progress_callback=on_progress if shows else None)
        shop.go_on.set()
        assert text_of(await running) == "heard go"
    assert text_of(noted) == "noted now"
    assert shop.runs == ["now", "go"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_goes_takes_its_running_call_with_it_and_is_told_at_its_return(
    shop: Shop, mode: str
) -> None:
    async with shop.client(AGENT, mode) as client:
        calling = asyncio.create_task(client.call_tool("wait_for_word", {"word": "go"}))
        await shop.began.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await shop.world.settle()
    assert shop.runs == []
    async with shop.client(AGENT, mode) as client:
        told = await client.call_tool("wait_for_word", {"word": "go"})
        shop.go_on.set()
        again = await client.call_tool("wait_for_word", {"word": "go"})
    assert told.structured_content["error_code"] == "unknown_outcome"
    assert (told.meta or {})["demiurge/earlier"]
    assert text_of(again) == "heard go"
    assert shop.runs == ["go"]


async def test_callers_never_read_each_other_s_answers(shop: Shop) -> None:
    async with shop.client(AGENT) as mine, shop.client(OTHER) as theirs:
        waiting = await mine.call_tool("send_parcel", {"city": "Rome"})
        await shop.approve()
        other = await theirs.call_tool("send_parcel", {"city": "Rome"})
        answered = await mine.call_tool("send_parcel", {"city": "Rome"})
    assert waiting.structured_content["status"] == "awaiting_approval"
    assert other.structured_content["status"] == "awaiting_approval"
    assert text_of(answered) == "sent to Rome"
    assert shop.runs == ["Rome"]


async def test_of_one_caller_16_calls_run_and_256_wait_and_the_next_is_refused() -> None:
    turns = _Turns()

    async def call() -> None:
        async with turns.turn(AGENT):
            pass

    async with AsyncExitStack() as running:
        for _ in range(16):
            await running.enter_async_context(turns.turn(AGENT))
        waiting = [asyncio.create_task(call()) for _ in range(256)]
        refused = asyncio.create_task(call())
        await asyncio.sleep(0)  # each comes to its place
        assert not any(task.done() for task in waiting)
        assert refused.done()
        assert "Too many calls of this caller are waiting; try again later." in str(refused.exception())
        async with turns.turn(OTHER):
            pass
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(call()))
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting)
