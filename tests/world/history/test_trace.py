"""A trace shows whatever the records say, and the lineage of an event holds what it caused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.world.small_world import EchoAdapter, poke_event, running_host, small_manifest, stored_records

from demiurge.stores import MemoryStore
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.history.trace import lineage, outcome, trace
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


@pytest.mark.parametrize(("what", "ends"), [("ask:x", "done"), ("fail:x", "failed"), ("ask:open", "running")])
async def test_a_lineage_holds_what_an_event_caused_and_has_one_outcome(
    memory: MemoryStore, what: str, ends: str
) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter({"open": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke_event("before"))
        accepted = await host.submit("ex/Ev@1", poke_event(what))
        if ends != "running":
            await host.settle()
        found = lineage(stored_records(memory), (accepted.unit, accepted.seq))
    assert outcome(trace(found)).state == ends
    assert all(record.cause is not None for record in found[1:])
    assert "before" not in str([record.body for record in found])
