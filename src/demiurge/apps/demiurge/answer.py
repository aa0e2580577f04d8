"""The answer to a call that did not run: in the closed codes and the words that the runner uses."""

from __future__ import annotations

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.values import canonical_json

__all__ = ["error_blob", "known_code", "said"]

_CODES = {
    "effect_level": ToolErrorCode.POLICY_DENIED,
    "expired": ToolErrorCode.POLICY_DENIED,
    "no_adapter": ToolErrorCode.UNAVAILABLE,
    "no_grant": ToolErrorCode.POLICY_DENIED,
    "origin_not_allowed": ToolErrorCode.POLICY_DENIED,
    "tool_not_allowed": ToolErrorCode.POLICY_DENIED,
}
"""How the kernel's refusals are called towards the model; any other failure of the effect is `execution`."""


def known_code(code: str) -> str:
    """`code` if it is one of the closed codes, else the one that stands for it."""
    return code if code in set(ToolErrorCode) else _CODES.get(code, ToolErrorCode.EXECUTION).value


def said(code: str, message: str = "") -> str:
    """`message`, or the fixed sentence of a closed code."""
    return message or SAFE_MESSAGES[ToolErrorCode(code)]


def error_blob(call_id: str, code: str, message: str) -> bytes:
    """The tool message for a call that ended with an error (architecture.md 4)."""
    content = canonical_json.encode({"ok": False, "error_code": code, "message": message}).decode()
    return canonical_json.encode({"role": "tool", "tool_call_id": call_id, "content": content})
