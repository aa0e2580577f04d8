"""Clients of well-behaved servers, in this process and over HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.mcp.conftest import until
from tests.mcp.pairs import ACTS, Pair

from demiurge.mcp import Limits, ServerSettings, ToolDefinition
from demiurge.mcp.clients import _in_loop
from demiurge.tools import Audio, File, Image, ToolContext, ToolFailure, ToolResult

TOOLS = ["add", "send", "wait", "fail", "media", "word", "words", "nothing", "book", "sign_in", "grow"]


async def test_a_server_lists_its_tools(pair: Pair) -> None:
    listing = await pair.clients.list_tools(pair.settings)
    assert [definition.name for definition in listing.definitions] == TOOLS
    assert listing.protocol == ("2026-07-28" if pair.era == "auto" else "2025-11-25")
    assert (listing.server_name, listing.server_version, listing.instructions) == ("sample", "1.2", "Use the tools.")
    add = listing.find("add")
    assert add is not None
    assert add.description == "Adds two numbers."
    assert add.annotations == {"readOnlyHint": True, "openWorldHint": False}
    assert add.output_schema is not None
    assert listing.problems == ()
    assert (await pair.clients.list_tools(pair.settings)) == listing
    assert pair.told == [listing]


async def test_results_of_all_kinds(pair: Pair) -> None:
    added = await pair.call("add", a=1, b=2)
    assert added.value == {"total": 3}
    assert added.exclude_value_from_context
    assert added.message.count('"total": 3') + added.message.count('"total":3') == 1
    media = await pair.call("media")
    assert [type(part) for part in media.parts] == [Image, Audio, File, File]
    assert [part.mime for part in media.parts] == ["image/png", "audio/wav", "application/octet-stream", "text/plain"]
    assert [part.name for part in media.parts[2:]] == ["file.bin", "file"]
    assert media.parts[3].data == b"a note"
    assert "Look.\n\nResource note://one:\na note\n\n" in media.message
    assert (
        "data.bin (application/octet-stream) is attached.\n\nLink to the resource note://two: two another note\n<"
        in (media.message)
    )
    assert (await pair.call("nothing")).message == "The tool returned nothing."
    failed = await pair.call("fail")
    assert not failed.success
    assert "the disk is full" in failed.message
    assert pair.server.calls == ["add"]


async def test_a_model_reads_a_text_once_that_a_server_sends_as_text_and_as_structured_content(pair: Pair) -> None:
    word, words = await pair.call("word"), await pair.call("words")
    assert (word.value, words.value) == ({"result": "a word"}, {"result": ["one word", "{another}"]})
    assert word.message.splitlines()[1:-1] == ["a word"]
    assert words.message.splitlines()[1:-1] == ["one word", "", "{another}"]


async def test_progress_is_reported(pair: Pair) -> None:
    seen: list[tuple[float, float | None, str]] = []
    context = ToolContext(_report=lambda done, total, message: seen.append((done, total, message)))
    assert "sent to ann" in (await pair.call("send", context, to="ann")).message
    if not pair.settings.url or pair.era == "legacy":  # an answer in JSON has no room for reports
        await until(lambda: bool(seen))
    assert seen in ([(1.0, 2.0, "")], [])


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(pair: Pair) -> None:
    pinned = await pair.pinned("wait")
    settings = ServerSettings.of_json({**pair.settings.to_json(), "limits": {"timeout_s": 2}})
    with pytest.raises(ToolFailure) as caught:
        await pair.clients.call(settings, pinned, {}, ToolContext(), ACTS)
    assert caught.value.error_code == "unknown_outcome"
    if not pair.answers_in_json:  # such a server does not notice that the client is gone
        await until(pair.server.cancelled.is_set)


async def test_a_cancelled_call_is_cancelled_at_the_server(pair: Pair) -> None:
    pinned = await pair.pinned("wait")
    call = asyncio.create_task(pair.clients.call(pair.settings, pinned, {}, ToolContext(), ACTS))
    await until(pair.server.waiting.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    if not pair.answers_in_json:  # such a server does not notice that the client is gone
        await until(pair.server.cancelled.is_set)
    assert "sent to bob" in (await pair.call("send", to="bob")).message


async def test_a_call_whose_server_is_ended_meanwhile_has_an_unknown_outcome(pair: Pair) -> None:
    pinned = await pair.pinned("wait")
    settings = ServerSettings.of_json({**pair.settings.to_json(), "limits": {"timeout_s": 3}})
    call = asyncio.create_task(pair.clients.call(settings, pinned, {}, ToolContext(), ACTS))
    await until(pair.server.waiting.is_set)
    await pair.clients.stop("sample")
    with pytest.raises(ToolFailure) as caught:  # and no CancelledError, which would end whoever waits
        await call
    assert caught.value.error_code == "unknown_outcome"


async def test_an_announced_change_is_listed(pair: Pair) -> None:
    await pair.call("grow")
    if pair.settings.url and pair.era == "legacy":
        await pair.clients.list_tools(pair.settings)  # the SDK's server tells no client of this kind
    await until(lambda: len(pair.told) == 2)
    assert [definition.name for definition in pair.told[1].definitions] == [*TOOLS, "extra"]


async def test_an_unknown_tool_and_arguments_that_the_server_refuses_are_failures(pair: Pair) -> None:
    refused = await pair.call("add", a="one")
    assert not refused.success
    unlisted = ToolDefinition("gone", input_schema={"type": "object"})
    with pytest.raises(ToolFailure, match="no longer lists this tool"):
        await pair.clients.call(pair.settings, unlisted, {}, ToolContext(), ACTS)


async def test_calls_run_in_parallel_up_to_the_limit(pair: Pair) -> None:
    pair.settings = ServerSettings.of_json({**pair.settings.to_json(), "limits": {"max_parallel": 2}})
    pinned, add = await pair.pinned("wait"), await pair.pinned("add")
    calls = [asyncio.create_task(pair.clients.call(pair.settings, pinned, {}, ToolContext(), ACTS)) for _ in range(2)]
    await until(pair.server.waiting.is_set)
    third = asyncio.create_task(pair.clients.call(pair.settings, add, {"a": 1, "b": 1}, ToolContext(), ACTS))
    done, _ = await asyncio.wait([third], timeout=0.2)
    assert not done
    for call in calls:
        call.cancel()
    assert isinstance(await third, ToolResult)
    await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_of_a_minute_are_limited(pair: Pair) -> None:
    settings = ServerSettings.of_json({**pair.settings.to_json(), "limits": Limits(per_minute=2).to_json()})
    pinned = await pair.pinned("add")
    for _ in range(2):
        await pair.clients.call(settings, pinned, {"a": 1, "b": 1}, ToolContext(), ACTS)
    with pytest.raises(ToolFailure, match="may be called 2 times a minute; the next call is possible in"):
        await pair.clients.call(settings, pinned, {"a": 1, "b": 1}, ToolContext(), ACTS)
    assert pair.server.calls == ["add", "add"]


async def test_a_call_that_another_loop_has_just_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    home, begun = asyncio.new_event_loop(), threading.Event()
    running = threading.Thread(target=home.run_forever)
    running.start()

    async def work() -> str:
        begun.set()
        await asyncio.sleep(0)
        return "done"

    async def hear_nothing(*_awaited: Any, **_options: Any) -> tuple[set[Any], set[Any]]:
        begun.wait(30)  # the loop of the caller runs nothing meanwhile
        return set(), set()

    try:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "wait", hear_nothing)
            assert await _in_loop(home, work()) == "done"
    finally:
        home.call_soon_threadsafe(home.stop)
        running.join()
        home.close()
