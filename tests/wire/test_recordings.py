"""What holds for every recorded answer, in `golden/` and in the corpora that DEMIURGE_CORPORA may name."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.formats import FORMATS

from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.values import canonical_json
from demiurge.wire import (
    PROVIDER_ERROR_CODES,
    Completion,
    Item,
    Message,
    Opaque,
    ProviderError,
    Reasoning,
    ToolCall,
    Usage,
    anthropic,
    openai_chat,
    openai_responses,
    provider_error,
)

_GOLDEN = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Recording:
    name: str
    format: ModuleType
    stream: bool
    status: int
    body: bytes
    expect: dict[str, Any] | None = None


def _golden() -> Iterator[Recording]:
    for path in sorted(_GOLDEN.glob("*.json")):
        entry = json.loads(path.read_text(encoding="utf-8"))
        body = entry["body"].encode()
        yield Recording(path.stem, FORMATS[entry["api"]], entry["stream"], entry["status"], body, entry["expect"])


def _wire(folder: Path) -> Iterator[Recording]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        wire_format = next(wire_format for api, wire_format in FORMATS.items() if api in path.name)
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                stream = "event-stream" in (row["response_content_type"] or "")
                body = row["response_body"].encode()
                yield Recording(row["file"], wire_format, stream, row["response_status"], body)


def _local(folder: Path) -> Iterator[Recording]:
    paths = {"/v1/chat/completions": openai_chat, "/v1/messages": anthropic, "/v1/responses": openai_responses}
    for path in sorted(folder.glob("*/*.request.json")):
        request = json.loads(path.read_text(encoding="utf-8"))
        wire_format = paths.get(request["path"])
        if wire_format is not None:
            body = path.with_name(request["response_file"].rpartition("/")[2])
            name = f"{path.parent.name}/{path.name}"
            yield Recording(name, wire_format, body.suffix == ".sse", request["status"], body.read_bytes())


def _all() -> Iterator[Recording]:
    yield from _golden()
    if corpora := os.environ.get("DEMIURGE_CORPORA"):
        yield from _wire(Path(corpora) / "wire")
        yield from _local(Path(corpora) / "local_wire")


_RECORDINGS = list(_all())
_STREAMS = [recording for recording in _RECORDINGS if recording.stream]
_GOLDEN_STREAMS = [recording for recording in _RECORDINGS if recording.stream and recording.expect is not None]
_GOLDEN_BODIES = [
    (recording.format, json.loads(recording.body))
    for recording in _RECORDINGS
    if recording.expect is not None and not recording.stream
]


def _name(recording: Recording) -> str:
    return recording.name


def _outcome(decoder: Any) -> Completion | str:
    try:
        completion = decoder.close()
    except ProviderError as error:
        return error.code
    assert isinstance(completion, Completion)
    return completion


def _read(recording: Recording, *chunks: bytes) -> tuple[list[AiEvent], Completion | str]:
    decoder = recording.format.Decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events, _outcome(decoder)


def _decoded(recording: Recording) -> Completion | str:
    if recording.stream:
        return _read(recording, recording.body)[1]
    try:
        body = json.loads(recording.body)
    except ValueError:
        return provider_error(recording.body, recording.status).code
    try:
        completion = recording.format.decode(body)
    except ProviderError as error:
        return error.code
    assert isinstance(completion, Completion)
    return completion


def _as_doubles(data: Any) -> Any:
    """Returns JSON data whose numbers are doubles, as RFC 8785 has them: beyond 2**53 their shortest digits name others
    when they are read as an integer."""
    return json.loads(json.dumps(data), parse_int=float)


def _check(completion: Completion) -> None:
    """What holds for every completion, from whatever bytes."""
    assert completion.tool_calls == tuple(item for item in completion.items if isinstance(item, ToolCall))
    assert len({call.id for call in completion.tool_calls}) == len(completion.tool_calls)
    for call in completion.tool_calls:
        assert re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", call.id)
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
        if not call.invalid:
            canonical_json.parse_object(call.arguments_json)
    for item in completion.items:
        if isinstance(item, Reasoning | Opaque) and item.raw is not None:
            assert _as_doubles(canonical_json.parse_object(canonical_json.encode(item.raw))) == _as_doubles(item.raw)
    completion.text.encode()
    if completion.finish_reason == "tool_calls":
        assert completion.tool_calls


def _counts(usage: Usage) -> list[int]:
    counts = [usage.prompt, usage.completion, usage.cached, usage.reasoning]
    return [*counts, usage.cache_written] if usage.cache_written else counts


@pytest.mark.parametrize("recording", list(_golden()), ids=_name)
def test_a_golden_answer_decodes_as_noted(recording: Recording) -> None:
    result = _decoded(recording)
    assert recording.expect is not None
    if isinstance(result, str):
        assert recording.expect == {"error": result}
        return
    usage = result.usage
    assert recording.expect == {
        "text": result.text,
        "calls": [[call.id, call.name, call.arguments_json, call.invalid] for call in result.tool_calls],
        "finish_reason": result.finish_reason,
        "usage": _counts(usage) if usage else None,
        "items": [type(item).__name__ for item in result.items],
    }


@pytest.mark.parametrize("recording", _RECORDINGS, ids=_name)
def test_an_answer_is_a_completion_or_a_known_error(recording: Recording) -> None:
    result = _decoded(recording)
    if isinstance(result, str):
        assert result in PROVIDER_ERROR_CODES
    else:
        assert recording.status == 200  # an error status never looks like an answer
        _check(result)


@pytest.mark.parametrize("recording", _STREAMS, ids=_name)
def test_a_stream_is_the_same_byte_by_byte(recording: Recording) -> None:
    body = recording.body
    if len(body) > 200_000:
        sizes = [body[i : i + 7] for i in range(0, len(body), 7)]
    else:
        sizes = [body[i : i + 1] for i in range(len(body))]
    assert _read(recording, *sizes) == _read(recording, body)


@pytest.mark.parametrize("recording", _STREAMS, ids=_name)
def test_the_deltas_of_a_stream_are_its_text(recording: Recording) -> None:
    events, result = _read(recording, recording.body)
    if isinstance(result, Completion):
        assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == result.text
        named = [event.label for event in events if isinstance(event, Status) and event.phase == "tool_use"]
        assert named == [call.name for call in result.tool_calls]


@pytest.mark.parametrize(
    "recording", [recording for recording in _STREAMS if recording.format is openai_responses], ids=_name
)
def test_a_responses_stream_is_its_final_object(recording: Recording) -> None:
    blocks = recording.body.decode().replace("\r\n", "\n").split("\n")
    data = [json.loads(line[5:]) for line in blocks if line.startswith("data:") and "[DONE]" not in line]
    final = next(entry["response"] for entry in data if entry["type"] == "response.completed")
    assert _read(recording, recording.body)[1] == openai_responses.decode(final)


@pytest.mark.parametrize("recording", _RECORDINGS, ids=_name)
def test_a_decoded_recording_can_be_encoded_and_decoded_again(recording: Recording) -> None:
    result = _decoded(recording)
    if isinstance(result, str):
        return
    if recording.format is openai_responses:
        again = openai_responses.decode({"id": result.response_id, "output": _input(result)})
    elif recording.format is anthropic:
        again = anthropic.decode({"id": result.response_id, "content": _content(result)})
    else:
        choices = [{"message": message, "finish_reason": "x"} for message in _messages(result)]
        again = openai_chat.decode({"id": result.response_id, "choices": choices or [{"finish_reason": "x"}]})
    if recording.format is anthropic:
        assert _without_blanks(again.items) == _without_blanks(result.items)
    else:
        assert again.items == result.items


def _without_blanks(items: Sequence[Item]) -> list[object]:
    """A blank text can't be sent back there: it is added to the one before it, or left out."""
    told = [item.text if isinstance(item, Message) else item for item in items]
    return [entry for entry in told if not isinstance(entry, str) or entry.strip()]


def _input(result: Completion) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = openai_responses.encode_messages(result.items)["input"]
    for entry, item in zip(entries, result.items, strict=True):
        if isinstance(item, Reasoning | Opaque):
            assert entry == item.raw
    return entries


def _content(result: Completion) -> list[dict[str, Any]]:
    messages = anthropic.encode_messages(result.items)["messages"]
    assert len(messages) <= 1
    content: list[dict[str, Any]] = messages[0]["content"] if messages else []
    verbatim = [item.raw for item in result.items if isinstance(item, Reasoning | Opaque)]
    assert [block for block in content if block["type"] not in ("text", "tool_use")] == verbatim
    return content


def _messages(result: Completion) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = openai_chat.encode_messages(result.items)["messages"]
    assert len(messages) == (1 if result.text or result.tool_calls else 0)
    return messages


def test_decoders_share_nothing() -> None:
    alone = [_read(recording, recording.body) for recording in _GOLDEN_STREAMS]
    decoders = [recording.format.Decoder() for recording in _GOLDEN_STREAMS]
    events: list[list[AiEvent]] = [[] for _ in decoders]
    for start in range(0, max(len(recording.body) for recording in _GOLDEN_STREAMS), 11):
        for recording, decoder, seen in zip(_GOLDEN_STREAMS, decoders, events, strict=True):
            seen += decoder.feed(recording.body[start : start + 11])
    together = list(zip(events, (_outcome(decoder) for decoder in decoders), strict=True))
    assert together == alone


@given(st.sampled_from(_GOLDEN_STREAMS), st.data())
def test_any_split_gives_the_same(recording: Recording, data: st.DataObject) -> None:
    body = recording.body
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert _read(recording, *chunks) == _read(recording, body)


def _blocks(body: bytes) -> list[bytes]:
    return [block + b"\n\n" for block in body.split(b"\n\n") if block]


@given(st.sampled_from([entry for entry in _GOLDEN_STREAMS if "error" not in (entry.expect or {})]), st.data())
def test_a_cut_stream_never_gives_a_call_that_the_whole_one_has_not(recording: Recording, data: st.DataObject) -> None:
    whole = _read(recording, recording.body)[1]
    result = _read(recording, recording.body[: data.draw(st.integers(0, len(recording.body)))])[1]
    if isinstance(result, str):
        assert result in {"truncated", "bad_response"}
    else:
        assert isinstance(whole, Completion)
        assert result.items == whole.items


@given(st.sampled_from(_GOLDEN_STREAMS), st.data())
def test_a_damaged_stream_is_a_completion_or_a_known_error(recording: Recording, data: st.DataObject) -> None:
    blocks = _blocks(recording.body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blocks) - 1))
        match data.draw(st.sampled_from(["drop", "twice", "swap", "cut", "flip", "splice"])):
            case "drop" if len(blocks) > 1:
                del blocks[at]
            case "twice":
                blocks.insert(at, blocks[at])
            case "swap":
                other = data.draw(st.integers(0, len(blocks) - 1))
                blocks[at], blocks[other] = blocks[other], blocks[at]
            case "cut":
                blocks[at] = blocks[at][: data.draw(st.integers(0, len(blocks[at])))]
            case "flip" if blocks[at]:
                position = data.draw(st.integers(0, len(blocks[at]) - 1))
                byte = bytes([data.draw(st.integers(0, 255))])
                blocks[at] = blocks[at][:position] + byte + blocks[at][position + 1 :]
            case _:
                stranger = data.draw(st.sampled_from(_GOLDEN_STREAMS))
                blocks.insert(at, data.draw(st.sampled_from(_blocks(stranger.body))))
    result = _read(recording, b"".join(blocks))[1]
    if isinstance(result, str):
        assert result in PROVIDER_ERROR_CODES
    else:
        _check(result)


@given(st.sampled_from(list(FORMATS.values())), st.binary(max_size=200))
def test_garbage_is_a_known_error(wire_format: ModuleType, body: bytes) -> None:
    decoder = wire_format.Decoder()
    assert decoder.feed(body) == []
    assert _outcome(decoder) in PROVIDER_ERROR_CODES


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("\ud83d"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "content",
                    "function",
                    "name",
                    "id",
                    "index",
                    "arguments",
                    "input",
                    "citations",
                    "usage",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)


def _replaced(value: Any, data: st.DataObject) -> Any:
    """`value` with one place in it replaced by other JSON."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: _replaced(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], _replaced(value[at], data), *value[at + 1 :]]
    return data.draw(_json)


@given(st.sampled_from(_GOLDEN_BODIES), st.data())
def test_a_body_of_other_types_is_a_completion_or_a_known_error(
    recorded: tuple[ModuleType, Any], data: st.DataObject
) -> None:
    wire_format, body = recorded
    changed = _replaced(body, data)
    decoder = wire_format.Decoder()
    decoder.feed(json.dumps(changed).encode())
    result = _outcome(decoder)
    if isinstance(result, str):
        assert result in PROVIDER_ERROR_CODES
    else:
        _check(result)
        assert result == wire_format.decode(changed)


@given(st.sampled_from(_GOLDEN_STREAMS), st.data())
def test_a_stream_of_other_types_is_a_completion_or_a_known_error(recording: Recording, data: st.DataObject) -> None:
    blocks = _blocks(recording.body)
    at = data.draw(st.integers(0, len(blocks) - 1))
    head, _, text = blocks[at].partition(b"data:")
    if text and b"[DONE]" not in text:
        changed = _replaced(json.loads(text), data)
        blocks[at] = head + b"data: " + json.dumps(changed).encode() + b"\n\n"
    result = _read(recording, b"".join(blocks))[1]
    if isinstance(result, str):
        assert result in PROVIDER_ERROR_CODES
    else:
        _check(result)
