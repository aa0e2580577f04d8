"""(b) The same text, calls, arguments, finish and usage as the official SDKs make of the same bytes.

A difference has a reason that was checked against the bytes, or is `unexplained`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bench.wire.interactions import Interaction
from demiurge.wire import Completion, ProviderError

__all__ = ["difference"]


def difference(entry: Interaction, ours: Completion | ProviderError, theirs: Mapping[str, Any]) -> str | None:
    """None if they agree, else the reason."""
    if isinstance(ours, ProviderError):
        return _on_error(ours, theirs)
    if "error" in theirs:
        return _on_their_error(entry, theirs)
    found = (*_content(entry, ours, theirs), *_calls(entry, ours, theirs["calls"]))
    return "; ".join(sorted(set(found))) or None


def _on_error(ours: ProviderError, theirs: Mapping[str, Any]) -> str | None:
    if "error" in theirs:
        return None if theirs["status"] in (None, ours.status) else "unexplained: status"
    if ours.code == "truncated" and theirs["finish"] in ("queued", "in_progress"):
        return "background response, not finished: `truncated` here, an empty answer there"
    return f"unexplained: {ours.code} here"


def _on_their_error(entry: Interaction, theirs: Mapping[str, Any]) -> str:
    if theirs["error"] == "RuntimeError" and entry.stream:
        return "the SDK refuses to join a list whose entries have no `index`"
    if not entry.stream and b'"message"' not in entry.body:
        return "an answer without a message, stopped by the content filter: the SDK has none to show"
    return f"unexplained: {theirs['error']} there"


def _content(entry: Interaction, ours: Completion, theirs: Mapping[str, Any]) -> Iterator[str]:
    if ours.text != theirs["text"]:
        yield "unexplained: text"
    if ours.raw_finish_reason != theirs["finish"]:
        yield "the finish reason is the empty string: none here" if theirs["finish"] == "" else "unexplained: finish"
    usage = ours.usage
    counts = [usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.cache_written] if usage else None
    if counts == theirs["usage"]:
        return
    if theirs["usage"] is None and b'"x_groq"' in entry.body:
        yield "usage in `x_groq`: the SDK does not read it"
    elif theirs["usage"] is None and b'"usage":null' in entry.body:
        yield "usage, then a chunk with null for it: the SDK forgets it"
    else:
        yield "unexplained: usage"


def _calls(entry: Interaction, ours: Completion, theirs: list[list[Any]]) -> Iterator[str]:
    if len(ours.tool_calls) != len(theirs):
        legacy = not theirs and b'"function_call"' in entry.body
        yield "a `function_call`, the form before tools: a call here" if legacy else "unexplained: number of calls"
        return
    for call, (call_id, name, arguments) in zip(ours.tool_calls, theirs, strict=True):
        if name == call.name * 2 and call_id == call.id * 2:
            yield "id and name in every fragment: the SDK joins them"
            continue
        if call.name != name:
            yield "unexplained: name"
        if call.id != call_id:
            yield "unexplained: id" if call_id else "a call without an id: derived here"
        if entry.api != "messages" and not arguments and call.arguments_json == "{}":
            yield "a call without arguments: `{}` here"
        elif call.arguments_json != arguments and _object(call.arguments_json) != arguments:
            yield "unexplained: arguments"


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
