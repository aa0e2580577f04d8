"""(c) Requests with tool results: from the decoded answers and the results, our encoder says what the client said.

A request is read into items (`turns`); where an answer that was recorded made the calls, its decoded items stand in
their place; the encoder makes a request of them, and that is read again. The same must come out: who said what, which
calls with which arguments, which results for them, in this order. Reasoning and opaque items are compared where no
recorded answer stands in (clients send a choice of their own of them).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from bench.wire.interactions import Interaction, decoded
from bench.wire.turns import entries, is_paired, items_of, other_parts
from demiurge.errors import InvalidValue
from demiurge.wire import Completion, Image, Item, Message, Opaque, Part, Reasoning, ToolCall, ToolOutput

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
    try:
        encoded = entry.wire.encode_messages(sent)
    except InvalidValue as error:
        return taken, _refusal(entry, error)
    if is_paired(entry.api, entry.request) and not is_paired(entry.api, encoded):
        return taken, "unexplained: not paired"
    if _tale(items_of(entry.api, encoded), bool(taken)) == _tale(items, bool(taken)):
        lost = sorted(_lost(entry))
        return taken, f"kept as text only: {', '.join(lost)} in a result" if lost else None
    return taken, "unexplained"


def _refusal(entry: Interaction, error: InvalidValue) -> str:
    """Why our encoder may not say what a request says: it was malformed, or it is more than the format can hold."""
    if error.code == "unsupported_attachment":
        return "refused: this format has no place for it"
    return "refused here and by the provider" if entry.status >= 400 else "unexplained: refused here"


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


def _digests(images: Iterable[Part]) -> tuple[str, ...]:
    return tuple(
        f"{image.mime} {hashlib.sha256(image.data).hexdigest()}" for image in images if isinstance(image, Image)
    )


def _told_all(item: Item, only_calls: bool) -> Iterator[Any]:
    match item:
        case Message():
            yield "said", item.role, _words([item])
            if images := _digests(item.content):
                yield "shown", item.role, images
        case ToolCall():
            yield _told(item)
            if item.raw and not only_calls:
                yield "beside", json.dumps(item.raw, sort_keys=True)
        case ToolOutput():
            yield "result", item.id, item.content, item.is_error, _digests(item.images)
        case Reasoning(raw=raw) | Opaque(raw=raw) if not only_calls:
            yield "verbatim", json.dumps(raw, sort_keys=True)


def _told(call: ToolCall) -> Any:
    try:
        arguments = json.dumps(json.loads(call.arguments_json), sort_keys=True)
    except ValueError:
        arguments = call.arguments_json
    return "call", call.id, call.name, arguments


def _lost(entry: Interaction) -> Iterator[str]:
    for message in entries(entry.request.get("messages")):
        if message.get("role") == "tool":
            yield from other_parts(message.get("content"))
        for block in entries(message.get("content")):
            if block.get("type") == "tool_result":
                yield from other_parts(block.get("content"))
    for item in entries(entry.request.get("input")):
        if item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield from other_parts(item.get("output"))
