"""(b) The same text, calls, arguments, finish and usage as the official SDKs make of the same bytes.

A difference has a reason in words, or is `unexplained`. SDKs pass on what they can't read; where one fails or hands
back what no request could carry, the reason says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bench.wire.interactions import Interaction
from demiurge.wire import Completion, ProviderError

__all__ = ["difference"]

_EMPTY = ("", None)


def difference(entry: Interaction, ours: Completion | ProviderError, theirs: Mapping[str, Any]) -> str | None:
    """None if they agree, else the reason."""
    if isinstance(ours, ProviderError):
        return _on_error(ours, theirs)
    if "error" in theirs:
        return f"the SDK raises {theirs['error']} on what is an answer"
    reasons = [
        None if ours.text == theirs["text"] else _text(theirs),
        None if ours.raw_finish_reason == theirs["finish"] else "unexplained: finish",
        _usage(ours, theirs["usage"]),
        _calls(entry, ours, theirs["calls"]),
    ]
    return "; ".join(sorted({reason for reason in reasons if reason})) or None


def _on_error(ours: ProviderError, theirs: Mapping[str, Any]) -> str | None:
    if "error" in theirs:
        return None if theirs["status"] in (None, ours.status) else "unexplained: status"
    if ours.code == "truncated" and theirs["finish"] in ("queued", "in_progress"):
        return "the response is not finished: an error here, an empty response there"
    return f"unexplained: {ours.code}"


def _text(theirs: Mapping[str, Any]) -> str:
    return "unexplained: text"


def _usage(ours: Completion, theirs: list[int] | None) -> str | None:
    usage = ours.usage
    counts = [usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.cache_written] if usage else None
    return None if counts == theirs else "unexplained: usage"


def _calls(entry: Interaction, ours: Completion, theirs: list[list[Any]]) -> str | None:
    if len(ours.tool_calls) != len(theirs):
        return "unexplained: number of calls"
    for call, (call_id, name, arguments) in zip(ours.tool_calls, theirs, strict=True):
        if call.name != name:
            return "unexplained: name"
        if entry.api == "messages":
            if call.invalid or json.loads(call.arguments_json) != arguments:
                return "unexplained: arguments"
        elif arguments in _EMPTY and call.arguments_json == "{}":
            return "no arguments at all: `{}` here"
        elif call.arguments_json != arguments:
            return "unexplained: arguments"
        if call.id != call_id:
            return "the call has no id, or another call's: one is derived here" if call_id in _EMPTY else "unexplained: id"
    return None
