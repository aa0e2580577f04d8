"""Plans: which steps run, in which order, and what a guard does (aos 3.2, seed 001 Manifest Pieces)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.small_world import (
    BOARD,
    A,
    Kernel,
    await_receipt_step,
    echo_result,
    edge,
    emit_effect_step,
    plain_data,
    plan,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.errors import InvalidValue
from demiurge.stores.protocol import Snapshot
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.expr import OPS, ExpressionError
from demiurge.world.kernel import advance
from demiurge.world.kernel.outcome import Advance
from demiurge.world.manifest import BadManifest, Manifest
from demiurge.world.plan import Ended, PlanInstance, offer_event, parse_plan, run
from demiurge.world.snapshot import read_snapshot, snapshot_node
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

B = Unit(BOARD, "b")


class Port:
    """Notes what a plan asks for. Intents are numbered."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        self.asked.append(params["text"])
        return bytes([len(self.asked)])

    def raise_event(self, schema: str, value: Any, budget: Any = None) -> None:
        self.told.append(value["$value"]["status"])

    def checked(self, schema: str, value: Any) -> Any:
        return small_manifest().schemas.validator(schema).normalise(value)


def tell_step(step_id: str, status: Any = None) -> dict[str, Any]:
    return raise_event_step(step_id, status if status is not None else step_id, "")


def assign(step_id: str, expr: Any, variable: str | None = None) -> dict[str, Any]:
    return {"id": step_id, "op": "assign", "expr": expr, "bind": {"as": variable or step_id}}


END = {"id": "end", "op": "end"}
NO = False


class Running:
    def __init__(
        self,
        steps: Sequence[Mapping[str, Any]],
        edges: Sequence[Mapping[str, Any]] = (),
        parts: Mapping[str, Any] = {},
        **given: Any,
    ) -> None:
        self.plan = parse_plan({**plan(steps, edges), **parts})
        self.instance = PlanInstance(1, "p", Ref("m"), 0, {"room": "a", **given}, "1")
        self.port = Port()
        self.ended: Ended | None = None

    def go(self) -> bool:
        """Whether it has ended."""
        self.ended = run(self.plan, self.instance, self.port)
        return self.ended is not None

    def hears(self, **event: Any) -> bool:
        """Whether a step that waits took an event."""
        return offer_event(self.plan, self.instance, [(step_id, event) for step_id in self.instance.waits], self.port)

    def receipt(self, number: int, payload: Any = None) -> bool:
        self.instance.receipts[bytes([number])] = {"status": "ok", "payload": payload}
        return self.go()


def test_steps_without_edges_all_run_effects_first_in_declaration_order() -> None:
    running = Running(
        [tell_step("x"), emit_effect_step("a", "h1", "one"), tell_step("y"), emit_effect_step("b", "h2", "two")]
    )
    assert running.go()
    assert running.port.asked == ["one", "two"]
    assert running.port.told == ["x", "y"]


def test_a_step_waits_for_all_its_predecessors() -> None:
    steps = [
        tell_step("last"),
        emit_effect_step("a", "h1", "1"),
        emit_effect_step("b", "h2", "2"),
        await_receipt_step("wa", "h1", "ra"),
        await_receipt_step("wb", "h2", "rb"),
    ]
    edges = [edge("a", "wa"), edge("b", "wb"), edge("wa", "last"), edge("wb", "last")]
    running = Running(steps, edges)
    assert not running.go()
    assert running.port.asked == ["1", "2"]
    assert not running.receipt(2)
    assert running.port.told == []
    assert running.receipt(1)
    assert running.port.told == ["last"]


@pytest.mark.parametrize(
    ("left", "right", "told"), [(True, False, ["l"]), (False, True, ["r"]), (True, True, ["l", "r"])]
)
def test_a_guard_chooses_a_branch(left: bool, right: bool, told: list[str]) -> None:
    running = Running([assign("s", 1), tell_step("l"), tell_step("r")], [edge("s", "l", left), edge("s", "r", right)])
    assert running.go()
    assert running.port.told == told


def test_one_open_guard_of_several_is_enough() -> None:
    steps = [assign("a", 1), assign("b", 2), tell_step("x")]
    running = Running(steps, [edge("a", "x", NO), edge("b", "x")])
    assert running.go()
    assert running.port.told == ["x"]


def test_a_step_whose_guards_are_all_false_is_skipped_and_so_is_all_that_only_it_leads_to() -> None:
    edges = [edge("s", "x", NO), edge("x", "y"), edge("y", "z", {"op": "not", "args": ["no bool"]})]
    running = Running([assign("s", 1), tell_step("z"), tell_step("y"), tell_step("x")], edges)
    assert running.go()
    assert running.port.told == []
    assert running.instance.skipped == {"x", "y", "z"}


def test_a_step_after_two_branches_runs_if_one_of_them_ran() -> None:
    steps = [assign("s", 1), tell_step("l"), tell_step("r"), tell_step("join")]
    edges = [edge("s", "l", NO), edge("s", "r"), edge("l", "join"), edge("r", "join")]
    running = Running(steps, edges)
    assert running.go()
    assert running.port.told == ["r", "join"]


def test_an_optional_step_is_left_out_by_an_edge_around_it() -> None:
    steps = [assign("s", 1), tell_step("extra"), tell_step("always")]
    running = Running(steps, [edge("s", "extra", NO), edge("extra", "always"), edge("s", "always")])
    assert running.go()
    assert running.port.told == ["always"]


def test_a_step_is_decided_on_once() -> None:
    steps = [assign("flag", True), emit_effect_step("a", "h1", "1"), await_receipt_step("w", "h1", "r"), tell_step("x")]
    steps += [emit_effect_step("b", "h2", "2"), await_receipt_step("v", "h2", "q"), assign("turn", False, "flag")]
    edges = [edge("flag", "w", ref("@var:flag")), edge("a", "w", NO), edge("w", "x"), edge("b", "v"), edge("v", "turn")]
    running = Running(steps, edges)
    assert not running.go()
    assert running.instance.to_node()["begun"] == ["w"]
    assert not running.receipt(2)
    assert running.instance.vars["flag"] is False
    assert running.receipt(1)
    assert running.port.told == ["x"]


def test_a_guard_sees_what_was_bound_before_it() -> None:
    steps = [assign("n", {"op": "add", "args": [ref("@plan.input.n"), 1]}), tell_step("small"), tell_step("big")]
    small = {"op": "lt", "args": [ref("@var:n"), 5]}
    running = Running(steps, [edge("n", "small", small), edge("n", "big", {"op": "not", "args": [small]})], n=9)
    assert running.go()
    assert running.port.told == ["big"]


def test_a_guard_that_is_no_bool_is_an_error() -> None:
    running = Running([assign("s", 1), tell_step("x")], [edge("s", "x", 1)])
    with pytest.raises(ExpressionError, match="guard s -> x is not a bool"):
        running.go()


def test_end_stops_the_plan_where_it_is() -> None:
    running = Running([assign("s", 1), END, tell_step("x")], [edge("s", "end"), edge("end", "x")])
    assert running.go()
    assert running.port.told == []


def test_end_comes_after_the_effects_that_are_ready_with_it() -> None:
    running = Running([END, emit_effect_step("a", "h", "1")])
    assert running.go()
    assert running.port.asked == ["1"]


def test_a_variable_may_be_set_by_either_of_two_branches() -> None:
    steps = [assign("s", 1), assign("a", "A", "v"), assign("b", "B", "v"), tell_step("x", ref("@var:v"))]
    edges = [edge("s", "a", NO), edge("s", "b"), edge("a", "x", NO), edge("b", "x")]
    running = Running(steps, edges)
    assert running.go()
    assert running.port.told == ["B"]


def test_a_receipt_is_bound_as_status_and_payload() -> None:
    steps = [
        emit_effect_step("a", "h", "1"),
        await_receipt_step("w", "h", "r"),
        tell_step("x", ref("@var:r.payload.word")),
    ]
    running = Running(steps, [edge("a", "w"), edge("w", "x")])
    assert not running.go()
    assert running.receipt(1, {"word": "heard"})
    assert running.port.told == ["heard"]
    assert running.instance.vars["r"]["status"] == "ok"


def test_a_waiting_plan_does_nothing_twice() -> None:
    running = Running([emit_effect_step("a", "h", "1"), await_receipt_step("w", "h", "r")], [edge("a", "w")])
    assert not running.go()
    assert not running.go()
    assert running.port.asked == ["1"]


def test_a_copy_of_an_instance_moves_on_by_itself() -> None:
    running = Running([emit_effect_step("a", "h", "1"), await_receipt_step("w", "h", "r")], [edge("a", "w")])
    running.go()
    copy = running.instance.copy()
    assert running.receipt(1)
    assert copy.done == {"a"}
    assert copy.receipts == {}
    assert copy.to_node() != running.instance.to_node()


# -- events -----------------------------------------------------------------------------------------------------------


def await_event_step(step_id: str, variable: str, where: Any = None) -> dict[str, Any]:
    step = {"id": step_id, "op": "await_event", "event": "ex/Told@1", "bind": {"as": variable}}
    return step if where is None else {**step, "where": where}


def test_an_event_is_awaited_from_when_the_step_begins() -> None:
    running = Running(
        [tell_step("x"), await_event_step("w", "e"), tell_step("y", ref("@var:e.status"))],
        [edge("x", "w"), edge("w", "y")],
    )
    assert not running.hears(status="early")
    assert not running.go()
    assert running.instance.waits == {"w": "ex/Told@1"}
    assert running.hears(status="in time")
    assert not running.hears(status="late"), "the first that matches wins"
    assert running.go()
    assert running.port.told == ["x", "in time"]


def test_a_where_chooses_and_sees_variables_and_the_event() -> None:
    where = {"op": "eq", "args": [ref("@event.status"), ref("@plan.input.wanted")]}
    running = Running([await_event_step("w", "e", where)], wanted="b")
    running.go()
    assert not running.hears(status="a")
    assert running.hears(status="b")
    assert running.go()


def test_every_step_that_waits_hears_the_event() -> None:
    running = Running([await_event_step("v", "d"), await_event_step("w", "e")])
    running.go()
    assert running.hears(status="x")
    assert running.go()
    assert running.instance.vars == {"d": {"status": "x"}, "e": {"status": "x"}}


@pytest.mark.parametrize("where", [1, ref("@event.gone")])
def test_a_where_that_says_neither_yes_nor_no_is_an_error(where: Any) -> None:
    running = Running([await_event_step("w", "e", where)])
    running.go()
    with pytest.raises(ExpressionError):
        running.hears(status="x")


def test_a_plan_that_waits_for_an_event_is_plain_data() -> None:
    running = Running(
        [tell_step("s"), await_event_step("w", "e"), tell_step("no")], [edge("s", "w"), edge("s", "no", NO)]
    )
    running.go()
    node = running.instance.to_node()
    assert (node["waits"], node["skipped"]) == ({"w": "ex/Told@1"}, ["no"])
    assert PlanInstance.from_node(node) == running.instance
    copy = running.instance.copy()
    assert running.hears(status="x")
    assert copy.waits == {"w": "ex/Told@1"}
    assert copy.vars == {}


# -- ends, invariants, locals, steps ----------------------------------------------------------------------------------


def test_an_end_gives_a_result_that_is_checked() -> None:
    result = {"record": {"board": "b", "text": ref("@plan.input.text")}}
    running = Running([{**END, "result": result}], parts={"output": "ex/Note@1"}, text="hi")
    assert running.go()
    assert running.ended == Ended({"board": "b", "text": "hi"})
    wrong = Running([{**END, "result": {"record": {}}}], parts={"output": "ex/Note@1"})
    with pytest.raises(InvalidValue):
        wrong.go()


def test_a_plan_that_owes_a_result_and_comes_to_no_end_has_failed() -> None:
    end = {**END, "result": {"record": {"board": "b", "text": "x"}}}
    running = Running([assign("s", 1), end], [edge("s", "end", NO)], {"output": "ex/Note@1"})
    with pytest.raises(ExpressionError, match="without a result"):
        running.go()


def less_than(limit: int) -> dict[str, Any]:
    return {"op": "lt", "args": [ref("@var:n"), limit]}


def test_an_invariant_is_judged_from_when_what_it_reads_is_there() -> None:
    steps = [tell_step("x"), assign("n", 1), assign("m", 5, "n"), tell_step("y")]
    edges = [edge("x", "n"), edge("n", "m"), edge("m", "y")]
    assert Running(steps, edges, {"invariants": [less_than(9)]}).go()
    running = Running(steps, edges, {"invariants": [less_than(9), less_than(4)]})
    with pytest.raises(ExpressionError, match="invariant 1 does not hold") as raised:
        running.go()
    assert raised.value.code == "invariant_violation"
    assert running.port.told == ["x"]


def test_an_invariant_over_the_input_is_judged_before_anything_happens() -> None:
    small = {"op": "lt", "args": [ref("@plan.input.n"), 4]}
    running = Running([emit_effect_step("a", "h", "1")], parts={"invariants": [small]}, n=4)
    with pytest.raises(ExpressionError, match="invariant 0"):
        running.go()
    assert running.port.asked == []


def test_an_invariant_is_a_bool() -> None:
    with pytest.raises(ExpressionError, match="invariant 0 is not a bool"):
        Running([tell_step("x")], parts={"invariants": [1]}).go()


def test_a_local_is_of_its_schema() -> None:
    note = {"record": {"board": "b", "text": "x"}}
    parts = {"locals": {"n": "ex/Note@1"}}
    running = Running([assign("n", note)], parts=parts)
    assert running.go()
    assert running.instance.vars["n"] == {"board": "b", "text": "x"}
    with pytest.raises(InvalidValue):
        Running([assign("n", {"record": {"board": "b"}})], parts=parts).go()


def test_a_step_s_value_stays_when_its_variable_is_set_anew() -> None:
    steps = [
        assign("a", "first", "v"),
        assign("b", "second", "v"),
        tell_step("x", ref("@step:a")),
        tell_step("y", ref("@var:v")),
    ]
    running = Running(steps, [edge("a", "b"), edge("b", "x"), edge("x", "y")])
    assert running.go()
    assert running.port.told == ["first", "second"]
    assert running.instance.results == {"a": "first"}


# -- limits -----------------------------------------------------------------------------------------------------------


def test_effects_between_two_ingresses_are_limited() -> None:
    steps = [emit_effect_step(f"s{n}", f"h{n}", "x") for n in range(65)]
    assert Running(steps[:64]).go()
    with pytest.raises(ExpressionError, match="more than 64 effects"):
        Running(steps).go()


@pytest.mark.parametrize(
    "grow", [{"list": [ref("@var:v"), ref("@var:v")]}, {"op": "concat", "args": [ref("@var:v")] * 2}]
)
def test_a_value_that_doubles_is_stopped(grow: Any) -> None:
    steps = [assign("start", "seed", "v"), *(assign(f"s{n}", grow, "v") for n in range(60))]
    edges = [edge(a["id"], b["id"]) for a, b in pairwise(steps)]
    with pytest.raises(ExpressionError, match=r"too large|OverflowError"):
        Running(steps, edges).go()


@pytest.mark.parametrize("key", [False, None])
def test_a_map_whose_keys_no_record_can_hold_is_not_kept(key: Any) -> None:
    choice = {"map": [{"key": key, "value": "chosen"}]}
    assert Running([assign("a", {"op": "get", "args": [choice, key]}, "v")]).go()
    with pytest.raises(ExpressionError, match="a map has a key"):
        Running([assign("a", {"list": [choice]}, "v")]).go()


def test_a_value_that_grows_deep_is_stopped() -> None:
    steps = [assign("start", "seed", "v"), *(assign(f"s{n}", {"list": [ref("@var:v")]}, "v") for n in range(100))]
    with pytest.raises(ExpressionError, match="nested too deep"):
        Running(steps, [edge(a["id"], b["id"]) for a, b in pairwise(steps)]).go()


def test_a_value_that_is_no_effect_cannot_be_awaited() -> None:
    steps = [emit_effect_step("a", "h", "1"), assign("b", {"list": []}, "h"), await_receipt_step("w", "h", "r")]
    with pytest.raises(ExpressionError, match="no effect"):
        Running(steps, [edge("a", "b"), edge("b", "w")]).go()


# -- in a unit --------------------------------------------------------------------------------------------------------


def awaiting_told(**more: Any) -> dict[str, Any]:
    """A plan that echoes nothing: it waits until the room is told something, and says what."""
    where = {"op": "eq", "args": [ref("@event.detail"), ref("@plan.input.text")]}
    steps = [await_event_step("w", "e", where), raise_event_step("say", {"text": "heard"}, ref("@var:e.status"))]
    return {**plan(steps, [edge("w", "say")]), **more}


def told_event(status: str, detail: str) -> dict[str, Any]:
    return {"$tag": "Told", "$value": {"room": "a", "status": status, "detail": detail}}


def test_a_plan_hears_an_event_of_its_unit_by_the_schema_of_its_arm() -> None:
    unit = Kernel(small_manifest([awaiting_told()]))
    unit.poke("ask:x,y")
    unit.event(told_event("early", "z"))
    assert len(unit.state.plans) == 2
    unit.event(told_event("now", "y"))
    assert unit.log == ["asked", "early:z", "heard:now", "now:y"] or unit.log[-1] == "heard:now"
    assert len(unit.state.plans) == 1
    unit.event(told_event("later", "x"))
    assert unit.log[-1] == "heard:later"
    assert not unit.state.is_open
    assert unit.kinds().count("plan_ended") == 2


def test_an_event_is_broadcast_to_all_that_wait() -> None:
    unit = Kernel(small_manifest([awaiting_told()]))
    unit.poke("ask:x,x,x")
    unit.event(told_event("all", "x"))
    assert unit.log.count("heard:all") == 3


def test_an_event_that_another_unit_sent_is_heard() -> None:
    steps = [{**await_event_step("w", "e"), "event": "ex/Note@1", "where": True}]
    unit = Kernel(
        small_manifest([plan(steps, on="ex/Note@1")], triggers=[{"event": "ex/Note@1", "plan": "ex/plan@1"}]), B
    )
    note = {"$tag": "Note", "$value": {"board": "b", "text": "x"}}
    unit.event(note, schema="ex/BoardEv@1", cause={"unit": str(A), "seq": 1, "index": 0})
    assert len(unit.state.plans) == 1, "a plan does not offer_event the event that started it"
    unit.event(note, schema="ex/BoardEv@1", cause={"unit": str(A), "seq": 2, "index": 0})
    assert [r.body["id"] for r in unit.records_of("plan_ended")] == [1]
    assert list(unit.state.plans) == [2]


def test_a_trigger_on_an_arm_fires_when_the_arm_arrives_in_its_variant() -> None:
    noted = plan([raise_event_step("say", {"text": "poked"}, ref("@plan.input.what"))], on="ex/Poke@1")
    unit = Kernel(small_manifest([noted]))
    unit.poke("hello")
    assert unit.log == ["hello", "poked:hello"]


def test_a_correlation_is_the_field_s_own_value() -> None:
    same = {"op": "eq", "args": [ref("@var:correlation_id"), ref("@plan.input.n")]}
    steps = [
        assign("s", 1),
        raise_event_step("yes", {"text": "same"}, {"text": "-"}),
        raise_event_step("no", {"text": "other"}, "-"),
    ]
    edges = [edge("s", "yes", same), edge("s", "no", {"op": "not", "args": [same]})]
    unit = Kernel(small_manifest([plan(steps, edges)]))
    unit.poke("ask:x")
    assert unit.log == ["asked", "same:-"]


def test_a_where_that_fails_ends_the_plan_and_the_reducer_hears_of_it() -> None:
    where = {"op": "lt", "args": [ref("@event.status"), 1]}
    unit = Kernel(small_manifest([plan([await_event_step("w", "e", where)])]))
    unit.poke("ask:x")
    unit.event(told_event("s", "d"))
    assert "plan failed:1:plan_failed" in unit.log
    assert not unit.state.is_open


def test_a_result_is_recorded_with_the_plan_s_end() -> None:
    result = {"record": {"board": ref("@plan.input.room"), "text": ref("@plan.input.text")}}
    unit = Kernel(small_manifest([{**plan([{**END, "result": result}]), "output": "ex/Note@1"}]))
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["result"] == {"board": "a", "text": "x"}


TIDY = {"ex/Tidy@1": {"record": {"board": {"text": {}}, "note": {"option": {"text": {}}}}}}


def test_a_result_is_recorded_in_the_normal_form_of_its_schema() -> None:
    result = {"record": {"board": "b"}}
    unit = Kernel(small_manifest([{**plan([{**END, "result": result}]), "output": "ex/Tidy@1"}], schemas=TIDY))
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["result"] == {"board": "b", "note": None}


def test_a_local_is_kept_in_the_normal_form_of_its_schema() -> None:
    steps = [
        assign("n", {"record": {"board": "b"}}),
        await_receipt_step("w", "h", "r"),
        emit_effect_step("go", "h", "x"),
    ]
    parts = {**plan(steps, [edge("n", "go"), edge("go", "w")]), "locals": {"n": "ex/Tidy@1"}}
    unit = Kernel(small_manifest([parts], schemas=TIDY))
    unit.poke("ask:x")
    (instance,) = unit.state.plans.values()
    assert instance.vars["n"] == {"board": "b", "note": None}


def test_a_result_of_another_form_ends_the_plan_as_failed() -> None:
    given = {"record": {"board": "b", "note": ref("@var:r")}}
    steps = [emit_effect_step("go", "h", "x"), await_receipt_step("w", "h", "r"), {**END, "result": given}]
    unit = Kernel(
        small_manifest([{**plan(steps, [edge("go", "w"), edge("w", "end")]), "output": "ex/Tidy@1"}], schemas=TIDY)
    )
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], echo_result("y"))
    (ended,) = unit.records_of("plan_ended")
    assert (ended.body["status"], ended.body["code"]) == ("error", "plan_failed")
    assert "result" not in ended.body


def test_an_invariant_that_breaks_ends_the_plan_by_that_name() -> None:
    quiet = {"op": "ne", "args": [ref("@var:r.payload.text"), "loud"]}
    steps = [
        emit_effect_step("go", "h", ref("@plan.input.text")),
        await_receipt_step("w", "h", "r"),
        raise_event_step("say", "ok", "d"),
    ]
    unit = Kernel(small_manifest([{**plan(steps, [edge("go", "w"), edge("w", "say")]), "invariants": [quiet]}]))
    unit.poke("ask:x,y")
    first, second = unit.intents
    unit.receipt(first, echo_result("quiet"))
    unit.receipt(second, echo_result("loud"))
    assert unit.log == ["asked", "ok:d", "plan failed:1:invariant_violation"]


def test_a_plan_that_waits_is_the_same_from_a_snapshot() -> None:
    unit = Kernel(small_manifest([awaiting_told()]))
    unit.poke("ask:x")
    node, chunks = snapshot_node(unit.state)
    chunks[ref_of(node)] = node
    kept = Snapshot(str(A), unit.state.seq - 1, unit.state.head, ref_of(node))
    assert plain_data(read_snapshot(kept, "world_1", A, chunks.__getitem__)) == plain_data(unit.state)


# -- whatever a plan says, it is an outcome ---------------------------------------------------------------------------

NAMES = ["a", "b", "c", "d"]
REFS = st.sampled_from(
    ["@plan.input", "@plan.input.n", "@plan.input.text", "@event.detail", "@var:correlation_id"]
    + [f"@var:{name}{path}" for name in NAMES for path in ("", ".status", ".payload.text")]
    + [f"@step:{name}" for name in NAMES]
)
LEAVES = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=3),
    REFS.map(ref),
    st.sampled_from([{"null": {}}, {"bytes_b64": "aGk="}, {"dec128": "0.5"}, {"nat": 3}, 0.5, {"hash": "x"}]),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.sampled_from(sorted(OPS)).flatmap(
            lambda name: st.lists(inner, min_size=OPS[name][0], max_size=OPS[name][0]).map(
                lambda args: {"op": name, "args": args}
            )
        ),
        st.lists(inner, max_size=2).map(lambda parts: {"list": parts}),
        st.lists(inner, max_size=2).map(lambda parts: {"set": parts}),
        st.dictionaries(st.sampled_from(["room", "text", "x"]), inner, max_size=3).map(lambda parts: {"record": parts}),
        st.lists(st.tuples(inner, inner), max_size=2).map(
            lambda pairs: {"map": [{"key": key, "value": value} for key, value in pairs]}
        ),
        inner.map(lambda value: {"variant": {"tag": "Told", "value": value}}),
    ),
    max_leaves=6,
)
GUARDS = st.one_of(st.just(True), st.booleans(), EXPRESSIONS)


@st.composite
def steps(draw: st.DrawFn, step_id: str) -> dict[str, Any]:
    """A step that binds, if anything, a variable of its own name, or now and then another's."""
    name = draw(st.sampled_from([step_id, step_id, step_id, *NAMES]))
    op = draw(st.sampled_from(["emit", "receipt", "event", "raise", "tell", "assign", "assign", "end"]))
    match op:
        case "emit":
            return emit_effect_step(
                step_id, name, draw(EXPRESSIONS), cap=draw(st.sampled_from(["echo", "echo", "none"]))
            )
        case "receipt":
            return await_receipt_step(step_id, draw(st.sampled_from(NAMES)), name)
        case "event":
            return await_event_step(step_id, name, draw(GUARDS))
        case "raise":
            value = draw(EXPRESSIONS)
            event = draw(st.sampled_from(["ex/Ev@1", "ex/Note@1", "ex/Ask@1", "ex/Aside@1"]))
            return {"id": step_id, "op": "raise_event", "event": event, "value": value}
        case "tell":
            return raise_event_step(step_id, draw(EXPRESSIONS), {"text": "said"})
        case "assign":
            return assign(step_id, draw(EXPRESSIONS), name)
    return {**END, "id": step_id, **draw(st.sampled_from([{}, {"result": draw(EXPRESSIONS)}]))}


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """Any plan whose graph has no circle; most of them a check would refuse."""
    ids = NAMES[: draw(st.integers(1, len(NAMES)))]
    pairs = [(a, b) for n, b in enumerate(ids) for a in ids[:n] if draw(st.booleans())]
    more: dict[str, Any] = {}
    if draw(st.integers(0, 3)) == 0:
        more["invariants"] = [draw(GUARDS)]
    if draw(st.integers(0, 3)) == 0:
        more["output"] = "ex/Aside@1"
    if draw(st.integers(0, 3)) == 0:
        more["locals"] = {"a": draw(st.sampled_from(["ex/Aside@1", "ex/Note@1"]))}
    return {**plan([draw(steps(i)) for i in ids], [edge(a, b, draw(GUARDS)) for a, b in pairs]), **more}


HAPPENINGS = st.lists(
    st.one_of(
        st.sampled_from(["ok", "error", "odd"]).map(lambda status: ("receipt", status)),
        st.sampled_from(["said", "x"]).map(lambda detail: ("told", detail)),
        st.just(("poke", "ask:x")),
    ),
    max_size=5,
)


def unchecked_manifest(definition: Mapping[str, Any]) -> Manifest:
    """The small world with a plan that nobody looked at: as a manifest that an older version took."""
    sound = small_manifest()
    node = cbor.decode(sound.node)
    others = [d for d in node["definitions"] if d["$kind"] != "defplan"]
    return Manifest.load(cbor.encode({**node, "definitions": [*others, definition]}), sound.reducers)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions(), HAPPENINGS)
def test_any_plan_ends_in_an_outcome_and_replays(definition: Any, happenings: Sequence[tuple[str, str]]) -> None:
    unit = Kernel(unchecked_manifest(definition))
    unit.poke("ask:x")
    for kind, what in happenings:
        if kind == "receipt" and unit.intents:
            payload = {"text": "t", "blob": None} if what == "ok" else {"code": "c", "message": "m"}
            unit.receipt(unit.intents[0], {"status": what, "payload": payload if what != "odd" else [b"x"]})
        elif kind == "told":
            unit.event(told_event("s", what))
        elif kind == "poke":
            unit.poke(what)
    state = UnitState("world_1", A)
    hashes = []
    for manifest, ingress in unit.taken:
        outcome = advance(manifest, state, ingress, dict(unit.blobs))
        assert isinstance(outcome, Advance)
        state = outcome.state
        hashes += [record.hash for record in outcome.records]
    assert hashes == [record.hash for record in unit.records]
    for instance in state.plans.values():
        assert PlanInstance.from_node(cbor.decode(cbor.encode(instance.to_node()))).to_node() == instance.to_node()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(definitions())
def test_a_plan_that_the_check_lets_through_never_lacks_what_it_names(definition: Any) -> None:
    try:
        manifest = small_manifest([definition])
    except BadManifest:
        return
    unit = Kernel(manifest)
    unit.poke("ask:x")
    for ended in unit.records_of("plan_ended"):
        message = ended.body.get("message", "")
        assert "unknown" not in message
        assert "not an expression: KeyError" not in message
