"""What one ingress may cause at most, at both edges of each limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.reducer_effects import ALLOWED, GRANTS, effect_requesting_manifest, timer_request
from tests.world.small_world import (
    Kernel,
    ask_event,
    emit_effect_step,
    plan,
    poke_event,
    raise_event_step,
    small_manifest,
)

from demiurge.world.kernel import step_context
from demiurge.world.reducer import Emit, ReducerContext, Step

State = Mapping[str, Any] | None
TOO_MANY = {"code": "invalid_step", "message": "this ingress has caused too many events"}
ASIDE = Emit("ex/Aside@1", "x")


def emitting_reducer(state: State, event: Any, context: ReducerContext) -> Step:
    """`2,3` emits two events, one of which is the poke `3`, which emits three."""
    first, _, rest = event["$value"].get("what", "0").partition(",")
    events = [ASIDE] * (int(first) - bool(rest)) + ([Emit("ex/Ev@1", poke_event(rest))] if rest else [])
    return Step(set={"n": 1}, events=events)


def failed_steps(unit: Kernel) -> list[Any]:
    return [record.body["error"] for record in unit.records_of("step") if "error" in record.body]


@pytest.mark.parametrize(
    ("what", "made", "failed"),
    [("5", 5, False), ("6", 0, True), ("2,3", 5, False), ("2,4", 2, True), ("3,1,1", 5, False), ("3,1,2", 4, True)],
)
def test_an_ingress_causes_so_many_events_and_no_more(
    monkeypatch: pytest.MonkeyPatch, what: str, made: int, *, failed: bool
) -> None:
    monkeypatch.setattr(step_context, "EVENTS_PER_INGRESS", 5)
    unit = Kernel(small_manifest([], emitting_reducer))
    unit.poke(what)
    assert len(unit.records_of("event")) - 1 == made
    assert failed_steps(unit) == [TOO_MANY] * failed


def test_an_ingress_causes_4096_events() -> None:
    unit = Kernel(small_manifest([], emitting_reducer))
    unit.poke(",".join(["256"] * 16))
    assert (len(unit.records_of("event")), failed_steps(unit)) == (4097, [])
    unit = Kernel(small_manifest([], emitting_reducer))
    unit.poke(",".join(["256"] * 16 + ["1"]))
    assert (len(unit.records_of("event")), failed_steps(unit)) == (4097, [TOO_MANY])


@pytest.mark.parametrize(("limit", "status"), [(3, "ok"), (2, "error")])
def test_an_event_of_a_plan_counts_as_one_of_a_step(monkeypatch: pytest.MonkeyPatch, limit: int, status: str) -> None:
    monkeypatch.setattr(step_context, "EVENTS_PER_INGRESS", limit)
    unit = Kernel(small_manifest([plan([raise_event_step("a", "s", "d"), raise_event_step("b", "s", "d")])]))
    unit.poke("ask:x")  # one event of the step, two of the plan
    [ended] = unit.records_of("plan_ended")
    assert ended.body["status"] == status
    assert ended.body.get("message", TOO_MANY["message"]) == TOO_MANY["message"]


@pytest.mark.parametrize(("limit", "made", "status"), [(4, 4, ["ok", "ok"]), (3, 3, ["ok", "error"])])
def test_effects_of_all_plans_count_together(
    monkeypatch: pytest.MonkeyPatch, limit: int, made: int, status: list[str]
) -> None:
    monkeypatch.setattr(step_context, "EFFECTS_PER_INGRESS", limit)
    unit = Kernel(small_manifest([plan([emit_effect_step("a", "h1", "x"), emit_effect_step("b", "h2", "x")])]))
    unit.poke("ask:x,y")
    assert len(unit.intents) == made
    assert [ended.body["status"] for ended in unit.records_of("plan_ended")] == status
    messages = [ended.body["message"] for ended in unit.records_of("plan_ended") if ended.body["status"] == "error"]
    assert messages == [f"this ingress has asked for more than {limit} effects"] * status.count("error")


@pytest.mark.parametrize(("limit", "made"), [(3, 3), (2, 0)])
def test_effects_of_a_step_count_as_those_of_a_plan(monkeypatch: pytest.MonkeyPatch, limit: int, made: int) -> None:
    monkeypatch.setattr(step_context, "EFFECTS_PER_INGRESS", limit)

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, effects=[timer_request(n) for n in range(3)])

    unit = Kernel(effect_requesting_manifest(reduce))
    unit.poke("go")
    assert len(unit.intents) == made
    message = "this ingress has asked for more than 2 effects"
    assert failed_steps(unit) == ([] if made else [{"code": "invalid_step", "message": message}])


@pytest.mark.parametrize(("limit", "made"), [(4, 4), (3, 2)])
def test_effects_of_plans_and_of_steps_count_together(monkeypatch: pytest.MonkeyPatch, limit: int, made: int) -> None:
    monkeypatch.setattr(step_context, "EFFECTS_PER_INGRESS", limit)

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        if event["$tag"] == "Poke":
            return Step(set={"n": 1}, events=[ask_event("x")])
        return Step(set={"n": 1}, effects=[timer_request(1), timer_request(2)])

    steps = [emit_effect_step("a", "h1", "x"), emit_effect_step("b", "h2", "x"), raise_event_step("say", "s", "d")]
    unit = Kernel(
        small_manifest([plan(steps)], reduce, effects=ALLOWED, grants=GRANTS, check=False),
    )
    unit.poke("go")
    assert len(unit.intents) == made
    assert len(failed_steps(unit)) == (made != limit)


@pytest.mark.parametrize(("sizes", "kept"), [((4, 4, 2), 3), ((4, 4, 3), 2), ((10,), 1), ((11,), 0), ((5, 6, 5), 2)])
def test_the_blobs_of_all_steps_count_together(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], kept: int
) -> None:
    """A step whose blobs go beyond the limit does not happen; the next may still be within it."""
    monkeypatch.setattr(step_context, "BLOB_BYTES_PER_INGRESS", 10)

    def keeping(state: State, event: Any, context: ReducerContext) -> Step:
        what = event["$value"]["what"].split()
        if len(what) == 1:
            return Step(set={"n": 1}, blobs=[bytes(int(what[0]))])
        return Step(set={"n": 1}, events=[Emit("ex/Ev@1", poke_event(size)) for size in what[1:]])

    unit = Kernel(small_manifest([], keeping))
    unit.poke("all " + " ".join(map(str, sizes)))
    assert len(unit.last.new_blobs) == kept
    message = "this ingress has made more than 16 MiB of blobs"
    assert failed_steps(unit) == [{"code": "invalid_step", "message": message}] * (len(sizes) - kept)
