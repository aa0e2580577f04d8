"""A chat as Markdown, for a person to read: who said what and when, the calls with their results, and the files.

Files are in the text itself, as `data:` addresses at its end, so that one file is the whole chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from demiurge.tools.parts import parts_of
from demiurge.visible_text import visible_name

__all__ = ["as_markdown"]

_TICKS: Final = re.compile(r"`{3,}")


def as_markdown(chat: Mapping[str, Any]) -> str:
    """Returns an exported chat (`ChatExport.to_json`) as Markdown."""
    files = {ref: f"file-{number}" for number, ref in enumerate(chat["files"], 1)}
    failures = {failure["request_id"]: failure for failure in chat["failures"]}
    lines = [f"# {visible_name(chat['name'])}", "", _facts(chat)]
    messages = chat["messages"]
    for place, message in enumerate(messages):
        lines += ["", *_message(message, files)]
        following = messages[place + 1]["request_id"] if place + 1 < len(messages) else None
        if message["request_id"] != following and (why := failures.get(message["request_id"])) is not None:
            lines += ["", f"**This turn failed** (`{why['code']}`): {why['message']}"]
    if files:
        lines.append("")
    for ref, label in files.items():
        file = chat["files"][ref]
        lines.append(f"[{label}]: data:{file['mime']};base64,{file['base64']}")
    return "\n".join(lines) + "\n"


def _facts(chat: Mapping[str, Any]) -> str:
    began_ms = chat["first_message_at_ms"] or chat["created_at_ms"]
    cost = f"${chat['cost_usd']}" if chat["cost_usd"] is not None else "unknown"
    used = f"{chat['prompt_tokens']:,} tokens in, {chat['completion_tokens']:,} out, cost {cost}"
    return f"Chat `{visible_name(chat['chat_id'])}`{_at(began_ms)}; {used}."


def _message(message: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[str]:
    """Yields the lines of one message."""
    if "tool" in message:
        yield from _result(message, files)
        return
    yield f"## {_speaker(message)}{_at(message['at_ms'])}"
    if erased := message.get("erased"):
        yield from ("", f"(erased by {visible_name(erased['actor'])}: {visible_name(erased['why'])})")
        return
    if message["text"]:
        yield from ("", message["text"])
    for finding in message.get("findings", ()):
        yield from ("", f"**Evidence does not hold**, line {finding['line']}: {finding['message']}")
    if message.get("refused"):
        yield from ("", "**The answer was not taken.**")
    for part in message.get("attachments", ()):
        yield from ("", _file(part, files))
    for call in message.get("tool_calls", ()):
        yield from ("", f"**Call of `{call['name']}`**", "", *_fenced(_indented(call["arguments_json"])))
        if "changed_by" in call:
            yield from ("", f"Changed by {visible_name(call['changed_by'])}; the model proposed:", "")
            yield from _fenced(_indented(call["proposed_json"]))


def _result(message: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[str]:
    tool = message["tool"]
    if message.get("erased"):
        yield f"**Result of `{tool['name']}`**: (erased)"
    elif tool["ok"]:
        again = ", from the ledger" if tool.get("replayed") else ""
        yield from (f"**Result of `{tool['name']}`**{again}", "")
        yield from _fenced(_indented(tool["content"]))
    else:
        yield f"**`{tool['name']}` failed** (`{tool['error_code']}`): {tool['message']}"
    for part in parts_of(tool["result"]):
        yield from ("", _file(part, files))


def _speaker(message: Mapping[str, Any]) -> str:
    match message["role"]:
        case "user":
            return "User"
        case "system":
            return "Told to the model"
        case _:
            return f"{message['model']} ({message['provider']})" if message.get("model") else "Model"


def _at(at_ms: int | None) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(", %Y-%m-%d %H:%M UTC") if at_ms is not None else ""


def _file(part: Mapping[str, Any], files: Mapping[str, str]) -> str:
    label = files.get(part["bytes_ref"])
    if label is None:
        return f"({part['mime']}, erased)"
    return f"{'!' if part['mime'].startswith('image/') else ''}[{part['mime']}][{label}]"


def _indented(arguments_json: str) -> str:
    try:
        return json.dumps(json.loads(arguments_json), ensure_ascii=False, indent=2)
    except ValueError:
        return arguments_json


def _fenced(text: str) -> Iterator[str]:
    """Yields a block of code, between fences that do not stand in it."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in _TICKS.findall(text)), 3)
    yield from (f"{fence}json", text, fence)
