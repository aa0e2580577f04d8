"""What a refusal or a failure in a world is called towards a model: one of the closed codes.

The kernel, the grants and the adapters say more exactly what was wrong, by codes of their own that are recorded.
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
"""What a grant or the world's policy refuses with, beside the codes that end in `_not_allowed`."""


def is_refusal(code: str) -> bool:
    """Whether an effect that failed with `code` was refused by a grant or by the world's policy."""
    return code in _REFUSALS or code.endswith("_not_allowed")


def tool_code(code: str) -> ToolErrorCode:
    """The closed code of a tool call that an effect's `code` ended."""
    if code in _CLOSED:
        return ToolErrorCode(code)
    if code == "no_adapter":
        return ToolErrorCode.UNAVAILABLE
    return ToolErrorCode.POLICY_DENIED if is_refusal(code) else ToolErrorCode.EXECUTION


_CLOSED = frozenset(code.value for code in ToolErrorCode)
