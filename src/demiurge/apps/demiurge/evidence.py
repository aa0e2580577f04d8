"""The consequence of an answer whose evidence does not hold, by the setting `evidence` of the manifest.

`llm.generate` checks the citations of an answer and stores what it found (`findings_ref`). Here nothing is checked
again: the words for the model and for the person come from the stored findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from demiurge.values import canonical_json
from demiurge.world.messages import user_blob

__all__ = ["REFUSED_CODE", "correction", "verdict", "why_refused"]

REFUSED_CODE: Final = "evidence_refused"
"""The code of a turn that failed because the evidence of its answer does not hold."""

MAX_RETRIES: Final = 1
"""How often a turn asks its model for a better answer."""


def verdict(settings: Mapping[str, Any], retries: int, *, may_ask: bool) -> Literal["mark", "retry", "refuse"]:
    """Returns what becomes of an answer with findings. `retries`: how often this turn has asked again; `may_ask`: its
    rounds allow another request."""
    match settings.get("evidence", "mark"):
        case "retry":
            return "retry" if retries < MAX_RETRIES and may_ask else "refuse"
        case "refuse":
            return "refuse"
        case _:
            return "mark"


def correction(findings: bytes) -> bytes:
    """Returns the message that asks the model for an answer without these faults. It is in the user's role, since some
    providers take no system message after an answer."""
    lines = [
        "The evidence of your last answer was checked, and does not hold:",
        *(f"- {found}" for found in _sentences(findings)),
        "Answer again. Cite only receipts that calls of this chat gave, and quote word for word what they read; call "
        "the tool if you need evidence, or leave the citation out.",
    ]
    return user_blob("\n".join(lines))


def why_refused(findings: bytes) -> str:
    """Returns why a turn failed, for the person."""
    first, *more = _sentences(findings)
    others = f" And {len(more)} more." if more else ""
    return (
        f"The evidence of the answer does not hold: {first}{others} The setting `evidence` refuses such an answer: ask "
        "again, or read it as one that proves nothing."
    )


def _sentences(findings: bytes) -> Sequence[str]:
    found = canonical_json.parse_object(findings)["findings"]
    return [f"line {each['line']}: {each['message']}" for each in found]
