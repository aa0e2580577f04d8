"""Plans: which steps run, in which order, and what a guard does (aos 3.2, seed 001 Manifest Pieces)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.world.scripted import awaiting, edge, emitting, plan, raising, ref, tiny

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref
from demiurge.world.expr import ExpressionError
from demiurge.world.plan import Ended, PlanInstance, hear, parse_plan, run


class Port:
    """Notes what a plan asks for. Intents are numbered."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.told: list[str] = []

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        self.asked.append(params["text"])
        return bytes([len(self.asked)])

    def raise_event(self, schema: str, value: Any) -> None:
        self.told.append(value["$value"]["status"])

    def checked(self, schema: str, value: Any) -> Any:
        return tiny().schemas.validator(schema).normalise(value)


def tell(step_id: str, status: Any = None) -> dict[str, Any]:
    return raising(step_id, status if status is not None else step_id, "")


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
        return hear(self.plan, self.instance, [(step_id, event) for step_id in self.instance.waits], self.port)

    def receipt(self, number: int, payload: Any = None) -> bool:
        self.instance.receipts[bytes([number])] = {"status": "ok", "payload": payload}
        return self.go()


def test_steps_without_edges_all_run_effects_first_in_declaration_order() -> None:
    running = Running([tell("x"), emitting("a", "h1", "one"), tell("y"), emitting("b", "h2", "two")])
    assert running.go()
    assert running.port.asked == ["one", "two"]
    assert running.port.told == ["x", "y"]


def test_a_step_waits_for_all_its_predecessors() -> None:
    steps = [
        tell("last"),
        emitting("a", "h1", "1"),
        emitting("b", "h2", "2"),
        awaiting("wa", "h1", "ra"),
        awaiting("wb", "h2", "rb"),
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
    running = Running([assign("s", 1), tell("l"), tell("r")], [edge("s", "l", left), edge("s", "r", right)])
    assert running.go()
    assert running.port.told == told


def test_one_open_guard_of_several_is_enough() -> None:
    steps = [assign("a", 1), assign("b", 2), tell("x")]
    running = Running(steps, [edge("a", "x", NO), edge("b", "x")])
    assert running.go()
    assert running.port.told == ["x"]


def test_a_step_whose_guards_are_all_false_is_skipped_and_so_is_all_that_only_it_leads_to() -> None:
    edges = [edge("s", "x", NO), edge("x", "y"), edge("y", "z", {"op": "not", "args": ["no bool"]})]
    running = Running([assign("s", 1), tell("z"), tell("y"), tell("x")], edges)
    assert running.go()
    assert running.port.told == []
    assert running.instance.skipped == {"x", "y", "z"}


def test_what_comes_after_the_branches_runs_when_one_of_them_did() -> None:
    steps = [assign("s", 1), tell("l"), tell("r"), tell("join")]
    edges = [edge("s", "l", NO), edge("s", "r"), edge("l", "join"), edge("r", "join")]
    running = Running(steps, edges)
    assert running.go()
    assert running.port.told == ["r", "join"]


def test_an_optional_step_is_left_out_by_an_edge_around_it() -> None:
    steps = [assign("s", 1), tell("extra"), tell("always")]
    running = Running(steps, [edge("s", "extra", NO), edge("extra", "always"), edge("s", "always")])
    assert running.go()
    assert running.port.told == ["always"]


def test_a_step_is_decided_on_once() -> None:
    steps = [assign("flag", True), emitting("a", "h1", "1"), awaiting("w", "h1", "r"), tell("x")]
    steps += [emitting("b", "h2", "2"), awaiting("v", "h2", "q"), assign("turn", False, "flag")]
    edges = [edge("flag", "w", ref("@var:flag")), edge("a", "w", NO), edge("w", "x"), edge("b", "v"), edge("v", "turn")]
    running = Running(steps, edges)
    assert not running.go()
    assert running.instance.to_node()["begun"] == ["w"]
    assert not running.receipt(2)
    assert running.instance.vars["flag"] is False
    assert running.receipt(1)
    assert running.port.told == ["x"]


def test_a_guard_sees_what_was_bound_before_it() -> None:
    steps = [assign("n", {"op": "add", "args": [ref("@plan.input.n"), 1]}), tell("small"), tell("big")]
    small = {"op": "lt", "args": [ref("@var:n"), 5]}
    running = Running(steps, [edge("n", "small", small), edge("n", "big", {"op": "not", "args": [small]})], n=9)
    assert running.go()
    assert running.port.told == ["big"]


def test_a_guard_that_is_no_bool_is_an_error() -> None:
    running = Running([assign("s", 1), tell("x")], [edge("s", "x", 1)])
    with pytest.raises(ExpressionError, match="guard s -> x is not a bool"):
        running.go()


def test_end_stops_the_plan_where_it_is() -> None:
    running = Running([assign("s", 1), END, tell("x")], [edge("s", "end"), edge("end", "x")])
    assert running.go()
    assert running.port.told == []


def test_end_comes_after_the_effects_that_are_ready_with_it() -> None:
    running = Running([END, emitting("a", "h", "1")])
    assert running.go()
    assert running.port.asked == ["1"]


def test_a_variable_may_be_set_by_either_of_two_branches() -> None:
    steps = [assign("s", 1), assign("a", "A", "v"), assign("b", "B", "v"), tell("x", ref("@var:v"))]
    edges = [edge("s", "a", NO), edge("s", "b"), edge("a", "x", NO), edge("b", "x")]
    running = Running(steps, edges)
    assert running.go()
    assert running.port.told == ["B"]


def test_a_receipt_is_bound_as_status_and_payload() -> None:
    steps = [emitting("a", "h", "1"), awaiting("w", "h", "r"), tell("x", ref("@var:r.payload.word"))]
    running = Running(steps, [edge("a", "w"), edge("w", "x")])
    assert not running.go()
    assert running.receipt(1, {"word": "heard"})
    assert running.port.told == ["heard"]
    assert running.instance.vars["r"]["status"] == "ok"


def test_a_waiting_plan_does_nothing_twice() -> None:
    running = Running([emitting("a", "h", "1"), awaiting("w", "h", "r")], [edge("a", "w")])
    assert not running.go()
    assert not running.go()
    assert running.port.asked == ["1"]


def test_a_copy_of_an_instance_moves_on_by_itself() -> None:
    running = Running([emitting("a", "h", "1"), awaiting("w", "h", "r")], [edge("a", "w")])
    running.go()
    copy = running.instance.copy()
    assert running.receipt(1)
    assert copy.done == {"a"}
    assert copy.receipts == {}
    assert copy.to_node() != running.instance.to_node()


# -- events -----------------------------------------------------------------------------------------------------------


def waiting(step_id: str, variable: str, where: Any = None) -> dict[str, Any]:
    step = {"id": step_id, "op": "await_event", "event": "ex/Told@1", "bind": {"as": variable}}
    return step if where is None else {**step, "where": where}


def test_an_event_is_awaited_from_when_the_step_begins() -> None:
    running = Running([tell("x"), waiting("w", "e"), tell("y", ref("@var:e.status"))], [edge("x", "w"), edge("w", "y")])
    assert not running.hears(status="early")
    assert not running.go()
    assert running.instance.waits == {"w": "ex/Told@1"}
    assert running.hears(status="in time")
    assert not running.hears(status="late"), "the first that matches wins"
    assert running.go()
    assert running.port.told == ["x", "in time"]


def test_a_where_chooses_and_sees_variables_and_the_event() -> None:
    where = {"op": "eq", "args": [ref("@event.status"), ref("@plan.input.wanted")]}
    running = Running([waiting("w", "e", where)], wanted="b")
    running.go()
    assert not running.hears(status="a")
    assert running.hears(status="b")
    assert running.go()


def test_every_step_that_waits_hears_the_event() -> None:
    running = Running([waiting("v", "d"), waiting("w", "e")])
    running.go()
    assert running.hears(status="x")
    assert running.go()
    assert running.instance.vars == {"d": {"status": "x"}, "e": {"status": "x"}}


@pytest.mark.parametrize("where", [1, ref("@event.gone")])
def test_a_where_that_says_neither_yes_nor_no_is_an_error(where: Any) -> None:
    running = Running([waiting("w", "e", where)])
    running.go()
    with pytest.raises(ExpressionError):
        running.hears(status="x")


def test_a_plan_that_waits_for_an_event_is_plain_data() -> None:
    running = Running([tell("s"), waiting("w", "e"), tell("no")], [edge("s", "w"), edge("s", "no", NO)])
    running.go()
    node = running.instance.to_node()
    assert (node["waits"], node["skipped"]) == ({"w": "ex/Told@1"}, ["no"])
    assert PlanInstance.from_node(node) == running.instance
    copy = running.instance.copy()
    assert running.hears(status="x")
    assert copy.to_node() == node


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


def below(limit: int) -> dict[str, Any]:
    return {"op": "lt", "args": [ref("@var:n"), limit]}


def test_an_invariant_is_judged_from_when_what_it_reads_is_there() -> None:
    steps = [tell("x"), assign("n", 1), assign("m", 5, "n"), tell("y")]
    edges = [edge("x", "n"), edge("n", "m"), edge("m", "y")]
    assert Running(steps, edges, {"invariants": [below(9)]}).go()
    running = Running(steps, edges, {"invariants": [below(9), below(4)]})
    with pytest.raises(ExpressionError, match="invariant 1 does not hold") as raised:
        running.go()
    assert raised.value.code == "invariant_violation"
    assert running.port.told == ["x"]


def test_an_invariant_over_the_input_is_judged_before_anything_happens() -> None:
    small = {"op": "lt", "args": [ref("@plan.input.n"), 4]}
    running = Running([emitting("a", "h", "1")], parts={"invariants": [small]}, n=4)
    with pytest.raises(ExpressionError, match="invariant 0"):
        running.go()
    assert running.port.asked == []


def test_an_invariant_is_a_bool() -> None:
    with pytest.raises(ExpressionError, match="invariant 0 is not a bool"):
        Running([tell("x")], parts={"invariants": [1]}).go()


def test_a_local_is_of_its_schema() -> None:
    note = {"record": {"board": "b", "text": "x"}}
    parts = {"locals": {"n": "ex/Note@1"}}
    running = Running([assign("n", note)], parts=parts)
    assert running.go()
    assert running.instance.vars["n"] == {"board": "b", "text": "x"}
    with pytest.raises(InvalidValue):
        Running([assign("n", {"record": {"board": "b"}})], parts=parts).go()


def test_a_step_s_value_stays_when_its_variable_is_set_anew() -> None:
    steps = [assign("a", "first", "v"), assign("b", "second", "v"), tell("x", ref("@step:a")), tell("y", ref("@var:v"))]
    running = Running(steps, [edge("a", "b"), edge("b", "x"), edge("x", "y")])
    assert running.go()
    assert running.port.told == ["first", "second"]
    assert running.instance.results == {"a": "first"}


# -- limits -----------------------------------------------------------------------------------------------------------


def test_effects_between_two_ingresses_are_limited() -> None:
    steps = [emitting(f"s{n}", f"h{n}", "x") for n in range(65)]
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


def test_a_value_that_grows_deep_is_stopped() -> None:
    steps = [assign("start", "seed", "v"), *(assign(f"s{n}", {"list": [ref("@var:v")]}, "v") for n in range(100))]
    with pytest.raises(ExpressionError, match="nested too deep"):
        Running(steps, [edge(a["id"], b["id"]) for a, b in pairwise(steps)]).go()


def test_what_is_no_effect_can_not_be_awaited() -> None:
    steps = [emitting("a", "h", "1"), assign("b", {"list": []}, "h"), awaiting("w", "h", "r")]
    with pytest.raises(ExpressionError, match="no effect"):
        Running(steps, [edge("a", "b"), edge("b", "w")]).go()
