"""`ask`: how a capability of a running tool asks the kernel for an effect.

The capabilities of `tools.capabilities` are implemented beside the adapters of their effects. Each method asks for
effects, so a handler can do exactly what the caps and the world's policy let its open `tool.call` do, and each use is
journaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.world.authority.refusals import tool_code
from demiurge.world.effect import EffectCall

__all__ = ["ask"]

_ENDS = (ToolErrorCode.POLICY_DENIED, ToolErrorCode.BUDGET_EXCEEDED, ToolErrorCode.DEADLINE_EXCEEDED)
"""Codes with which the kernel refuses an effect of a running tool; any other failure is the effect's own."""


async def ask(call: EffectCall, kind: str, **params: Any) -> Mapping[str, Any]:
    """Returns the receipt's payload. Raises ToolFailure if the effect was refused, had no budget left or is in doubt,
    else ToolUserError with the failure's message."""
    result = await call.request(kind, params)
    payload: Mapping[str, Any] = result["payload"]
    if result["status"] != "ok":
        code = tool_code(payload["code"])
        if code is ToolErrorCode.UNKNOWN_OUTCOME:
            raise ToolFailure(code)
        if code in _ENDS:
            raise ToolFailure(code, safe_message=payload["message"])
        raise ToolUserError(payload["message"])
    return payload
