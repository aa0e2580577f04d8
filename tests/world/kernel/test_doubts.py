"""A doubt that a person settles: both ingresses are recorded, and the units whose module knows of it are told."""

from __future__ import annotations

from typing import Any

from tests.world.small_world import SCHEMAS, A, Kernel, small_manifest

from demiurge.world.manifest import Manifest
from demiurge.world.unit import Unit

DOUBTS = Unit("sys/World@1", "doubts")
SETTLED = {"DoubtSettled": {"ref": "sys/DoubtSettled@1"}}


def manifest_that_offers_doubts() -> Manifest:
    """The small world with rooms that offer_event of settled doubts."""
    return small_manifest(schemas={"ex/Ev@1": {"variant": {**SCHEMAS["ex/Ev@1"]["variant"], **SETTLED}}})


def settled_doubt(unit: str, tool: str = "pay") -> dict[str, Any]:
    said = {"intent": b"i", "kind": "tool.call", "tool": tool, "tool_call_id": "c1"}
    return {"unit": unit, "value": {**said, "done": True, "reason": "seen", "by": "anna", "result_ref": None}}


def test_a_decision_about_a_doubt_is_recorded_and_nothing_follows_from_it() -> None:
    unit = Kernel(manifest_that_offers_doubts(), DOUBTS)
    body = {"id": "d1", "told": [settled_doubt("ex/Room@1/a")]}
    assert [record.kind for record in unit.take("doubt_decided", body)] == ["doubt_decided", "manifest"]
    assert unit.records[0].body == body
    assert (unit.last.outbox, unit.last.intents, unit.state.is_open) == ((), (), False)


def test_a_settled_doubt_is_told_to_each_unit_whose_module_has_an_arm_for_it() -> None:
    unit = Kernel(manifest_that_offers_doubts(), DOUBTS)
    unit.take("doubt_decided", {"id": "d1"})
    rooms = [
        settled_doubt("ex/Room@1/a"),
        settled_doubt("ex/Gone@1/x"),
        settled_doubt("ex/Board@1/b"),
        settled_doubt("ex/Room@1/c", "send"),
    ]
    [record] = unit.take("doubt_settled", {"id": "d1", "told": rooms})
    assert (record.kind, record.unit_seq, record.body["told"]) == ("doubt_settled", 2, rooms)
    first, second = unit.last.outbox
    assert (first.target, second.target) == (A, Unit("ex/Room@1", "c"))
    assert (first.schema, second.schema) == ("ex/Ev@1", "ex/Ev@1")
    assert first.value == {"$tag": "DoubtSettled", "$value": rooms[0]["value"]}
    assert second.value == {"$tag": "DoubtSettled", "$value": rooms[3]["value"]}
    assert (first.id, second.id) == ("sys/World@1/doubts#2.0", "sys/World@1/doubts#2.1")
    assert first.cause == {"unit": "sys/World@1/doubts", "seq": 2, "index": 0}
    assert second.cause == {"unit": "sys/World@1/doubts", "seq": 2, "index": 1}
    assert unit.last.intents == ()
