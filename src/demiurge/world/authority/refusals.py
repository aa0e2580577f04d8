"""Closed codes: the code that a model sees for a refusal or a failure in a world.

The kernel, the grants and the adapters use finer codes of their own, which are recorded.
"""

from __future__ import annotations

from demiurge.tools.errors import ToolErrorCode

__all__ = ["is_refusal", "tool_code"]

_REFUSALS = frozenset(
    {
        "address_refused",
        "cap_params_invalid",
        "effect_level",
        "expired",
        "invalid_url",
        "literal_secret",
        "max_tokens_exceeded",
        "no_grant",
        "policy_denied",
        "redirect_refused",
        "redirects_exceeded",
        "too_large",
    }
)
"""Codes with which a grant or the world's policy refuses, besides those that end in `_not_allowed`."""


def is_refusal(code: str) -> bool:
    """Returns whether `code` says that a grant or the world's policy refused an effect."""
    return code in _REFUSALS or code.endswith("_not_allowed")


def tool_code(code: str) -> ToolErrorCode:
    """Returns the closed code of a tool call that ended with an effect's `code`."""
    if code in _CLOSED:
        return ToolErrorCode(code)
    if code == "no_adapter":
        return ToolErrorCode.UNAVAILABLE
    return ToolErrorCode.POLICY_DENIED if is_refusal(code) else ToolErrorCode.EXECUTION


_CLOSED = frozenset(code.value for code in ToolErrorCode)
