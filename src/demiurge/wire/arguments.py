"""A tool call as the model wrote it: the rules for its arguments, its id and its name.

Invariant: every provider accepts the ids and names that are kept. A model may invent ids of a megabyte and names with
spaces and escapes, which would make every later request of the conversation fail.

* An id is kept if it is one that providers use (`call_…`, `toolu_…`, `functions.get_time:0`, a UUID): 1 to 64 of
  `A-Za-z0-9_.:-`. Else, and when it is missing or taken, it is derived from the answer.
* A name is a tool id, or a dotted one (`core.get_current_time`), or is turned into the form of one that no tool has:
  what can be read of it, and a hash. The call stays and is answered "no such tool".
* One answer has at most MAX_CALLS calls; one with more is refused, whoever made it.

Also invariant: arguments are exactly one JSON object, parsed strictly, or the call is invalid. They are never repaired:
a lenient parser reads the cut text `{"path": "/` as `{}` and the tool runs with arguments that nobody wrote.

* No arguments at all (absent, null or the empty string) is how several hosts spell a call of a tool that takes none; it
  stands for `{}` (which the tool's schema may still refuse).
* A call that the provider was still writing when the answer was cut is invalid even if its text parses: some hosts
  close the brackets of a cut call themselves.
* Sent back in a later request, an invalid call's text is wrapped in an object. Several hosts parse the arguments of
  every earlier call, so one bad text would make all later requests of the conversation fail."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.ids import UNNAMED, canonical_id
from demiurge.values import canonical_json
from demiurge.wire.errors import ProviderError
from demiurge.wire.fields import mend_surrogates, storable
from demiurge.wire.items import Completion, Item, Message, ToolCall, ToolOutput
from demiurge.wire.open_calls import open_calls

__all__ = [
    "INVALID_ARGUMENTS_KEY",
    "MAX_CALLS",
    "DraftCall",
    "call_name",
    "check_count",
    "finish_calls",
    "is_object",
    "kept_beside",
    "replay_arguments",
    "replay_object",
    "replayed_beside",
    "sound_calls",
    "with_flags",
]

INVALID_ARGUMENTS_KEY = "invalid_arguments"

MAX_CALLS = 256
"""The most calls of one answer; far more than a model proposes, few enough to hold in memory."""

_CALL_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_HEAD = 51
_NAME_HASH = 12


@dataclass(frozen=True, slots=True)
class DraftCall:
    """A call in the provider's JSON, before its id and arguments are checked. `cut`: the answer stopped while the call
    was being written; `raw`: see `ToolCall`."""

    id: object
    name: object
    arguments: object
    cut: bool = False
    raw: Mapping[str, Any] | None = None


def finish_calls(drafts: Sequence[DraftCall], response_id: str | None) -> list[ToolCall]:
    """Returns the calls of one answer, with well-formed and distinct ids (derived from the answer if need be).

    Raises ProviderError("bad_response") for a call without a name and for more than MAX_CALLS calls.
    """
    check_count(len(drafts))
    taken: set[str] = set()
    calls = []
    for position, draft in enumerate(drafts):
        if not isinstance(draft.name, str) or not draft.name:
            raise ProviderError(code="bad_response", detail="a tool call has no name")
        text, invalid = _arguments(draft)
        call_id = mend_surrogates(draft.id) if isinstance(draft.id, str) else ""
        seed = json.dumps([response_id, position, call_id, mend_surrogates(draft.name), text])
        while call_id in taken or _CALL_ID.fullmatch(call_id) is None:
            seed = hashlib.sha256(seed.encode()).hexdigest()
            call_id = f"call_{seed[:24]}"
        taken.add(call_id)
        calls.append(ToolCall(call_id, call_name(draft.name), text, invalid, draft.raw))
    return calls


def check_count(calls: int) -> None:
    """Raises ProviderError (`bad_response`) for more than MAX_CALLS calls."""
    if calls > MAX_CALLS:
        raise ProviderError(
            f"The model's answer was refused: it has more than {MAX_CALLS} tool calls. "
            "Ask for less at once, or ask another model.",
            code="bad_response",
        )


def sound_calls(completion: Completion, seed: bytes, taken: Iterable[str] = ()) -> Completion:
    """Returns the completion with calls in the form that decoders give them, whatever model made it. Each call's id is
    unique, and not in `taken`, so that results are matched by id alone. The output of a call that the provider ran
    itself gets the id of that call.

    An id that is missing, repeated or of another form is derived from `seed`, the same for the same seed. Raises
    ProviderError (`bad_response`) for an answer with another role's message, whose calls are not the open calls of its
    items, or with more than MAX_CALLS of them.
    """
    check_count(len(completion.tool_calls))
    if open_calls(completion.items) != completion.tool_calls:
        raise ProviderError(code="bad_response", detail="the calls of the answer are not those of its items")
    used, count = set(taken), 0
    names: dict[str, str] = {}
    items: list[Item] = []
    for item in completion.items:
        if isinstance(item, ToolCall):
            call = _sound_call(item, seed + count.to_bytes(4, "big"), used)
            count, names[item.id] = count + 1, call.id
            items.append(call)
        elif _is_the_models(item, names):
            items.append(replace(item, id=names[item.id]) if isinstance(item, ToolOutput) else item)
        else:
            raise ProviderError(code="bad_response", detail="the answer speaks for somebody else")
    return replace(completion, tool_calls=open_calls(items), items=tuple(items))


def _sound_call(call: ToolCall, digest: bytes, used: set[str]) -> ToolCall:
    call_id = call.id
    while call_id in used or _CALL_ID.fullmatch(call_id) is None:
        digest = hashlib.sha256(digest).digest()
        call_id = f"call_{digest.hex()[:24]}"
    used.add(call_id)
    invalid = call.invalid or not is_object(call.arguments_json)
    text = mend_surrogates(call.arguments_json)
    return replace(call, id=call_id, name=call_name(call.name), arguments_json=text, invalid=invalid)


def _is_the_models(item: Item, made: Collection[str]) -> bool:
    """Returns whether a model may produce the item. A person's message begins a turn and a tool's output ends a call,
    so a model may produce neither, except the output of a call (by id) in the same answer."""
    if isinstance(item, ToolOutput):
        return item.id in made
    return not isinstance(item, Message) or item.role == "assistant"


def call_name(name: str) -> str:
    """Returns the name as it is kept: `^[a-zA-Z0-9_-]{1,64}$`, the same for the same text.

    A name that is no tool id gets a hash, so that the repair never turns it into the name of a tool.
    """
    name = mend_surrogates(name)
    known = canonical_id(name)
    if known != UNNAMED:
        return known
    head = _NOT_IN_NAMES.sub("_", name[: 4 * _NAME_HEAD])[:_NAME_HEAD]
    return f"{head}_{hashlib.sha256(name.encode()).hexdigest()[:_NAME_HASH]}"


def kept_beside(entry: Mapping[str, Any], kind: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Returns the part of a call's JSON that `ToolCall.raw` keeps: the given fields, under the `type` that the call has
    in its format; None if there are none, or none that can be kept."""
    found = {name: entry[name] for name in names if entry.get(name) is not None}
    return storable({"type": kind, **found}) if found else None


def replayed_beside(call: ToolCall, kind: str) -> dict[str, Any]:
    """Returns the fields to send back with a call of this format; none for a call of another format."""
    raw = call.raw or {}
    return {name: raw[name] for name in raw if name != "type"} if raw.get("type") == kind else {}


def with_flags(items: Iterable[Item]) -> tuple[Item, ...]:
    """Returns the items of a stored conversation with each call marked `invalid` whose text is no JSON object, so that
    encoders wrap it."""
    return tuple(
        replace(item, invalid=True) if isinstance(item, ToolCall) and not is_object(item.arguments_json) else item
        for item in items
    )


def replay_arguments(call: ToolCall) -> str:
    """Returns the arguments for later requests: verbatim, or wrapped if they are not a JSON object."""
    if not call.invalid or is_object(call.arguments_json):
        return call.arguments_json
    return json.dumps({INVALID_ARGUMENTS_KEY: call.arguments_json}, ensure_ascii=False)


def replay_object(call: ToolCall) -> dict[str, Any]:
    """Returns the arguments as an object, for formats that need one. Raises InvalidValue for a call that claims to be
    valid and is not."""
    return canonical_json.parse_object(replay_arguments(call))


def _arguments(draft: DraftCall) -> tuple[str, bool]:
    """Returns the text, and whether the call is invalid."""
    raw = draft.arguments
    if raw is None or raw == "":
        raw = "{}"
    elif not isinstance(raw, str):
        raw = json.dumps(raw, ensure_ascii=False)
    text = mend_surrogates(raw)
    damaged = text.count("\ufffd") != raw.count("\ufffd")
    return text, draft.cut or damaged or not is_object(text)


def is_object(text: str) -> bool:
    """Returns whether the text is exactly one JSON object."""
    try:
        canonical_json.parse_object(text)
    except InvalidValue:
        return False
    return True
