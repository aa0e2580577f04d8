"""A trace shows whatever the records say: effects of one's own have params and receipts of any form."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.history.trace import trace
from demiurge.world.record import Record, Stamp


def record(seq: int, kind: str, body: dict[str, Any], cause: int | None) -> Record:
    stamp = Stamp(seq, b"", Caller("user"), Ref("sha256:" + "0" * 64))
    return Record("demo/Unit@1/k", seq, kind, cause, stamp, body, b"", b"", b"")


@pytest.mark.parametrize(
    ("payload", "state", "why"),
    [
        (
            {"ok": False, "error_code": "execution", "message": "The tool failed."},
            "failed",
            "execution: The tool failed.",
        ),
        ({"ok": False, "error_code": None, "message": ""}, "failed", "not ok"),
        ({"ok": False, "version": 3, "expected": 2}, "failed", "not ok: version 3, expected 2"),
        ({"ok": False, "expected": None, "at": [1]}, "failed", "not ok"),
        ({"ok": False}, "failed", "not ok"),
        ({"ok": True}, "ok", ""),
        ("done", "ok", ""),
        ([False], "ok", ""),
        (None, "ok", ""),
    ],
)
def test_a_receipt_of_any_form(payload: Any, state: str, why: str) -> None:
    event = record(0, "event", {"schema": "demo/E@1", "value": "text"}, None)
    intent = record(1, "intent", {"kind": "demo.do", "params": "text", "id": b"1"}, 0)
    receipt = record(2, "receipt", {"intent": b"1", "status": "ok", "payload": payload}, 1)
    line = trace([event, intent, receipt])[-1]
    assert (line.state, line.why) == (state, why)
