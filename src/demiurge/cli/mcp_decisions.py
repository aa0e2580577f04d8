"""The decisions of the tool policy in force on tools that a person has just trusted, as lines.

A person's `--allow` is one line among others: a policy of the world's own may still ask about a tool or deny it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from demiurge.bootstrap import World
from demiurge.bootstrap.backend.mcp_views import McpToolView
from demiurge.bootstrap.policy_view import explain_tool
from demiurge.cli.mcp_lines import by_kind

__all__ = ["RULES", "decision_lines"]

RULES: Final[Mapping[str, str]] = {
    "ask": "a person is asked before each call",
    "allow": "nobody is asked before a call",
}
"""The words for each rule of a trust, as the end of a sentence."""

_NAMED: Final = 6
"""The most ids that a line names."""

_TAINTED: Final[Mapping[str, str]] = {
    "require_approval": "a person is asked once the turn has read untrusted text",
    "deny": "it is denied once the turn has read untrusted text",
}


def decision_lines(world: World, server: str, tools: Sequence[McpToolView], rule: str) -> list[str]:
    """Returns a line for each decision of the policy in force on these trusted tools, with their ids. `rule`: the one
    that the person gave."""
    if not tools:
        return [f"A model may call 0 tools of {server}."]
    groups: dict[tuple[str, ...], list[McpToolView]] = {}
    node = world.manifest()
    for tool in tools:
        found = explain_tool(node, tool.tool_id, world.caller)
        groups.setdefault((tool.kind, *_said(found, rule)), []).append(tool)
    return [line for (kind, *said), part in groups.items() for line in _lines(server, part, kind, said)]


def _said(found: Mapping[str, Any], rule: str) -> tuple[str, str, str]:
    """Returns the decision, what a call meets by it, and the reason if it is not the rule's."""
    decision, tainted = found["decision"], found["tainted"]["decision"]
    if decision == "deny":
        return decision, "the tool policy denies it", found["why"]
    if decision == "require_approval":
        return decision, RULES["ask"], "" if rule == "ask" else found["why"]
    later = f"; {_TAINTED[tainted]}" if tainted != decision else ""
    return decision, f"{RULES['allow']}{later}", ""


def _lines(server: str, tools: Sequence[McpToolView], kind: str, said: Sequence[str]) -> Iterator[str]:
    decision, meets, why = said
    ids = [tool.tool_id for tool in tools]
    named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
    of = f"{by_kind(tools)} of {server} ({named})"
    reason = f": {why}; `demiurge policy explain {ids[0]}` says more" if why else ""
    if decision == "deny":
        yield f"Nobody may call {of}: {meets}{reason}."
    elif kind == "tool":
        yield f"A model may call {of}; {meets}{reason}."
    else:
        yield (
            f"No model is offered what is no tool: {of}. `demiurge mcp serve` and `demiurge tools call` read it; "
            f"{meets}{reason}."
        )
