"""Tests of the evidence line: its form, the sources of each role, and the claims behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.registry.claims import MAX_QUOTES, Grounds, check_claims
from demiurge.registry.evidence import EvidenceItem, receipt_of
from demiurge.registry.evidence_line import evidence_line_problem
from demiurge.values.refs import ref_of

OUTLINE, SCENE, CANON = "Story/SCN-outline.md", "Story/SCN-one.md", "Compendium/mara.md"
FILES = {
    OUTLINE: "# Outline\n\n## Scene 1\nMara waits.\n",
    SCENE: "The hall is dark.\nNobody came.\n",
    CANON: "Mara is tall.\n",
    "notes.md": "To do.\n",
}


def _receipt(path: str, tool: str = "file_reader") -> str:
    text = FILES[path]
    made = receipt_of(tool, ref_of(b"tool"), {"path": path}, [EvidenceItem(path, 1, 2, "", ref_of(text.encode()))])
    RECEIPTS[made.receipt_id] = made
    return made.receipt_id


RECEIPTS = {(ISSUES := receipt_of("search_issues", ref_of(b"tool"), {}, [])).receipt_id: ISSUES}
READ = _receipt(SCENE)
GROUNDS = Grounds(RECEIPTS, {path: (text,) for path, text in FILES.items()})


def code_of(reply: str, role: str = "") -> str | None:
    problem = evidence_line_problem(reply, GROUNDS, role)
    return None if problem is None else problem.code


@pytest.mark.parametrize(
    ("role", "reply", "code"),
    [
        ("planner", f"Evidence: {OUTLINE} line 1", None),
        ("planner", f"Problem: the first act is short.\nEvidence: {OUTLINE} line 1", "missing_quote"),
        ("writer", f"Evidence: {OUTLINE} line 1", "wrong_source"),
        ("planner", f"I used file_reader.\nEvidence: {OUTLINE} line 1", "missing_receipt"),
        ("planner", "Evidence: ACCESS_REQUEST \u2014 need the canon", "missing_scope"),
        ("planner", f"Evidence: {OUTLINE} line 1\nEvidence: {OUTLINE} line 2", "multiple"),
    ],
)
def test_the_observed_vectors_of_the_original_hold(role: str, reply: str, code: str | None) -> None:
    assert code_of(reply, role) == code


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("", "empty"),
        (" \n\u200b\n", "empty"),
        (f"```\nEvidence: {SCENE} line 1\n```", "tool_syntax"),
        ('{"tool": "file_reader", "args": {}, "nonce": "x"}', "tool_syntax"),
        ('\u200b{"tool": "file_reader"}', "tool_syntax"),
        (f"Let\u2019s look.\nEvidence: {SCENE} line 1", "cot_leak"),
        (f"\n  FIRST, it is dark.\nEvidence: {SCENE} line 1", "cot_leak"),
        ("It is dark.", "missing"),
        ("Evidence-based: it is dark.", "missing"),
        (f"Evidence: {SCENE} line 1\n**Evidence**: {SCENE} line 2", "multiple"),
        ("Evidence: it is known", "format"),
        ("Evidence: the outline, offline", "format"),
        (f"Evidence: {SCENE}", "missing_location"),
        (f"Evidence: {SCENE}, which is online", "missing_location"),
        (f"Evidence: {SCENE} scene 1", None),
        (f"Evidence: {SCENE}, this scene", "missing_location"),
        (f'Evidence: {SCENE} "dark"', None),
        (f'A problem: it is dark.\nEvidence: {SCENE} line 1 "dark"', "missing_quote"),
        (f'A problem: it is dark.\nEvidence: {SCENE} line 1 "The hall is dark"', None),
        (f"A problematic hall.\nEvidence: {SCENE} line 1", None),
        ("Evidence: found no lamp", "missing_scope"),
        ("Evidence: found no lamp in any profile", "missing_scope"),
        ("Evidence: found no lamp in any scene", None),
        (f'Evidence: found no mention of "Anna" in {SCENE}', None),
        (f'Evidence: found no mention of the word "Nobody" in {SCENE}', "not_absent"),
        (f'Evidence: found no fault: "The hall is bright" in {SCENE}', "quote_not_found"),
        ("Evidence: I need to check the canon, requesting it", "missing_scope"),
        ("Evidence: I need to check the canon, requesting the files", None),
        (f"Evidence: ACCESS_REQUEST {CANON}", None),
        ("Evidence: rcpt_00000000000000000000000000000000", "unknown_receipt"),
        (f'file_reader("x")\nEvidence: {SCENE} line 1 {READ}', "fake_tool_use"),
        (f'It says "dark" in {CANON}.\nEvidence: {SCENE} line 1', "quote_not_found"),
        ("Evidence: Story/SCN-nine.md line 1", "missing_file"),
        (f"Evidence: {SCENE} line 3", "wrong_line"),
        (f"I used file_reader ({READ}).\nEvidence: {SCENE} line 1", "missing_receipt"),
    ],
)
def test_the_first_rule_that_is_broken_is_named(reply: str, code: str | None) -> None:
    assert code_of(reply) == code


@pytest.mark.parametrize(
    ("role", "line", "code"),
    [
        ("Planner", f"{SCENE} line 1", "wrong_source"),
        ("Planner", "found no stakes in the outline file", None),
        ("Planner", "it is known", "wrong_source"),
        ("Writer", f"{SCENE} line 1", None),
        ("Editor", f"line 1 {READ}", None),
        ("Critic", f"{CANON} line 1", "wrong_source"),
        ("Critic", "ACCESS_REQUEST the canon file", None),
        ("Continuity", f"{CANON} line 1", None),
        ("Continuity", f"{SCENE} line 1", None),
        ("Continuity", f"{OUTLINE} line 1", "wrong_source"),
        ("Chief", f"{OUTLINE} line 1", None),
        ("Chief", "notes.md line 1", "wrong_source"),
        ("Chief", f"issue 3 is open, {ISSUES.receipt_id}", None),
        ("Chief", "issue 3 is open", "format"),
        ("Writer", f"issue 3 is open, {ISSUES.receipt_id}", "wrong_source"),
        ("Any", "notes.md line 1", None),
        ("", "notes.md line 1", None),
    ],
)
def test_a_role_relies_on_its_own_sources(role: str, line: str, code: str | None) -> None:
    assert code_of(f"So it is.\nEvidence: {line}", role) == code


def test_a_role_that_looked_at_issues_alone_is_refused() -> None:
    reply = f"I checked the tracker and found two issues.\nEvidence: issue 3, {ISSUES.receipt_id}"
    assert code_of(reply, "Editor") == "issue_only"
    assert code_of(reply, "Chief") is None
    assert code_of(f"I checked the scene and found issues.\nEvidence: {SCENE} line 1", "Editor") is None


def test_an_item_of_evidence_with_another_text_holds_for_its_own_text() -> None:
    old = "The hall is bright.\n"
    item = EvidenceItem(SCENE, 1, 1, old.strip(), ref_of(old.encode()))
    made = receipt_of("file_reader", ref_of(b"tool"), {}, [item])
    both = Grounds({made.receipt_id: made}, {SCENE: (old, FILES[SCENE])})
    reply = f'Evidence: {SCENE} line 1 "The hall is bright" {made.receipt_id}'
    assert evidence_line_problem(reply, both) is None
    changed = evidence_line_problem(reply, Grounds({made.receipt_id: made}, {SCENE: (FILES[SCENE],)}))
    assert changed is not None
    assert changed.code == "source_changed"
    gone = Grounds({made.receipt_id: made})
    assert evidence_line_problem(reply, gone) is None
    unknown = evidence_line_problem(reply.replace("bright", "bright and warm"), gone)
    assert unknown is not None
    assert unknown.code == "file_read_failed"


def test_each_claim_has_its_line_and_a_sentence() -> None:
    reply = f'I looked.\n{SCENE} says "dark".\n{SCENE} says "light".\nEvidence: rcpt_0 "dark"'
    found = [(claim.line, claim.problem and claim.problem.message) for claim in check_claims(reply, GROUNDS)]
    assert found == [
        (2, None),
        (3, "The source does not have these words: light."),
        (4, "No recorded call gave the receipt rcpt_0."),
    ]


def test_a_reply_with_too_many_quotes_is_not_taken_for_checked() -> None:
    quotes = '"dark" ' * (MAX_QUOTES + 1)
    assert code_of(f"Evidence: {SCENE} {quotes}") == "too_many_quotes"


@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(
                [
                    "Evidence: ",
                    "\n",
                    '"',
                    "'",
                    SCENE,
                    READ,
                    "line 1",
                    "lines 1-2",
                    "found no ",
                    "rcpt_",
                    "(",
                    "ACCESS_REQUEST",
                ]
            ),
        ),
        max_size=30,
    ).map("".join),
    st.sampled_from(["", "Any", "Chief", "Planner", "Editor"]),
)
def test_any_reply_gets_one_verdict(reply: str, role: str) -> None:
    first = evidence_line_problem(reply, GROUNDS, role)
    assert evidence_line_problem(reply, GROUNDS, role) == first
    assert first is None or first.message.endswith(".")
    lines = reply.splitlines()
    assert all(claim.text == lines[claim.line - 1].strip() for claim in check_claims(reply, GROUNDS))


@pytest.mark.parametrize(
    ("unit", "code"), [("a-", None), (" ", None), ('"a ', "too_many_quotes"), ("file_locator ", "missing_receipt")]
)
def test_a_long_reply_of_one_hostile_pattern_is_checked(unit: str, code: str | None) -> None:
    long = unit * (300_000 // len(unit))
    assert code_of(f"{long}\nEvidence: {SCENE} line 1 {long}\n{long}") == code
