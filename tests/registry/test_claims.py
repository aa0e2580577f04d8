"""Tests of the claim checker: claims of a reply against the receipts, passages and files that it may rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from demiurge.registry.claims import Grounds, claim_problem
from demiurge.registry.evidence import EvidenceItem, ToolReceipt, receipt_of
from demiurge.registry.evidence_line import evidence_line_problem, evidence_lines
from demiurge.values.refs import ref_of

PATH, LINE, OTHER = "Story/one.md", "The hall is dark and the clock stands.", "Story/two.md"
FILES = {
    PATH: f"# One\n\n{LINE}\nNobody\ncame that night.\nIt didn't rain.\n",
    OTHER: "Mara waits at the gate.\n",
    "Story/gone by.md": "A changed line.\n",
}


def receipt(*items: tuple[str, int, int], text: str | None = None) -> str:
    """Adds a receipt for lines of files, and returns its id. `text`: the file when it was read."""
    evidence = [
        EvidenceItem(path, first, last, "", ref_of((FILES[path] if text is None else text).encode()))
        for path, first, last in items
    ]
    made = receipt_of("file_reader", ref_of(b"tool"), {}, evidence)
    RECEIPTS[made.receipt_id] = made
    return made.receipt_id


RECEIPTS: dict[str, ToolReceipt] = {}
RECEIPT, SECOND = receipt((PATH, 1, 3)), receipt((OTHER, 1, 1))
WHOLE, BOTH, NONE = receipt((PATH, 1, 6)), receipt((PATH, 1, 3), (OTHER, 1, 1)), receipt()
OLD = receipt(("Story/gone by.md", 1, 1), text="The first line.\n")
GROUNDS = Grounds(RECEIPTS, {path: (text,) for path, text in FILES.items()})


class WatchedTexts(Mapping[str, Sequence[str]]):
    """Texts of files that know whose were read."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def __getitem__(self, path: str) -> Sequence[str]:
        self.read.add(path)
        return GROUNDS.files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(GROUNDS.files)

    def __len__(self) -> int:
        return len(GROUNDS.files)


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("The hall is empty.", set()),
        (f'Evidence: {OTHER} "Mara waits at the gate."', {OTHER}),
        (f'Evidence: {SECOND} "Mara waits at the gate."', {OTHER}),
        (f'Evidence: {PATH} line 3 "The hall is dark" ({RECEIPT})', {PATH}),
    ],
)
def test_only_the_texts_are_read_on_which_a_reply_relies(reply: str, read: set[str]) -> None:
    texts = WatchedTexts()
    assert claim_problem(reply, Grounds(RECEIPTS, texts)) is None
    assert texts.read == read


@pytest.mark.parametrize(
    "reply",
    [
        f'Evidence: {PATH} line 3 "The hall is dark" ({RECEIPT})',
        f"**Evidence:** {PATH} line 3, {RECEIPT}",
        f"- Evidence: {PATH} \u201cThe hall is dark\u201d",
        f'The hall is empty.\nEvidence: {PATH} "Nobody came that night"',
        f'Evidence: {SECOND} "Mara waits at the gate."',
        f'I used file_reader.\nEvidence: {OTHER} "Mara waits" {SECOND}',
        f"Evidence: {PATH} lines 1-3 'The hall is dark' {RECEIPT}",
        f"Evidence: {PATH} line 6 \u2018It didn\u2019t rain\u2019 {WHOLE}",
        f"Evidence: Mara's hall in `{PATH}`, line 3 {RECEIPT}",
        f'Evidence: {PATH}:4 "Nobody came" {WHOLE}',
        f'Evidence: {PATH} lines 3 and 4 "dark", "Nobody" {WHOLE}',
        f'Evidence: "{PATH}" "hall" {RECEIPT}',
        f'Evidence: {PATH} "hall" and {OTHER} "gate" {BOTH}',
        f'Evidence: {PATH} "hall" {RECEIPT} and {OTHER} "gate" {SECOND}',
        'Evidence: Story/gone by.md line 1 "changed"',
        f"Evidence: {NONE}",
    ],
)
def test_sound_evidence_has_no_problem(reply: str) -> None:
    assert evidence_line_problem(reply, GROUNDS) is None


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("The hall is dark.", "missing"),
        (f"Evidence: {PATH}\nEvidence: {OTHER}", "multiple"),
        ("Evidence: I know it.", "format"),
        ("Evidence: the outline, offline", "format"),
        (f'Evidence: {PATH} "The hall is bright"', "quote_not_found"),
        (f'Evidence: {PATH} "the hall is dark"', "quote_not_found"),
        (f'Evidence: {PATH} "The hall ... stands."', "quote_not_found"),
        (f'Evidence: {PATH} "Mara waits at the gate."', "quote_not_found"),
        (f'Evidence: {PATH} "The hall is dark" and "it rains outside"', "quote_not_found"),
        (f'Evidence: {PATH} "The hall is bright" {RECEIPT}', "quote_not_found"),
        (f'Evidence: "The hall is dark" {SECOND}', "quote_not_found"),
        ('Evidence: Story/none.md "The hall is dark"', "missing_file"),
        ("Evidence: rcpt_0123456789abcdef0123456789abcdee", "unknown_receipt"),
        (f"Evidence: {RECEIPT}0", "unknown_receipt"),
        (f'Evidence: {OTHER} "Mara waits" {RECEIPT}', "other_source"),
        (f'Evidence: {OTHER} line 1 "Mara waits" {SECOND} {RECEIPT}', "other_source"),
        (f'Evidence: {PATH} "hall" and {OTHER} "gate" {RECEIPT}', "other_source"),
        (f'Evidence: {PATH} "The hall is dark" {NONE}', "other_source"),
        (f'Evidence: Story/gone by.md "A changed line." {OLD}', "source_changed"),
        (f'Evidence: "A changed line." {OLD}', "source_changed"),
        (f'Evidence: {PATH} "Nobody came" {RECEIPT}', "quote_not_found"),
        (f'Evidence: {PATH} line 1 "The hall is dark" {RECEIPT}', "wrong_line"),
        (f"Evidence: {PATH} line 4 {RECEIPT}", "wrong_line"),
        (f"Evidence: {PATH} lines 3-9 {WHOLE}", "wrong_line"),
        (f"Evidence: {PATH} line 99", "wrong_line"),
        (f"Evidence: {PATH}:99", "wrong_line"),
        (f"Evidence: {PATH}#L99", "wrong_line"),
        (f"Evidence: {PATH} 'Mara came back' {RECEIPT}", "quote_not_found"),
        (f"Evidence: {PATH} \u2018Mara came back\u2019", "quote_not_found"),
        (f"Evidence: {PATH} \u2039Mara came back\u203a", "quote_not_found"),
        (f'Evidence: {PATH} "died" {RECEIPT}', "quote_not_found"),
        (f'Evidence: {PATH} "all" {RECEIPT}', "quote_not_found"),
        (f'Evidence: {PATH} "Mara came back', "quote_not_found"),
    ],
)
def test_unsound_evidence_is_named(reply: str, code: str) -> None:
    problem = evidence_line_problem(reply, GROUNDS)
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
        "See e.g. Mara's notes.md: it is for later.",
        f'In {PATH}, e.g., the "clock" stands.',
        "",
    ],
)
def test_a_reply_without_a_false_claim_has_no_problem(reply: str) -> None:
    assert claim_problem(reply, GROUNDS) is None


def test_an_evidence_line_begins_with_its_word() -> None:
    assert evidence_lines("So it is.\n  evidence - Story/one.md") == ["  evidence - Story/one.md"]
    assert evidence_lines("The evidence: none\nEvidence-based work") == []
