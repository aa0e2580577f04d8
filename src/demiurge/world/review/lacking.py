"""`lacking`: what a proposal still lacks before a user may approve it; `is_of_chief`: whose review counts.

`chiefs` are the Chiefs of Staff of a world: the actors of its good tokens with the role `chief`, and `model:` with the
provider and the model that the manifest's setting `chief` names. The process that owns the world writes them into each
event that depends on them, so a sender can't leave one out. Where there are none, a user acts as both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

__all__ = ["MODEL", "NOT_REVIEWED", "is_of_chief", "lacking"]

MODEL: Final = "model:"
"""The beginning of a Chief of Staff that is a model."""

NOT_REVIEWED: Final = "The Chief of Staff has not reviewed this revision."


def is_of_chief(review: Mapping[str, Any], chiefs: Collection[str]) -> bool:
    """Returns whether a review is one of a Chief of Staff; any is where there are none."""
    return (
        not chiefs
        or review["kind"] == "chief"
        or (review["kind"] == "model" and f"{MODEL}{review['provider']}/{review['model']}" in chiefs)
    )


def lacking(state: Mapping[str, Any], chiefs: Collection[str]) -> list[tuple[str, str]]:
    """Returns what a proposal still lacks before a user may approve it: pairs of a code and a sentence."""
    found = []
    checks, review, digest = state["checks"], state["review"], state["body_ref"]
    if review is None or review["digest"] != digest or not is_of_chief(review, chiefs):
        found.append(("not_reviewed", NOT_REVIEWED))
    if checks is None or checks["digest"] != digest:
        found.append(("not_checked", "The checks have not run on this revision."))
    elif not checks["passed"]:
        why = checks["error"] or "Read their report, and propose a revision."
        found.append(("checks_failed", f"The checks did not pass. {why}"))
    verdicts = {verdict["case"]: verdict for verdict in state["verdicts"] if verdict["digest"] == digest}
    for case in state["manual"]:
        if case not in verdicts:
            found.append(("verdict_missing", f"Nobody has recorded a verdict on the test case {case}."))
        elif not verdicts[case]["passed"]:
            found.append(("checks_failed", f"The test case {case} failed: {verdicts[case]['note']}"))
    return found
