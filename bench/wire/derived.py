"""(d) Malformed traffic, derived from the recorded: never an exception but ProviderError, never a broken call that may
run.

* cut: the stream ends early. Then there is an error, or the text and calls of the whole (what was cut said nothing
  more). Where the whole is an error that came after the finish reason, an answer without calls is right.
* perturbed: an event is lost, doubled, moved, or has a byte changed. Then there is an error or a completion whose valid
  calls each have one JSON object.
* short: the last character of the last call's arguments is missing. Then that call is invalid, its text verbatim.
* stopped: the answer says that it was stopped while it wrote its last call. Then that call is invalid, and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.wire.interactions import Interaction, decoded, read
from bench.wire.splits import positions
from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.wire import Completion, ProviderError

__all__ = ["derived_failures"]

_CUTS = 40
_DAMAGES = 40


def derived_failures(entry: Interaction) -> Iterator[tuple[str, str | None]]:
    """Every case derived from a stream or a body: its kind, and what was wrong with what came out (None if nothing)."""
    whole = decoded(entry)
    if entry.stream:
        for at in positions(f"{entry.name} cut", _CUTS, len(entry.body)):
            yield "cut", _attempt(entry, entry.body[:at], partial(_cut_is_right, whole=whole))
        for body in _damaged(entry):
            yield "perturbed", _attempt(entry, body, _valid_calls_are_objects)
    if isinstance(whole, Completion) and whole.tool_calls and not any(call.invalid for call in whole.tool_calls):
        short = _without_last_character(entry)
        if short is not None:
            text, body = short
            yield "short", _attempt(entry, body, partial(_is_flagged, text=text))
        stopped = None if entry.stream else _stopped(json.loads(entry.body), entry.api)
        if stopped is not None:
            yield "stopped", _attempt(entry, json.dumps(stopped).encode(), partial(_is_cut, whole=whole))


def _attempt(entry: Interaction, body: bytes, judge: Callable[[Completion | ProviderError], str | None]) -> str | None:
    try:
        result = read(entry.wire, body)
    except Exception as error:  # noqa: BLE001 - this is what must not happen
        return f"raises {type(error).__name__}: {error}"
    return judge(result)


def _cut_is_right(result: Completion | ProviderError, whole: Completion | ProviderError) -> str | None:
    if isinstance(result, ProviderError):
        return None
    if isinstance(whole, ProviderError):
        return "a cut stream has calls" if result.tool_calls else None
    same = result.tool_calls == whole.tool_calls and result.text == whole.text
    return None if same else "a cut stream is another answer"


def _valid_calls_are_objects(result: Completion | ProviderError) -> str | None:
    if isinstance(result, Completion):
        for call in result.tool_calls:
            try:
                canonical_json.parse_object(call.arguments_json)
            except InvalidValue:
                if not call.invalid:
                    return "a call that is no JSON object is not flagged"
    return None


def _is_flagged(result: Completion | ProviderError, text: str) -> str | None:
    if isinstance(result, ProviderError):
        return f"{result.code} in place of an invalid call"
    call = result.tool_calls[-1]
    if not call.invalid:
        return "a short call is not flagged"
    return None if call.arguments_json == text else "a short call is not verbatim"


def _is_cut(result: Completion | ProviderError, whole: Completion) -> str | None:
    if isinstance(result, ProviderError):
        return f"{result.code} in place of an invalid call"
    before = [call.invalid for call in whole.tool_calls[:-1]]
    right = [call.invalid for call in result.tool_calls] == [*before, True] and result.finish_reason == "length"
    return None if right else "not the call that was cut is flagged"


def _stopped(body: dict[str, Any], api: str) -> dict[str, Any] | None:
    """The body, stopped for its length; None if it does not end with a call."""
    if api == "chat":
        choice = body["choices"][0]
        choice["finish_reason"] = "length"
        return body if (choice.get("message") or {}).get("tool_calls") else None
    last = body["content" if api == "messages" else "output"][-1]
    if api == "messages":
        body["stop_reason"] = "max_tokens"
        return body if last["type"] == "tool_use" else None
    body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    last["status"] = "incomplete"
    return body if last["type"] == "function_call" else None


def _damaged(entry: Interaction) -> Iterator[bytes]:
    blocks = [block + b"\n\n" for block in entry.body.replace(b"\r\n", b"\n").split(b"\n\n") if block.strip()]
    picks = positions(f"{entry.name} perturbed", 3 * _DAMAGES, 2**40)
    for number, (one, other, where) in enumerate(zip(picks[::3], picks[1::3], picks[2::3], strict=True)):
        damaged, at, to = list(blocks), one % len(blocks), other % len(blocks)
        match number % 4:
            case 0:
                del damaged[at]
            case 1:
                damaged.insert(to, blocks[at])
            case 2:
                damaged[at], damaged[to] = blocks[to], blocks[at]
            case _:
                spot = where % len(blocks[at])
                damaged[at] = blocks[at][:spot] + bytes([other % 256]) + blocks[at][spot + 1 :]
        yield b"".join(damaged)


def _without_last_character(entry: Interaction) -> tuple[str, bytes] | None:
    """The last call's shortened arguments, and the body with them; None if it has no text of arguments to shorten."""
    if not entry.stream:
        body = json.loads(entry.body)
        text = _shorten(body, entry.api)
        return None if text is None else (text, json.dumps(body).encode())
    lines = entry.body.splitlines(keepends=True)
    for at in range(len(lines) - 1, -1, -1):
        data = lines[at].removeprefix(b"data:").strip()
        if not lines[at].startswith(b"data:") or not data.startswith(b"{"):
            continue
        event = json.loads(data)
        if _shorten_event(event, entry.api):
            whole = decoded(entry)
            assert isinstance(whole, Completion)
            lines[at] = b"data: " + json.dumps(event).encode() + b"\n"
            return whole.tool_calls[-1].arguments_json[:-1], b"".join(lines)
    return None


def _shorten(body: dict[str, Any], api: str) -> str | None:
    """Shortens in a body, in place. An object of arguments has no text to shorten."""
    if api == "responses":
        calls = [item for item in body["output"] if item.get("type") == "function_call"]
    elif api == "chat":
        message = body["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or () if call.get("function")]
    else:
        calls = []
    if not calls or not isinstance(calls[-1].get("arguments"), str) or not calls[-1]["arguments"].strip():
        return None
    calls[-1]["arguments"] = calls[-1]["arguments"].rstrip()[:-1]
    return str(calls[-1]["arguments"]) or None


def _shorten_event(event: dict[str, Any], api: str) -> bool:
    """Shortens in the event that ends the last call's arguments, in place."""
    if api == "responses":
        response = event.get("response") or {}
        return bool(response.get("output")) and _shorten(response, api) is not None
    if api == "messages":
        delta = event.get("delta") or {}
        key, holder = "partial_json", delta
    else:
        choices = event.get("choices") or [{}]
        calls = (choices[0].get("delta") or {}).get("tool_calls") or [{}]
        key, holder = "arguments", calls[-1].get("function") or {}
    if not holder.get(key):
        return False
    holder[key] = holder[key][:-1]
    return True
