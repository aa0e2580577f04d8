"""`lacking`: what a proposal still lacks before a user may approve it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["lacking"]


def lacking(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what a proposal still lacks before a user may approve it: pairs of a code and a sentence."""
    found = []
    checks, review, digest = state["checks"], state["review"], state["body_ref"]
    if review is None or review["digest"] != digest:
        found.append(("not_reviewed", "The Chief of Staff has not reviewed this revision."))
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
