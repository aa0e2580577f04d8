"""`task_router`: says which role a request is for, and what that role needs, from a table of words with weights.

A tie, and a request without any known word, go to the default role with a question for the user: the tool does not
guess. The table is data (`data/roles.json`), so other roles need no other code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.registry.pack.parameters import DRY_RUN
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.story import story

__all__ = ["RouteTask", "gather"]

_MAX_REQUEST: Final = 8000
_MANY_ROLES: Final = 2
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class RouteTask:
    user_request: str = field(metadata={"description": "What the user asked for, in the user's words."})
    dry_run: bool = field(default=False, metadata=DRY_RUN)


async def gather(params: RouteTask) -> Gathered:
    """Returns the role with the greatest weight of matching words, and every other candidate."""
    if not params.user_request.strip() or len(params.user_request) > _MAX_REQUEST:
        raise GatherError(f"A request has 1 to {_MAX_REQUEST} characters.")
    if params.dry_run:
        return dry_run_of(params)
    table = story("roles")
    words = set(_WORD.findall(params.user_request.casefold()))
    candidates = _candidates(table["roles"], words)
    best = [row["role"] for row in candidates if row["weight"] == candidates[0]["weight"]]
    role = best[0] if len(best) == 1 else table["default"]
    needs_outline = bool(words & {"outline", "outlines"})
    value = {
        "decision": "ROUTE" if len(best) == 1 else "CLARIFY",
        "route": role,
        "candidates": candidates,
        "context": [story("files")["outline"]] if needs_outline else [],
        "next_tool": "file_reader" if needs_outline else "file_locator",
        "expected_output": table["roles"][role]["expected_output"],
        "evidence_type": table["roles"][role]["evidence_type"],
        "complexity": "HIGH" if len(candidates) > _MANY_ROLES else "MEDIUM" if len(candidates) > 1 else "LOW",
    }
    return Gathered({**value, "clarify": _question(best)} if len(best) != 1 else value)


def _candidates(roles: dict[str, Any], words: set[str]) -> list[dict[str, Any]]:
    """Returns the roles with matching words, the greatest weight first; equal weights in the order of the names."""
    found = []
    for role, row in roles.items():
        matched = sorted(words & row["words"].keys())
        if matched:
            found.append({"role": role, "weight": sum(row["words"][word] for word in matched), "words": matched})
    return sorted(found, key=lambda row: (-row["weight"], row["role"]))


def _question(best: list[str]) -> str:
    if not best:
        return "What should be done: plan, write, edit, review, or check for continuity?"
    return f"This could be work for {' or '.join(best)}. Which of them should begin?"
