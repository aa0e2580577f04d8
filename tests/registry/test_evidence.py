"""Receipts: an id that fits its content, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.registry.evidence import (
    EvidenceFinding,
    EvidenceItem,
    findings_blob,
    findings_from_blob,
    receipt_from_json,
    receipt_of,
)
from demiurge.values.refs import ref_of

ITEM = EvidenceItem("Story/a.md", 1, 2, "Mara “left”.", ref_of(b"Mara"))
RECEIPT = receipt_of("file_reader", ref_of(b"tool"), {"file_path": "Story/a.md"}, [ITEM])


def test_equal_calls_have_equal_receipts() -> None:
    assert receipt_of("file_reader", ref_of(b"tool"), {"file_path": "Story/a.md"}, [ITEM]) == RECEIPT
    assert RECEIPT.receipt_id.startswith("rcpt_")
    assert len(RECEIPT.receipt_id) == len("rcpt_") + 32
    assert RECEIPT.is_intact


def test_a_receipt_survives_json() -> None:
    assert receipt_from_json(json.loads(json.dumps(RECEIPT.to_json()))) == RECEIPT


@pytest.mark.parametrize(
    "change",
    [
        {"receipt_id": "rcpt_" + "0" * 32},
        {"tool": "file_locator"},
        {"tool_sha256": ref_of(b"other")},
        {"args_sha256": ref_of(b"other")},
        {"evidence": []},
        {"evidence": [{**ITEM.to_json(), "quote": "Mara stayed."}]},
        {"evidence": [{**ITEM.to_json(), "end_line": 3}]},
        {"evidence": [{**ITEM.to_json(), "extra": 3}]},
        {"evidence": [{**ITEM.to_json(), "end_line": True}]},
        {"evidence": [7]},
        {"evidence": None},
        {"tool": float("nan")},
    ],
    ids=str,
)
def test_a_changed_receipt_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as refused:
        receipt_from_json({**RECEIPT.to_json(), **change})
    assert refused.value.code == "bad_receipt"


def test_the_findings_about_an_answer_are_read_back_from_their_blob() -> None:
    found = (EvidenceFinding(1, "unknown_receipt", "rcpt_0", "No call gave it."), EvidenceFinding(7, "a", "b", "c"))
    blob = findings_blob(ref_of(b"answer"), found)
    assert findings_from_blob(blob) == found
    assert blob != findings_blob(ref_of(b"another"), found)


def test_other_arguments_give_another_receipt() -> None:
    assert receipt_of("file_reader", ref_of(b"tool"), {"file_path": "b"}, [ITEM]).receipt_id != RECEIPT.receipt_id
