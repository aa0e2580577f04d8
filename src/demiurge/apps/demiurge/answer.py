"""The answer to a call that did not run: with the closed codes, words and bytes that the runner uses.

Reducers of earlier worlds run again from their kept source, which imports `known_code`, `said` and `error_blob` from
this module: the results of these three must not change.
"""

from __future__ import annotations

from typing import NamedTuple

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, failure_answer, failure_text
from demiurge.values import canonical_json
from demiurge.world.authority.refusals import tool_code
from demiurge.world.messages import tool_blob

__all__ = ["Failure", "error_blob", "failure_of", "known_code", "said"]

_CODES = {
    "effect_level": ToolErrorCode.POLICY_DENIED,
    "expired": ToolErrorCode.POLICY_DENIED,
    "no_adapter": ToolErrorCode.UNAVAILABLE,
    "no_grant": ToolErrorCode.POLICY_DENIED,
    "origin_not_allowed": ToolErrorCode.POLICY_DENIED,
    "tool_not_allowed": ToolErrorCode.POLICY_DENIED,
}
"""The codes shown to the model for the kernel's refusals; any other failure of the effect was `execution`."""


class Failure(NamedTuple):
    """The failure of a call: the closed code, the sentence, and the message blob for the model."""

    code: str
    message: str
    blob: bytes


def failure_of(call_id: str, code: str, message: str = "") -> Failure:
    """Returns the failure of a call that ended with `code`, a closed code or one of an effect's own. An empty `message`
    means the fixed sentence of the code."""
    answer = failure_answer(tool_code(code), message or None)
    return Failure(answer["error_code"], answer["message"], tool_blob(call_id, failure_text(answer)))


def known_code(code: str) -> str:
    """Returns `code` if it is one of the closed codes, else the one that stands for it. Kept source imports it: do not
    change."""
    return code if code in set(ToolErrorCode) else _CODES.get(code, ToolErrorCode.EXECUTION).value


def said(code: str, message: str = "") -> str:
    """Returns `message`, or the fixed sentence of a closed code. Kept source imports it: do not change."""
    return message or SAFE_MESSAGES[ToolErrorCode(code)]


def error_blob(call_id: str, code: str, message: str) -> bytes:
    """Returns the tool message for a call that ended with an error, as written before `failure_of`. Kept source imports
    it: do not change."""
    content = canonical_json.encode({"ok": False, "error_code": code, "message": message}).decode()
    return canonical_json.encode({"role": "tool", "tool_call_id": call_id, "content": content})
