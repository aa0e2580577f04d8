"""The card of a call that waits: the words that a person reads before deciding, on the pages and at the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.apps.demiurge import CALLS, CHAT
from demiurge.bootstrap.backend.asked_calls import PREFIX
from demiurge.bootstrap.policy_view import explain_tool, is_default_policy
from demiurge.tools.taint_words import taint_reason
from demiurge.values.caller import Caller
from demiurge.visible_text import visible, visible_name
from demiurge.world.unit import Unit

__all__ = ["EFFECTS", "CallCard", "call_card"]

EFFECTS: Final[Mapping[str, str]] = {
    "read_only": "only reads",
    "state_change": "changes the state of this world",
    "external_side_effect": "may change something outside this world, which cannot be undone from here",
}
"""The effect levels of tools in words."""


@dataclass(frozen=True, slots=True)
class CallCard:
    """The words of a card. `asker`: who wants the call, "" for a chat; `description`: the tool's own, "" if the world
    lacks the tool; `effect`: what a call of it does, as a sentence; `why`: one sentence that says why a person is
    asked. All but the description is shown as it is: names in it are cut and hide nothing (`visible_name`)."""

    asker: str
    description: str
    effect: str
    why: str


def call_card(node: Mapping[str, Any], call: Mapping[str, Any], caller: Caller, policy_name: str = "") -> CallCard:
    """Returns the card of a waiting call. `node` is the manifest as data, and `caller` the person who looks;
    `policy_name` says whose tool policy is in force."""
    tool, tainted = call.get("tool", ""), call.get("tainted")
    spec = next((spec for spec in node["toolset"] if spec["name"] == tool), None)
    explained = explain_tool(node, tool, caller)
    reasons = [taint_reason(tainted)] if tainted else []
    if spec is None:
        reasons.append("the tool is not in the world's toolset")
    elif not (tainted and explained["decision"] == "allow"):
        policy = policy_name or ("the default policy" if is_default_policy(node) else "")
        reasons.append(visible(explained["why"]) + (f" ({visible(policy)})" if policy else ""))
    why = f"A person is asked because {', and '.join(reasons)}." if reasons else ""
    effect = EFFECTS.get(spec["effect"]) if spec is not None else None
    return CallCard(
        _asker(call),
        spec["description"] if spec is not None else "",
        f"It {effect} ({spec['effect']})." if spec is not None and effect is not None else "It has no known effect.",
        why,
    )


def _asker(call: Mapping[str, Any]) -> str:
    unit = Unit.parse(call["unit"]) if call.get("unit") else None
    if unit is None or unit.module == CHAT:
        return ""
    by = visible_name(call.get("actor") or "an unknown caller")
    is_gateway = unit.module == CALLS and unit.key.startswith(PREFIX)
    if not is_gateway:
        return f"{by}, outside of any chat,"
    client = visible_name(call.get("client") or "").replace('"', "'")  # a quotation mark would end the name
    return f'The MCP client "{client}" of {by}' if client else f"An MCP client of {by}"
