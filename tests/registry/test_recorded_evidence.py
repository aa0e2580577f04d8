"""Receipts and texts that the calls of a chat gave: what is kept of each call, and of one that gave something odd."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from demiurge.errors import Damaged, InvalidValue, NotFound
from demiurge.registry.claims import CheckedClaim, ClaimProblem
from demiurge.registry.evidence import EvidenceFinding, EvidenceItem, ToolReceipt, receipt_of
from demiurge.registry.recorded_evidence import MAX_DETAIL, MAX_FINDINGS, RecordedEvidence, findings_of
from demiurge.tools.core.workspace import read as workspace_read
from demiurge.values.refs import Ref, ref_of

READ, READER = workspace_read.name, "core__file_reader"
NOTE = "The result has 30 bytes, more than the 9 allowed here. It is stored as {}."
TIDE, ASH = "The tide was low.\n", "The s\u00f6ldier sleeps.\n"


class Blobs:
    """Stored blobs, by their addresses; `faults`: what reading a blob raises."""

    def __init__(self) -> None:
        self._stored: dict[str, bytes] = {}
        self.faults: dict[str, Exception] = {}

    def put(self, data: bytes) -> Ref:
        ref = ref_of(data)
        self._stored[ref] = data
        return ref

    def message(self, content: Any) -> Ref:
        """Stores a message for a model."""
        return self.put(json.dumps({"role": "tool", "content": content}, ensure_ascii=False).encode())

    def read(self, ref: Ref) -> bytes:
        if ref in self.faults:
            raise self.faults[ref]
        if ref not in self._stored:
            raise NotFound("no such blob")
        return self._stored[ref]


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


@pytest.fixture
def recorded(blobs: Blobs) -> RecordedEvidence:
    return RecordedEvidence(blobs.read)


def receipt_for(text: str, path: str = "tide.md", tool: str = "file_reader") -> ToolReceipt:
    item = EvidenceItem(path, 1, 1, text.strip(), ref_of(text.encode()))
    return receipt_of(tool, ref_of(b"tool"), {"file_path": path}, [item])


def told(receipt: ToolReceipt) -> str:
    outcome = {"tool": receipt.tool, "ok": True, "result": {}, "receipt": receipt.to_json()}
    return f"{receipt.tool}, receipt {receipt.receipt_id}:\n\n{json.dumps(outcome, ensure_ascii=False)}"


def view_of(blobs: Blobs, path: Any, size: Any) -> Ref:
    return blobs.put(json.dumps({"path": path, "size": size}).encode())


def kept(recorded: RecordedEvidence) -> tuple[dict[str, ToolReceipt], dict[str, Sequence[str]]]:
    return dict(recorded.grounds.receipts), dict(recorded.grounds.files)


# -- receipts -----------------------------------------------------------------------------------------------------


def test_a_core_tool_gives_its_receipt_and_the_texts_of_its_evidence(blobs: Blobs, recorded: RecordedEvidence) -> None:
    receipt = receipt_for(TIDE)
    blobs.put(TIDE.encode())
    recorded.add(READER, blobs.message(told(receipt)), None)
    assert kept(recorded) == ({receipt.receipt_id: receipt}, {"tide.md": (TIDE,)})


def test_a_text_that_two_receipts_have_is_kept_once_and_each_text_of_a_file(
    blobs: Blobs, recorded: RecordedEvidence
) -> None:
    for text, path in ((TIDE, "tide.md"), (ASH, "tide.md"), (TIDE, "tide.md"), (TIDE, "copy.md")):
        blobs.put(text.encode())
        recorded.add(READER, blobs.message(told(receipt_for(text, path))), None)
    receipts, files = kept(recorded)
    assert len(receipts) == 3
    assert files == {"tide.md": (TIDE, ASH), "copy.md": (TIDE,)}


def test_a_receipt_without_its_text_counts_and_gives_no_text(blobs: Blobs, recorded: RecordedEvidence) -> None:
    receipt = receipt_for(TIDE)
    recorded.add(READER, blobs.message(told(receipt)), None)
    assert kept(recorded) == ({receipt.receipt_id: receipt}, {})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[]",
        '{"result": {}}',
        '{"receipt": null}',
        '{"receipt": {"receipt_id": "rcpt_0", "evidence": []}}',
        told(receipt_for(TIDE, tool="canon_checker")),
        told(receipt_for(TIDE)).replace("tide.md", "other.md"),
    ],
)
def test_a_result_without_an_intact_receipt_of_its_own_tool_gives_nothing(
    blobs: Blobs, recorded: RecordedEvidence, content: str
) -> None:
    blobs.put(TIDE.encode())
    recorded.add(READER, blobs.message(content), None)
    assert kept(recorded) == ({}, {})


@pytest.mark.parametrize("tool", ["file_reader", "my_tool", "core__get_current_time"])
def test_a_receipt_counts_only_from_a_core_tool(blobs: Blobs, recorded: RecordedEvidence, tool: str) -> None:
    blobs.put(TIDE.encode())
    recorded.add(tool, blobs.message(told(receipt_for(TIDE))), view_of(blobs, "tide.md", 3))
    assert kept(recorded) == ({}, {})


def test_a_message_in_parts_is_read_by_its_texts(blobs: Blobs, recorded: RecordedEvidence) -> None:
    receipt = receipt_for(TIDE)
    whole = told(receipt)
    parts = [{"type": "text", "text": whole[:40]}, {"type": "image", "ref": "x"}, {"type": "text", "text": whole[40:]}]
    recorded.add(READER, blobs.message(parts), None)
    assert kept(recorded) == ({receipt.receipt_id: receipt}, {})


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TIDE, ASH])
def test_a_file_that_was_read_is_the_end_of_what_the_model_was_told(
    blobs: Blobs, recorded: RecordedEvidence, text: str
) -> None:
    message = blobs.message(f"notes.md, version 1:\n\n{text}")
    recorded.add(READ, message, view_of(blobs, "notes.md", len(text.encode())))
    assert kept(recorded) == ({}, {"notes.md": (text,)})


@pytest.mark.parametrize(
    ("path", "size"), [("notes.md", len(TIDE)), ("notes.md", 1000), ("notes.md", "5"), (7, 5), (None, 5)]
)
def test_a_view_that_does_not_fit_the_message_gives_no_text(
    blobs: Blobs, recorded: RecordedEvidence, path: Any, size: Any
) -> None:
    recorded.add(READ, blobs.message(TIDE), view_of(blobs, path, size))
    assert kept(recorded) == ({}, {})


def test_a_file_without_a_public_view_gives_no_text(blobs: Blobs, recorded: RecordedEvidence) -> None:
    recorded.add(READ, blobs.message(f"notes:\n{TIDE}"), None)
    recorded.add(READ, blobs.message(f"notes:\n{TIDE}"), blobs.put(b"{}"))
    recorded.add(READ, blobs.message(f"notes:\n{TIDE}"), ref_of(b"a view that was erased"))
    assert kept(recorded) == ({}, {})


def test_a_text_that_was_put_beside_the_message_is_read_there(blobs: Blobs, recorded: RecordedEvidence) -> None:
    whole = blobs.put(f"notes.md:\n\n{TIDE}".encode())
    recorded.add(READ, blobs.message(NOTE.format(whole)), view_of(blobs, "notes.md", len(TIDE)))
    assert kept(recorded) == ({}, {"notes.md": (TIDE,)})
    recorded.add(READ, blobs.message(NOTE.format(ref_of(b"erased"))), view_of(blobs, "gone.md", 1))
    assert "gone.md" not in recorded.grounds.files


@pytest.mark.parametrize("fault", [NotFound("gone"), Damaged("damaged"), InvalidValue("bad")])
def test_a_message_that_can_not_be_read_gives_nothing(
    blobs: Blobs, recorded: RecordedEvidence, fault: Exception
) -> None:
    message = blobs.message(f"notes:\n{TIDE}")
    blobs.faults[message] = fault
    recorded.add(READ, message, view_of(blobs, "notes.md", 1))
    recorded.add(READER, message, None)
    recorded.add(READER, blobs.put(b"\xff"), None)
    assert kept(recorded) == ({}, {})


# -- findings -----------------------------------------------------------------------------------------------------


def test_findings_are_the_claims_that_do_not_hold_with_details_that_are_cut() -> None:
    long = "x" * (MAX_DETAIL + 1)
    claims = [
        CheckedClaim(1, "holds", None),
        CheckedClaim(2, "wrong", ClaimProblem("missing_file", "none.md")),
        CheckedClaim(3, "long", ClaimProblem("missing_file", long)),
        CheckedClaim(4, "just", ClaimProblem("missing_file", long[1:])),
    ]
    cut = f"{long[: MAX_DETAIL - 3]}..."
    expected = [(2, "none.md"), (3, cut), (4, long[1:])]
    assert findings_of(claims) == tuple(
        EvidenceFinding(line, "missing_file", detail, ClaimProblem("missing_file", detail).message)
        for line, detail in expected
    )


def test_the_first_twenty_findings_are_kept() -> None:
    claims = [CheckedClaim(line, "", ClaimProblem("missing_file", "a")) for line in range(1, MAX_FINDINGS + 3)]
    assert [finding.line for finding in findings_of(claims)] == [*range(1, MAX_FINDINGS + 1)]
