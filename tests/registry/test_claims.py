"""What a reply claims, against the receipts, passages and files that it may rely on."""

from __future__ import annotations

import pytest

from demiurge.registry.claims import Grounds, claim_problem, evidence_problem, has_evidence_line

PATH, LINE, OTHER = "Story/one.md", "The hall is dark and the clock stands.", "Story/two.md"
RECEIPT, SECOND = "rcpt_0123456789abcdef0123456789abcdef", "rcpt_ffffffffffffffffffffffffffffffff"
GROUNDS = Grounds(
    {RECEIPT: [(PATH, LINE)], SECOND: [(OTHER, "Mara waits at the gate.")]},
    {PATH: f"# One\n\n{LINE}\nNobody\ncame that night.\n"},
)


@pytest.mark.parametrize(
    "reply",
    [
        f'Evidence: {PATH} line 3 "The hall is dark" ({RECEIPT})',
        f"**Evidence:** {PATH} line 3, {RECEIPT}",
        f"- Evidence: {PATH} \u201cThe hall is dark\u201d",
        f'The hall is empty.\nEvidence: {PATH} "Nobody came that night"',
        f'Evidence: {SECOND} "Mara waits at the gate."',
        f'I used file_reader.\nEvidence: {OTHER} "Mara waits" {SECOND}',
    ],
)
def test_sound_evidence_has_no_problem(reply: str) -> None:
    assert evidence_problem(reply, GROUNDS) is None


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("The hall is dark.", "evidence_missing"),
        (f"Evidence: {PATH}\nEvidence: {OTHER}", "evidence_multiple"),
        ("Evidence: I know it.", "evidence_without_source"),
        ("Evidence: the outline, offline", "evidence_without_source"),
        (f'Evidence: {PATH} "The hall is bright"', "quote_not_found"),
        (f'Evidence: {PATH} "the hall is dark"', "quote_not_found"),
        (f'Evidence: {PATH} "The hall ... stands."', "quote_not_found"),
        (f'Evidence: {PATH} "Mara waits at the gate."', "quote_not_found"),
        (f'Evidence: {PATH} "The hall is dark" and "it rains outside"', "quote_not_found"),
        (f'Evidence: {PATH} "The hall is bright" {RECEIPT}', "quote_not_found"),
        (f'Evidence: "The hall is dark" {SECOND}', "quote_not_found"),
        ('Evidence: Story/none.md "The hall is dark"', "unknown_source"),
        ("Evidence: rcpt_0123456789abcdef0123456789abcdee", "unknown_receipt"),
        (f"Evidence: {RECEIPT}0", "unknown_receipt"),
    ],
)
def test_unsound_evidence_is_named(reply: str, code: str) -> None:
    problem = evidence_problem(reply, GROUNDS)
    assert problem is not None
    assert problem.code == code


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("I used file_reader and the hall is dark.", "missing_receipt"),
        ("I used core__file_reader.", "missing_receipt"),
        ("I used File-Reader.", "missing_receipt"),
        ("I used read_file.", "missing_receipt"),
        ("The tool result says so.", "missing_receipt"),
        ('file_locator("hall")', "fake_tool_use"),
        ('I ran core__file_locator ( "hall" ).', "fake_tool_use"),
        (f'file_loc\u200bator("hall") {RECEIPT}', "fake_tool_use"),
        ("See rcpt_00000000000000000000000000000000.", "unknown_receipt"),
        (f'In {PATH} it says "The hall is bright".', "quote_not_found"),
        (f"In {PATH} it says \u201cThe hall is bright\u201d.", "quote_not_found"),
    ],
)
def test_a_claim_that_does_not_hold_is_named(reply: str, code: str) -> None:
    problem = claim_problem(reply, GROUNDS)
    assert problem is not None
    assert problem.code == code


@pytest.mark.parametrize(
    "reply",
    [
        "The hall is dark.",
        "The line editor (a person) reads it.",
        'She says "I will not come".',
        f'I used file_reader ({RECEIPT}): "The hall is dark".',
        f'{PATH} has "The hall  is dark".',
        "",
    ],
)
def test_a_reply_without_a_false_claim_has_no_problem(reply: str) -> None:
    assert claim_problem(reply, GROUNDS) is None


def test_an_evidence_line_begins_with_its_word() -> None:
    assert has_evidence_line("So it is.\n  evidence - Story/one.md")
    assert not has_evidence_line("The evidence: none")
