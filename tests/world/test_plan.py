"""Plans: which steps run, in which order, and what a guard does (aos 3.2, seed 001 Manifest Pieces)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.world.scripted import awaiting, edge, emitting, plan, raising, ref

from demiurge.values.refs import Ref
from demiurge.world.expr import ExpressionError
from demiurge.world.plan import PlanInstance, parse_plan, run


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


def tell(step_id: str, status: Any = None) -> dict[str, Any]:
    return raising(step_id, status if status is not None else step_id, "")


def assign(step_id: str, expr: Any, variable: str | None = None) -> dict[str, Any]:
    return {"id": step_id, "op": "assign", "expr": expr, "bind": {"as": variable or step_id}}


END = {"id": "end", "op": "end"}
NO = False


class Running:
    def __init__(
        self, steps: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]] = (), **given: Any
    ) -> None:
        self.plan = parse_plan(plan(steps, edges))
        self.instance = PlanInstance(1, "p", Ref("m"), 0, {"room": "a", **given}, "1")
        self.port = Port()

    def go(self) -> bool:
        return run(self.plan, self.instance, self.port)

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


def test_a_step_whose_guards_are_all_false_is_skipped_and_counts_as_done() -> None:
    running = Running([assign("s", 1), tell("x"), tell("y")], [edge("s", "x", NO), edge("x", "y")])
    assert running.go()
    assert running.port.told == ["y"], "an unguarded edge that leaves a skipped step is open"


def test_a_chain_of_guards_that_repeats_itself_skips_a_whole_branch() -> None:
    edges = [edge("s", "x", NO), edge("x", "y", NO), edge("y", "z", NO)]
    running = Running([assign("s", 1), tell("x"), tell("y"), tell("z")], edges)
    assert running.go()
    assert running.port.told == []


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
