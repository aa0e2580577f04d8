"""A proposal of a prompt tool, its checks and its differences as lines for a terminal.

The texts are of models and of strangers. So each of their lines is marked, and what a terminal would not show is
spelled out: no text can look like the words of this program.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.cli import output
from demiurge.cli.barred import barred
from demiurge.registry.prompt_tool import FIELDS
from demiurge.registry.tool_diff import FieldDiff, render_text
from demiurge.values.money import dollars_text

__all__ = [
    "block",
    "check_lines",
    "diff_text",
    "one_line",
    "proposal_lines",
    "result_line",
    "review_lines",
    "tried_lines",
    "when",
]

_QUESTIONS: Final = {
    "sensible": "Is it sensible?",
    "overlaps": "Does it overlap?",
    "violates": "Does it violate anything?",
    "changes": "What has to change?",
}
"""The questions of a review, by their names in it."""


def one_line(text: str) -> str:
    """Returns a text in one line, with what a terminal would not show spelled out."""
    return output.spelled_out(" ".join(text.split()))


def block(text: str) -> list[str]:
    """Returns the lines of a text, each marked, with what a terminal would not show spelled out."""
    return barred(text)


def when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def diff_text(diffs: Sequence[FieldDiff], *, color: bool = False) -> str:
    """Returns the differences in the width of the terminal."""
    return render_text(diffs, max(shutil.get_terminal_size().columns, 40), color)


def proposal_lines(view: ToolProposalView, diffs: Sequence[FieldDiff]) -> list[str]:
    """Returns all that a person needs to decide on a proposal: the tool, the change, the checks, the review, and what
    is missing."""
    author = f"{one_line(view.submitted_by)}, {when(view.submitted_at_ms)}"
    lines = [
        f"Proposal {view.id}, revision {view.revision}: {view.state}",
        f"{view.kind} {view.tool} ({one_line(view.name)}) in the layer {view.target}, by {author}",
        f"digest {view.digest}",
    ]
    if view.is_stale:
        lines.append("It is stale: the live tool is not the one that it was written for. Propose a revision.")
    if view.body is None:
        lines.append("Its text was erased: it can be rejected, withdrawn or revised, and not approved.")
    else:
        lines += [*_body_lines(view.body), *(_diff_lines(diffs) if view.kind != "new" else ())]
    lines += ["", *check_lines(view), *review_lines(view), *tried_lines(view), *_verdict_lines(view.verdicts)]
    if view.decision is not None:
        decided = view.decision
        has_read = ", who read it" if decided["read"] else ""
        lines.append(f"Decision: {decided['verdict']} by {one_line(decided['by'])}{has_read}, {when(decided['at_ms'])}")
        lines += block(decided["reason"]) if decided["reason"].strip() else []
    if view.outcome is not None:
        lines.append(f"Not taken over: {one_line(view.outcome['message'])}")
    if view.version is not None:
        lines.append(f"It is version {view.version} of {view.tool}.")
    lines += [f"Missing: {one_line(sentence)}" for sentence in view.missing]
    if not view.chiefs and view.state == "chief_review":
        lines.append("This world has no Chief of Staff: a user acts as both (--skip), or asks a model (--by-model).")
    return [*lines, f"Issues: {view.review_issue}, {view.decision_issue}"]


CLEAN: Final = "nothing that is known to be wrong was found"
UNSEEN: Final = (
    "  The checks look for known patterns. What other words, another language or a picture of words would make a model "
    "do, they can't see: read the text."
)


def check_lines(view: ToolProposalView) -> list[str]:
    """Returns the report of the checks of a proposal."""
    checks = view.checks
    if checks is None:
        return ["Checks: they have not run yet."]
    lines = [f"Checks: {CLEAN if checks['passed'] else 'not passed'}, {when(checks['at_ms'])}"]
    lines += [f"  {one_line(checks['error'])}"] if checks["error"] else []
    report = checks["report"] or {"static": [], "platform": [], "cases": []}
    for finding in report["static"]:
        place = f"{finding['field']} {finding['start']}-{finding['end']}"
        lines.append(f"  {finding['severity']}  {finding['code']} in {place}: {one_line(finding['message'])}")
        lines += block(_found(view.body or {}, finding))
    for result in report["platform"]:
        says = result["says"] if result["passed"] else result["problem"] or result["says"]
        lines.append(f"  {'ok' if result['passed'] else 'failed'}  {result['id']}: {one_line(says)}")
    return [*lines, *map(_case_line, report["cases"]), UNSEEN]


def _case_line(case: Mapping[str, Any]) -> str:
    if case["right"] is None:
        return f"  by hand  test case {case['id']}, should {case['should']}"
    broken = f" ({one_line('; '.join(map(str, case['broken'])))})" if case["broken"] else ""
    return f"  {'ok' if case['right'] else 'failed'}  test case {case['id']}, should {case['should']}{broken}"


def _found(body: Mapping[str, Any], finding: Mapping[str, Any]) -> str:
    """Returns the text that a finding is about, "" if it is about no part of a text."""
    text = body.get(finding["field"])
    return text[finding["start"] : finding["end"]] if isinstance(text, str) else ""


def _body_lines(body: Mapping[str, Any]) -> Iterator[str]:
    for name in (*FIELDS, "rationale"):
        if body.get(name):
            yield from (f"{name}:", *block(body[name]))
    for example in body.get("examples", ()):
        yield from ("example:", *block(example["input"]), "  expected:", *block(example["expected"]))
    for case in body.get("testCases", ()):
        yield from (f"test case {case['id']}:", *block(output.as_json(case)))


def _diff_lines(diffs: Sequence[FieldDiff]) -> list[str]:
    return ["", "Differences from the live tool that it was written for:", *diff_text(diffs).split("\n")]


def review_lines(view: ToolProposalView) -> list[str]:
    """Returns the review of a proposal, and what became of the last model that was asked for one."""
    run = view.model_runs.get("review")
    asked = [] if run is None else [f"Model: {_asked(run, view.digest)}", *_failure_lines(run)]
    return [*_review_lines(view.review), *asked]


def tried_lines(view: ToolProposalView) -> list[str]:
    """Returns what became of the test cases on a real model, no lines if they were never tried."""
    run = view.model_runs.get("cases")
    if run is None:
        return []
    good = sum(result["right"] for result in run["results"])
    lines = [f"On a model: {good} of {len(run['cases'])} test cases, {_asked(run, view.digest)}"]
    for result in run["results"]:
        lines += [f"  {result_line(result)}", *block(result["reply"])]
    return [*lines, *_failure_lines(run)]


def result_line(result: Mapping[str, Any]) -> str:
    """Returns whether a model's reply met the expectations of a test case, and which it did not."""
    broken = f" ({one_line('; '.join(result['broken']))})" if result["broken"] else ""
    return f"{'ok' if result['right'] else 'failed'}  test case {result['case']}{broken}"


def _asked(run: Mapping[str, Any], digest: str) -> str:
    about = "" if run["digest"] == digest else ", about an earlier revision"
    model = f"{one_line(run['model'])} ({one_line(run['provider'])}), asked by {one_line(run['by'])}"
    return f"{model}, {when(run['at_ms'])}{about}: {run['status']}, {run['tokens']} tokens, {_cost(run)}"


def _failure_lines(run: Mapping[str, Any]) -> list[str]:
    return [f"  {one_line(run['message'])} ({run['code']})"] if run["message"] is not None else []


def _cost(run: Mapping[str, Any]) -> str:
    """Returns what a model run cost, in words."""
    known = run["cost_micros"]
    return "cost unknown" if known is None else f"cost ${dollars_text(known)}"


def _review_lines(review: Mapping[str, Any] | None) -> list[str]:
    if review is None:
        return ["Review: there is none yet."]
    by = f"by {one_line(review['by'])}, {when(review['at_ms'])}"
    if review["kind"] == "user":
        return [f"Review: no Chief of Staff, so the user acts as both, {by}", *block(review["notes"])]
    model = f" with the model {one_line(review['model'])} ({one_line(review['provider'])})" if review["model"] else ""
    lines = [f"Review: recommends to {review['recommend']}, {by}{model}"]
    for name, question in _QUESTIONS.items():
        lines += [f"  {question}", *block(review[name])]
    return [*lines, *(["  Notes:", *block(review["notes"])] if review["notes"].strip() else [])]


def _verdict_lines(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for verdict in verdicts:
        said = "passed" if verdict["passed"] else "failed"
        yield f"Test case {verdict['case']} {said}, by {one_line(verdict['by'])}, {when(verdict['at_ms'])}"
        yield from block(verdict["note"])
