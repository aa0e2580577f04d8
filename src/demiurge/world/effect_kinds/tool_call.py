"""`tool.call`: its parameters, which of them a grant of type `tool` covers, and what a call uses of a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.world.effect_kinds.kind import EffectFamily, EffectKind, Parameter, ReadBlob, in_list
from demiurge.world.effect_kinds.types import BOOL, HASH, NAT, TEXT, option, record, ref, set_of
from demiurge.world.usage import Used

__all__ = ["TOOL", "TOOLS", "allows_connection"]

TOOL: Final = "tool.call"


def _used(_params: Mapping[str, Any], receipt: Mapping[str, Any], _read: ReadBlob) -> Used:
    """The use by one receipt. A call that asked a person half-way is counted with its last leg."""
    asks = receipt.get("asks")
    payload = asks if asks is not None else receipt["payload"] if receipt["status"] == "ok" else {}
    reported = payload.get("usage") or {}
    return Used(0 if asks is not None else 1, 0, reported.get("total_tokens", 0), reported.get("cost_micros", 0))


def allows_connection(grant: Mapping[str, Any], tool: str, connection_id: str, provider: str) -> bool:
    """Returns whether calls of `tool` under a grant of type `tool` may use this connection. A list that the grant lacks
    allows all; an empty one allows none."""
    tools, connections = grant.get("tools"), grant.get("connections")
    if tools is not None and tool not in tools:
        return False
    return connections is None or connection_id in connections or provider in connections


TOOLS: Final = EffectFamily(
    cap_type="tool",
    kinds=(
        EffectKind(
            name=TOOL,
            params=record(tool=TEXT, tool_call_id=TEXT, call_ref=HASH, refused=option(TEXT)),
            receipt=record(
                tool_call_id=TEXT,
                ok=BOOL,
                error_code=option(TEXT),
                message=TEXT,
                message_ref=HASH,
                view_ref=option(HASH),
                record_ref=HASH,
                events_ref=option(HASH),
                session_ref=option(HASH),
                usage=option(ref("sys/ToolUsage@1")),
                replayed=option(BOOL),
            ),
            origins="plan",
            answers_refusals=True,
            wants=lambda _params: Used(tool_calls=1),
            used=_used,
            takes="a tool, a call by address",
            gives="what the tool runner made of it",
        ),
    ),
    schemas={"sys/ToolUsage@1": record(total_tokens=NAT, cost_micros=NAT)},
    grant=record(tools=option(set_of(TEXT))),
    newer_grants=(record(tools=option(set_of(TEXT)), connections=option(set_of(TEXT))),),
    grant_notes={"connections": "under `sys/tool@2`: providers or ids, see [connections](connections.md#in-a-world)"},
    compared={"tool": Parameter(TEXT)},
    checks=(in_list("tools", "tool", "tool_not_allowed"),),
    adapter="demiurge.world.effects.tool_call:ToolCalls",
    restart="performed again if the tool is read-only or works through capabilities alone; asks the "
    "[ledger](doubts.md#in-a-world) and the tool's `reconcile`; else `unknown_outcome`",
)
