"""The text for the model about a call that ran with arguments which a person changed: it names both argument sets."""

from __future__ import annotations

from typing import Final

from demiurge.tools.record import ToolExecResult
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall

__all__ = ["answer_text", "edit_note"]

_CHANGED: Final = "A person changed the arguments of this call before approving it."


def answer_text(call: EffectCall, result: ToolExecResult) -> str:
    """Returns the text for the model: the runner's, after both argument sets if a person changed the arguments."""
    edited = call.intent.edited_from
    if edited is None:
        return result.content
    proposed, used = (
        canonical_json.parse_object(call.get_blob(Ref(ref)))["arguments_json"]
        for ref in (edited["call_ref"], call.intent.params["call_ref"])
    )
    return f"{_CHANGED}\nProposed arguments: {proposed}\nArguments used: {used}\nResult: {result.content}"


def edit_note(text: str) -> str:
    """Returns what the text for the model says before the result of a call with changed arguments; "" for the text of
    another call."""
    return text.partition("\nResult: ")[0] if text.startswith(f"{_CHANGED}\n") else ""
