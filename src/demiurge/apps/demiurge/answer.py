"""The answer to a call that no runner answered: in the closed codes, the words and the bytes that the runner uses.

Reducers of worlds that were recorded earlier are computed again from their kept source, which imports `known_code`,
`said` and `error_blob` from here: what these three give must not change.
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
"""How the kernel's refusals were called towards the model; any other failure of the effect was `execution`."""


class Failure(NamedTuple):
    """How a call failed: the closed code, the sentence, and the message blob that tells the model."""

    code: str
    message: str
    blob: bytes


def failure_of(call_id: str, code: str, message: str = "") -> Failure:
    """The failure of a call that ended with `code`, closed or an effect's own; without a `message` in the fixed
    sentence of its code."""
    answer = failure_answer(tool_code(code), message or None)
    return Failure(answer["error_code"], answer["message"], tool_blob(call_id, failure_text(answer)))


def known_code(code: str) -> str:
    """`code` if it is one of the closed codes, else the one that stood for it: kept as it is."""
    return code if code in set(ToolErrorCode) else _CODES.get(code, ToolErrorCode.EXECUTION).value


def said(code: str, message: str = "") -> str:
    """`message`, or the fixed sentence of a closed code: kept as it is."""
    return message or SAFE_MESSAGES[ToolErrorCode(code)]


def error_blob(call_id: str, code: str, message: str) -> bytes:
    """The tool message for a call that ended with an error, as it was written before `failure_of`: kept as it is."""
    content = canonical_json.encode({"ok": False, "error_code": code, "message": message}).decode()
    return canonical_json.encode({"role": "tool", "tool_call_id": call_id, "content": content})
