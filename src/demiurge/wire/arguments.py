"""A tool call's arguments: which text counts as arguments, and what is sent back in its place when it does
not.

Invariant: arguments are exactly one JSON object, parsed strictly, or the call is invalid. They are never
repaired: a lenient parser reads the cut text `{"path": "/` as `{}` and the tool runs with arguments that
nobody wrote.

* No arguments at all (absent, null or the empty string) is how several hosts spell a call of a tool that
  takes none; it stands for `{}` (which the tool's schema may still refuse).
* A call that the provider was still writing when the answer was cut is invalid even if its text parses: some
  hosts close the brackets of a cut call themselves.
* Sent back in a later request, an invalid call's text is wrapped in an object. Several hosts parse the
  arguments of every earlier call, so one bad text would make all later requests of the conversation fail.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.wire.errors import ProviderError
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import ToolCall

__all__ = ["INVALID_ARGUMENTS_KEY", "DraftCall", "finish_calls", "replay_arguments"]

INVALID_ARGUMENTS_KEY = "invalid_arguments"


@dataclass(frozen=True, slots=True)
class DraftCall:
    """A call as the provider's JSON has it, before its id and arguments are settled. `cut`: it was being
    written when the answer stopped."""

    id: object
    name: object
    arguments: object
    cut: bool = False


def finish_calls(drafts: Sequence[DraftCall], response_id: str | None) -> list[ToolCall]:
    """The calls of one answer, with ids that are present and distinct (derived from the answer where they
    are not).

    Raises ProviderError("bad_response") for a call without a name.
    """
    taken: set[str] = set()
    calls = []
    for position, draft in enumerate(drafts):
        if not isinstance(draft.name, str) or not draft.name:
            raise ProviderError(code="bad_response", detail="a tool call has no name")
        call = _call(draft, draft.name)
        if not call.id or call.id in taken:
            call = replace(call, id=_derived_id(response_id, position, call))
        taken.add(call.id)
        calls.append(call)
    return calls


def replay_arguments(call: ToolCall) -> str:
    """The arguments as later requests carry them: verbatim, or wrapped when they are not a JSON object."""
    if not call.invalid or _is_object(call.arguments_json):
        return call.arguments_json
    return json.dumps({INVALID_ARGUMENTS_KEY: call.arguments_json}, ensure_ascii=False)


def _call(draft: DraftCall, name: str) -> ToolCall:
    raw = draft.arguments
    if raw is None or raw == "":
        raw = "{}"
    elif not isinstance(raw, str):
        raw = json.dumps(raw, ensure_ascii=False)
    text = mend_surrogates(raw)
    damaged = text.count("\ufffd") != raw.count("\ufffd")
    invalid = draft.cut or damaged or not _is_object(text)
    call_id = draft.id if isinstance(draft.id, str) else ""
    return ToolCall(mend_surrogates(call_id), mend_surrogates(name), text, invalid)


def _is_object(text: str) -> bool:
    try:
        canonical_json.parse_object(text)
    except InvalidValue:
        return False
    return True


def _derived_id(response_id: str | None, position: int, call: ToolCall) -> str:
    """Stable for one answer, so that reading a recorded answer again gives the same id."""
    seed = json.dumps([response_id, position, call.id, call.name, call.arguments_json])
    return "call_" + hashlib.sha256(seed.encode()).hexdigest()[:24]
