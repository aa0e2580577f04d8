"""(c) Requests with tool results: from the decoded answers and the results, our encoder says what the client said.

A request is read into items (`turns`); where an answer that was recorded made the calls, its decoded items stand in
their place; the encoder makes a request of them, and that is read again. The same must come out: who said what, which
calls with which arguments, which results for them, in this order. Reasoning and opaque items are compared where no
recorded answer stands in (clients send a choice of their own of them).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from bench.wire.interactions import Interaction, decoded
from bench.wire.turns import is_paired, items_of, other_parts
from demiurge.wire import Completion, Item, Message, Opaque, Reasoning, ToolCall, ToolOutput

__all__ = ["Answers", "answers", "has_results", "resent_difference"]

Answers = Mapping[tuple[Any, ...], Completion]


def has_results(entry: Interaction) -> bool:
    return any(isinstance(item, ToolOutput) for item in items_of(entry.api, entry.request))


def answers(entries: Iterable[Interaction]) -> Answers:
    """The recorded answers with calls, by format and calls."""
    found = {}
    for entry in entries:
        completion = decoded(entry)
        if isinstance(completion, Completion) and completion.tool_calls:
            found[(entry.api, *map(_told, completion.tool_calls))] = completion
    return found


def resent_difference(entry: Interaction, known: Answers) -> tuple[int, str | None]:
    """How many turns of the model were taken from recorded answers, and the reason if something else comes out."""
    items = items_of(entry.api, entry.request)
    sent, taken = _from_answers(entry.api, items, known)
    encoded = entry.wire.encode_messages(sent)
    if is_paired(entry.api, entry.request) and not is_paired(entry.api, encoded):
        return taken, "unexplained: not paired"
    if _tale(items_of(entry.api, encoded), bool(taken)) == _tale(items, bool(taken)):
        lost = sorted(_lost(entry))
        return taken, f"kept as text only: {', '.join(lost)} in a result" if lost else _namespace(entry)
    return taken, "unexplained"


def _from_answers(api: str, items: Sequence[Item], known: Answers) -> tuple[list[Item], int]:
    """The items, with recorded answers in place of the model's turns that they made."""
    sent: list[Item] = []
    taken = 0
    for is_model, group in groupby(items, key=_is_models):
        turn = list(group)
        answer = known.get((api, *(_told(item) for item in turn if isinstance(item, ToolCall))))
        if is_model and answer is not None and _words(answer.items) == _words(turn):
            turn, taken = list(answer.items), taken + 1
        sent += turn
    return sent, taken


def _is_models(item: Item) -> bool:
    return not isinstance(item, ToolOutput) and not (isinstance(item, Message) and item.role != "assistant")


def _words(items: Iterable[Item]) -> str:
    return "".join("".join(item.text.split()) for item in items if isinstance(item, Message))


def _tale(items: Sequence[Item], only_calls: bool) -> list[Any]:
    """What the items say: the system first, texts without their blanks, those of one speaker in a row as one."""
    system = [item for item in items if isinstance(item, Message) and item.role in ("system", "developer")]
    tale: list[Any] = [("system", _words(system))]
    for item in items:
        if item in system:
            continue
        for told in _told_all(item, only_calls):
            if told[0] == "said" and tale[-1][:2] == told[:2]:
                tale[-1] = (*told[:2], tale[-1][2] + told[2])
            else:
                tale.append(told)
    return tale


def _told_all(item: Item, only_calls: bool) -> Iterator[Any]:
    match item:
        case Message():
            yield "said", item.role, _words([item])
        case ToolCall():
            yield _told(item)
        case ToolOutput():
            yield "result", item.id, item.content, item.is_error
        case Reasoning(raw=raw) | Opaque(raw=raw) if not only_calls:
            yield "verbatim", json.dumps(raw, sort_keys=True)


def _told(call: ToolCall) -> Any:
    try:
        arguments = json.dumps(json.loads(call.arguments_json), sort_keys=True)
    except ValueError:
        arguments = call.arguments_json
    return "call", call.id, call.name, arguments


def _lost(entry: Interaction) -> Iterator[str]:
    for message in entry.request.get("messages", ()):
        content = message["content"] if isinstance(message.get("content"), list) else ()
        for block in content:
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                yield from other_parts(block.get("content"))
    inputs = entry.request.get("input")
    for item in inputs if isinstance(inputs, list) else ():
        if item.get("type") == "function_call_output":
            yield from other_parts(item["output"])


def _namespace(entry: Interaction) -> str | None:
    inputs = entry.request.get("input")
    named = any("namespace" in item for item in (inputs if isinstance(inputs, list) else ()))
    return "a call's `namespace` (the provider's tool search) is not kept" if named else None
