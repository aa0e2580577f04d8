"""The consequence of an answer whose evidence does not hold, by the setting `evidence` of the manifest.

`llm.generate` checks the citations of an answer and stores what it found (`findings_ref`). Here nothing is checked
again: the words for the model and for the person come from the stored findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from demiurge.registry.evidence import finding_line, findings_from_blob
from demiurge.world.messages import user_blob

__all__ = ["REFUSED_CODE", "correction", "refusal_note", "verdict", "why_refused"]

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


def refusal_note(findings: bytes) -> bytes:
    """Returns the message that tells the model, in later turns, that its last answer was refused and why. It is in the
    user's role, as `correction` is."""
    what = f"Your last answer was refused, since its evidence does not hold: {_in_short(findings)}"
    return user_blob(f"{what} Nothing in it counts as proven.")


def why_refused(findings: bytes) -> str:
    """Returns why a turn failed, for the person."""
    return (
        f"The evidence of the answer does not hold: {_in_short(findings)} The setting `evidence` refuses such an "
        "answer: ask again, or read it as one that proves nothing."
    )


def _in_short(findings: bytes) -> str:
    first, *more = _sentences(findings)
    return first + (f" And {len(more)} more." if more else "")


def _sentences(findings: bytes) -> Sequence[str]:
    return [finding_line(found.line, found.message) for found in findings_from_blob(findings)]
