"""The text for the model about a call that ran with arguments which a person changed: it names both argument sets."""

from __future__ import annotations

from demiurge.tools.record import ToolExecResult
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.effect import EffectCall

__all__ = ["answer_text"]


def answer_text(call: EffectCall, result: ToolExecResult) -> str:
    """Returns the text for the model: the runner's, after both argument sets if a person changed the arguments."""
    edited = call.intent.edited_from
    if edited is None:
        return result.content
    proposed, used = (
        canonical_json.parse_object(call.get_blob(Ref(ref)))["arguments_json"]
        for ref in (edited["call_ref"], call.intent.params["call_ref"])
    )
    return (
        f"A person changed the arguments of this call before approving it.\nProposed arguments: {proposed}\n"
        f"Arguments used: {used}\nResult: {result.content}"
    )
