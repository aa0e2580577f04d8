"""Units of any module: one that the manifest does not have, one whose events are records, one with arms in line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from tests.world.reducer_effects import effect_requesting_manifest, timer_request
from tests.world.small_world import (
    SCHEMAS,
    A,
    Kernel,
    echo_result,
    emit_effect_step,
    plain_data,
    plan,
    poke_event,
    ref,
    small_manifest,
)

from demiurge.world.effect import succeeded
from demiurge.world.kernel import advance
from demiurge.world.kernel.outcome import Advance
from demiurge.world.reducer import ReducerContext, Step
from demiurge.world.unit import Unit

State = Mapping[str, Any] | None


def count(state: State, event: Any, context: ReducerContext) -> Step:
    return Step(set={"n": 1}, append={"log": [str(event)]})


def test_an_event_of_a_unit_whose_module_is_gone_is_recorded_and_nobody_hears_it() -> None:
    unit = Kernel(small_manifest(), Unit("ex/Gone@1", "x"))
    assert [record.kind for record in unit.poke("x")] == ["event", "manifest"]
    assert unit.state.cell is None


def test_a_receipt_of_a_unit_whose_module_is_gone_is_recorded() -> None:
    unit = Kernel(
        effect_requesting_manifest(lambda state, event, context: Step(set={"n": 1}, effects=[timer_request(1)]))
    )
    unit.poke("go")
    unit.state.unit = Unit("ex/Gone@1", "a")
    assert [record.kind for record in unit.receipt(unit.intents[0], succeeded(delivered_at_ns=1, key=None))] == [
        "receipt"
    ]
    assert unit.intents == []


def test_a_module_may_have_events_that_are_records() -> None:
    unit = Kernel(small_manifest([], count, schemas={"ex/Ev@1": SCHEMAS["ex/Poke@1"]}, check=False))
    unit.event({"room": "a", "what": "x"})
    assert unit.log == ["{'room': 'a', 'what': 'x'}"]


def test_an_arm_that_is_written_in_line_is_heard_under_the_schema_of_the_module() -> None:
    variant = {**SCHEMAS["ex/Ev@1"]["variant"], "Inline": {"record": {"room": {"text": {}}}}}
    started = plan([emit_effect_step("go", "h", "x")], on="ex/Ev@1")
    unit = Kernel(small_manifest([started], count, schemas={"ex/Ev@1": {"variant": variant}}, check=False))
    unit.event({"$tag": "Inline", "$value": {"room": "a"}})
    assert len(unit.intents) == 1
    assert len(unit.log) == 1


def test_a_plan_may_be_started_by_the_schema_of_the_module_and_another_by_that_of_the_arm() -> None:
    whole = plan([emit_effect_step("go", "h", {"text": "whole"})], on="ex/Ev@1", name="ex/whole@1")
    arm = plan([emit_effect_step("go", "h", ref("@plan.input.what"))], on="ex/Poke@1", name="ex/arm@1")
    unit = Kernel(small_manifest([whole, arm], count))
    unit.event(poke_event("hi"))
    assert [intent.params["text"] for intent in unit.intents] == ["whole", "hi"]
    assert [intent.origin["id"] for intent in unit.intents] == [1, 2]
    assert unit.state.next_plan == 3


def test_a_step_without_blobs_and_effects_returns_none_of_them() -> None:
    nothing = cast(Any, None)
    unit = Kernel(small_manifest([], lambda state, event, context: Step(set={"n": 1}, blobs=nothing, effects=nothing)))
    assert "error" not in unit.poke("x")[-1].body
    assert unit.records_of("step")[0].refs == ()


def test_an_ingress_that_is_replayed_is_the_very_record_of_it() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], echo_result("x"))
    again = Kernel(unit.manifest)
    recorded = {record.unit_seq: record for record in unit.records}
    for manifest, ingress in unit.taken:
        record = recorded[again.state.seq]
        outcome = advance(manifest, again.state, replace(ingress, record=record), unit.blobs)
        assert isinstance(outcome, Advance)
        assert outcome.records[0] is record
        again.state, again.records = outcome.state, [*again.records, *outcome.records]
    assert [record.hash for record in again.records] == [record.hash for record in unit.records]
    assert plain_data(again.state) == plain_data(unit.state)


def test_a_record_names_its_unit_its_number_and_what_came_before() -> None:
    unit = Kernel(small_manifest())
    for record in unit.poke("ask:x"):
        assert record.unit == str(A)
    assert unit.records[1].body == {"ref": unit.manifest.ref}
    assert unit.state.manifest == unit.manifest.ref
    unit.poke("x")
    assert unit.kinds().count("manifest") == 1


def test_the_result_of_an_effect_is_derived_and_names_the_intent() -> None:
    heard: list[tuple[str, Any]] = []

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        heard.append((context.origin, event))
        return Step(set={"n": 1}, effects=[timer_request(1, "k")] if event["$tag"] == "Poke" else ())

    unit = Kernel(effect_requesting_manifest(reduce))
    unit.poke("go")
    [intent] = unit.intents
    payload = {"delivered_at_ns": 1, "key": None}
    unit.receipt(intent, succeeded(**payload))
    assert [origin for origin, _ in heard] == ["external"] * 2 + ["derived"] * 2, "the driver runs each step twice"
    value = {"intent": intent.id, "key": "k", "status": "ok", "error": None, "payload": payload}
    assert heard[-1][1] == {"$tag": "TimerFired", "$value": value}
