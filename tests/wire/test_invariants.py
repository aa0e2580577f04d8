"""The invariants of seed 003 that are about wire formats, each by its number and name. The golden answers are recorded
traffic of providers."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from assistant_stream import assistant_stream_chunk as chunks
from assistant_stream.serialization.data_stream import DataStreamResponse
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.formats import FORMATS
from tests.wire.strict_reader import page_of

import demiurge
import demiurge.tools
from demiurge import ToolCatalog, ToolEffect, ToolInvocationRecord, ToolPolicy, ToolRunner, ToolSpec, tool
from demiurge.tools.events import (
    AiEvent,
    Done,
    ErrorEvent,
    Status,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    UsageReport,
)
from demiurge.wire import (
    Completion,
    NamedTool,
    ProviderError,
    ToolCall,
    ToolOutput,
    anthropic,
    openai_chat,
    openai_responses,
)
from demiurge.wire.data_stream import DataStream, Frame

GOLDEN = Path(__file__).with_name("golden")
EACH = pytest.mark.parametrize("api", sorted(FORMATS))


def with_calls(stream: bool) -> dict[str, dict[str, Any]]:
    entries = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(GOLDEN.glob("*.json"))}
    return {
        name: entry
        for name, entry in entries.items()
        if entry["stream"] is stream and entry["status"] == 200 and entry["expect"].get("calls")
    }


STREAMS, BODIES = with_calls(stream=True), with_calls(stream=False)
EVERY_STREAM = pytest.mark.parametrize("name", STREAMS)


def decoder_of(entry: dict[str, Any]) -> Any:
    return FORMATS[entry["api"]].Decoder()


def calls_of(completion: Completion) -> list[list[Any]]:
    return [[call.id, call.name, call.arguments_json, call.invalid] for call in completion.tool_calls]


# -- 7: STREAM_VIA_ASSISTANT_STREAM


def chunk_of(frame: Frame) -> Any:
    """The package's chunk for a frame; it has none for the finish of the message (`d`), which its reader in the browser
    knows."""
    value = frame.value
    match frame.code:
        case "0":
            return chunks.TextDeltaChunk(value)
        case "2":
            return chunks.DataChunk(value[0])
        case "3":
            return chunks.ErrorChunk(value)
        case "b":
            return chunks.ToolCallBeginChunk(value["toolCallId"], value["toolName"])
        case "c":
            return chunks.ToolCallDeltaChunk(value["toolCallId"], value["argsTextDelta"])
        case "a":
            return chunks.ToolResultChunk(value["toolCallId"], value["result"], is_error=value.get("isError", False))
    assert frame.code == "e"
    usage = value["usage"]
    return chunks.StepFinishChunk(value["finishReason"], usage["inputTokens"], usage["outputTokens"])


async def test_invariant_07_stream_via_assistant_stream() -> None:
    """The lines are those that the package writes for the same chunks, byte for byte."""
    events: list[AiEvent] = [
        Status("thinking", "π"),
        TextDelta('"Let me\nlook," \U0001f600\u2028'),
        ToolCallStart("call_1", "clock__now", {"zone": "Asia/Tokyo", "é": [1.5, None]}),
        ToolCallStart("call_2", "docs__read"),
        ToolCallResult("call_2", {"ok": False, "error_code": "policy_denied", "message": "No."}, is_error=True),
        ToolCallResult("call_1", {"time": "09:00", "ü": [True, 1e30]}),
        ErrorEvent("rate_limit"),
        Done(UsageReport(12, 3), "stop"),
    ]
    stream = DataStream()
    *frames, finish = [frame for event in events for frame in stream.take(event)]
    response = DataStreamResponse(_sent([chunk_of(frame) for frame in frames]))
    written = "".join([str(part) async for part in response.body_iterator])
    assert b"".join(frame.line for frame in frames).decode() == written
    assert {frame.code for frame in frames} == set("023bcae")
    assert finish.code == "d"


async def _sent(parts: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for part in parts:
        yield part


@given(st.permutations(["start", "result", "failure", "done", "again"]))
def test_invariant_07_a_calls_chunks_are_in_order_whatever_the_events_were(order: list[str]) -> None:
    """The package's own controller reads each call from a queue of its own, so that a result may come last; the page
    fails on that, and on a call without a result."""
    events: dict[str, AiEvent] = {
        "start": ToolCallStart("call_1", "clock__now", {"zone": "Asia/Tokyo"}),
        "result": ToolCallResult("call_1", "nine"),
        "again": ToolCallResult("call_1", "ten"),
        "failure": ErrorEvent("aborted"),
        "done": Done(),
    }
    stream = DataStream()
    frames = [frame for name in order for frame in stream.take(events[name])]
    shown = page_of(b"".join(frame.line for frame in [*frames, *stream.end()]))
    before_done = order[: order.index("done")]
    assert set(shown.cards) == ({"call_1"} if {"start", "result", "again"} & set(before_done) else set())


# -- 8: DECODER_ASSEMBLES_TOOLCALLS


@EVERY_STREAM
def test_invariant_08_decoder_assembles_toolcalls_from_deltas_cut_anywhere(name: str) -> None:
    """What comes out before the end shows that there is a call, and nothing of its arguments: none can be run early."""
    entry = STREAMS[name]
    decoder = decoder_of(entry)
    events = [event for byte in entry["body"].encode() for event in decoder.feed(bytes([byte]))]
    assert {type(event) for event in events} <= {TextDelta, Status}
    assert calls_of(decoder.close()) == entry["expect"]["calls"]


@EVERY_STREAM
def test_invariant_08_assembly_state_is_scoped_to_one_decoder(name: str) -> None:
    entry = STREAMS[name]
    first, second = decoder_of(entry), decoder_of(entry)
    for byte in entry["body"].encode():
        first.feed(bytes([byte]))
        second.feed(bytes([byte]))
    third = decoder_of(entry)
    third.feed(entry["body"].encode())
    for decoder in (first, second, third):
        assert calls_of(decoder.close()) == entry["expect"]["calls"]


@given(st.data())
def test_invariant_08_a_stream_that_ends_early_gives_no_call_that_was_not_made(data: st.DataObject) -> None:
    entry = STREAMS[data.draw(st.sampled_from(sorted(STREAMS)))]
    body = entry["body"].encode()
    decoder = decoder_of(entry)
    decoder.feed(body[: data.draw(st.integers(0, len(body)))])
    try:
        calls = calls_of(decoder.close())
    except ProviderError:
        return
    assert [call for call in calls if not call[-1]] in ([], entry["expect"]["calls"])


def test_invariant_08_nobody_else_assembles() -> None:
    """Only decoders know how calls come in pieces: the event names of two formats, the module for the third's."""
    for file in Path(demiurge.__file__).parent.rglob("*.py"):
        if file.parent.name != "wire":
            text = file.read_text()
            assert "response.function_call" not in text, file
            assert "chat_deltas" not in text, file
            assert "content_block" not in text, file


# -- 11: WIRE_FORMATS_ARE_ADAPTERS


def test_invariant_11_wire_formats_are_adapters() -> None:
    """The semantic core knows no format, and what a call is does not depend on the one that it came in."""
    for file in Path(demiurge.tools.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text())
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert not [name for name in names if name.startswith("demiurge.wire")], file
    function = {"name": "docs__read", "arguments": '{"path":"a"}'}
    chat = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [chat]}
    by_chat = openai_chat.decode(
        {"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    )
    responses = {"type": "function_call", "id": "fc_1", "call_id": "call_1", **function}
    by_responses = openai_responses.decode({"id": "r", "status": "completed", "model": "m", "output": [responses]})
    block = {"type": "tool_use", "id": "call_1", "name": "docs__read", "input": {"path": "a"}}
    by_messages = anthropic.decode({"id": "m", "stop_reason": "tool_use", "model": "m", "content": [block]})
    for completion in (by_chat, by_responses, by_messages):
        (call,) = completion.tool_calls
        assert isinstance(call, ToolCall)
        assert (call.id, call.name, json.loads(call.arguments_json)) == ("call_1", "docs__read", {"path": "a"})
        assert completion.finish_reason == "tool_calls"


# -- 12: OPENAI_WIRE_V1_SUPPORTED


@tool(effect=ToolEffect.READ_ONLY)
def get_country() -> str:
    """The country."""
    return "Mexico"


@tool(effect=ToolEffect.READ_ONLY)
def get_product_name() -> str:
    """The product."""
    return "Pydantic AI"


async def test_invariant_12_openai_wire_v1_supported() -> None:
    """Spec to `tools`, stream to calls, calls to records, results to the next request's messages."""
    policy = ToolPolicy(("get_country", "get_product_name"))
    tools = [get_country, get_product_name]
    body = openai_chat.encode_tools(ToolCatalog.compile(tools, policy).specs())
    assert [entry["function"]["name"] for entry in body["tools"]] == ["get_country", "get_product_name"]
    decoder = openai_chat.Decoder()
    decoder.feed(STREAMS["chat_stream_parallel_calls"]["body"].encode())
    completion = decoder.close()
    results = await ToolRunner(tools, policy=policy).exec_many(completion.tool_calls)
    records = [result.record for result in results]
    assert all(isinstance(record, ToolInvocationRecord) for record in records)
    assert [(record.tool_call_id, record.name, record.args) for record in records] == [
        ("call_0001", "get_country", {}),
        ("call_0002", "get_product_name", {}),
    ]
    outputs = [ToolOutput(result.tool_call_id, result.content) for result in results]
    messages = openai_chat.encode_messages([*completion.items, *outputs])["messages"]
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool"]
    assert [call["id"] for call in messages[0]["tool_calls"]] == [each["tool_call_id"] for each in messages[1:]]


# -- 15: GOLDEN_FIXTURES_ENFORCE_WIRE_FORMAT

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SPEC = ToolSpec("docs__read", "Read a file.", SCHEMA, ToolEffect.READ_ONLY)


SCHEMAS = ("parameters", "input_schema")


def keys(value: Any) -> Any:
    """The key sets of nested objects; a schema's are its own."""
    if isinstance(value, dict):
        return {name: None if name in SCHEMAS else keys(item) for name, item in value.items()}
    return [keys(item) for item in value] if isinstance(value, list) else None


DEFINITIONS: dict[str, Any] = {
    "messages": {"name": None, "description": None, "input_schema": None},
    "chat": {"type": None, "function": {"name": None, "description": None, "parameters": None}},
    "responses": {"type": None, "name": None, "description": None, "parameters": None, "strict": None},
}
RESULTS: dict[str, Any] = {
    "messages": {"type": None, "tool_use_id": None, "content": None},
    "chat": {"role": None, "tool_call_id": None, "content": None},
    "responses": {"type": None, "call_id": None, "output": None},
}
RETURNED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "chat": lambda body: body["messages"],
    "messages": lambda body: body["messages"][-1]["content"],
    "responses": lambda body: body["input"],
}


@EACH
def test_invariant_15_golden_fixtures_a_definition_has_exactly_these_keys(api: str) -> None:
    body = FORMATS[api].encode_tools([SPEC])
    assert set(body) == {"tools"}
    assert keys(body["tools"]) == [DEFINITIONS[api]]
    (definition,) = body["tools"]
    function = definition.get("function", definition)
    assert function["name"] == "docs__read"
    assert definition.get("type", "function") == "function"
    assert [function[name] for name in SCHEMAS if name in function] == [SCHEMA]
    assert set(FORMATS[api].encode_tools([SPEC], NamedTool("docs__read"))) == {"tools", "tool_choice"}


@EACH
def test_invariant_15_golden_fixtures_a_result_message_has_exactly_these_keys(api: str) -> None:
    (message,) = RETURNED[api](FORMATS[api].encode_messages([ToolOutput("call_1", "text")]))
    assert keys(message) == RESULTS[api]
    assert {"call_1", "text"} <= set(message.values())


@pytest.mark.parametrize("name", [*STREAMS, *BODIES])
def test_invariant_15_golden_fixtures_recorded_answers_give_their_calls_and_take_their_results(name: str) -> None:
    entry = {**STREAMS, **BODIES}[name]
    wire = FORMATS[entry["api"]]
    if entry["stream"]:
        decoder = wire.Decoder()
        decoder.feed(entry["body"].encode())
        completion = decoder.close()
    else:
        completion = wire.decode(json.loads(entry["body"]))
    assert calls_of(completion) == entry["expect"]["calls"]
    outputs = [ToolOutput(call.id, "text") for call in completion.tool_calls]
    sent = RETURNED[entry["api"]](wire.encode_messages([*completion.items, *outputs]))
    assert [keys(message) for message in sent[-len(outputs) :]] == [RESULTS[entry["api"]]] * len(outputs)
