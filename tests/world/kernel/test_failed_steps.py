"""A step that failed: its module is told once, unless the event came from outside, whose sender sees the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.reducer_effects import ANY, FAILED, effect_requesting_manifest, timer_request
from tests.world.small_world import Kernel, poke_event, small_manifest

from demiurge.errors import InvalidValue
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.world.reducer import Emit, ReducerContext, Step

State = Mapping[str, Any] | None
FROM_AFAR = {"unit": "ex/Board@1/b", "seq": 1, "index": 0}


def failing_reducer(state: State, event: Any, context: ReducerContext) -> Step:
    """Fails at "break", raises it at "tell", logs whatever it hears of a failure, and fails at hearing it if "again"
    was said before."""
    if event["$tag"] == "StepFailed":
        if state is not None and "again" in state["log"]:
            raise ValueError
        value = event["$value"]
        return Step(set={"n": 1}, append={"log": [f"{value['code']}: {value['message']} {context.origin}"]})
    what = event["$value"]["what"]
    if what == "break":
        raise RuntimeError
    if what == "at length":
        raise InvalidValue("x" * 2000)
    if what == "wrong":
        return Step(set={"n": -1})
    if what.startswith("tell"):
        return Step(set={"n": 1}, events=[Emit("ex/Ev@1", poke_event(what.removeprefix("tell ")))])
    return Step(set={"n": 1}, append={"log": [what]})


ARMS = {**ANY, **FAILED}


def failing_kernel() -> Kernel:
    return Kernel(effect_requesting_manifest(failing_reducer, arms=ARMS))


@pytest.mark.parametrize(
    ("what", "said"), [("break", "reducer_failed: RuntimeError"), ("wrong", "invalid_step: n: must be ")]
)
def test_a_module_is_told_that_a_step_on_its_own_event_failed(what: str, said: str) -> None:
    unit = failing_kernel()
    unit.poke(f"tell {what}")
    assert unit.kinds() == ["event", "manifest", "step", "event", "step", "step"]
    assert [record.cause for record in unit.records[3:]] == [2, 3, 4]
    assert unit.records[4].body["error"]["code"] == said.partition(":")[0]
    [line] = unit.log
    assert line.startswith(said)
    assert line.endswith(" derived")


def test_a_module_is_told_that_a_step_on_another_units_event_failed() -> None:
    unit = failing_kernel()
    unit.event(poke_event("break"), cause=FROM_AFAR)
    assert unit.log == ["reducer_failed: RuntimeError derived"]


def test_a_failed_step_on_an_event_from_outside_is_recorded_and_the_module_is_not_told() -> None:
    unit = failing_kernel()
    unit.poke("break")
    assert unit.kinds() == ["event", "manifest", "step"]


def test_a_module_that_fails_while_it_handles_a_failure_is_not_told_again() -> None:
    unit = failing_kernel()
    unit.poke("again")
    unit.poke("tell break")
    assert [step.body.get("error", {}).get("message") for step in unit.records_of("step")] == [
        None,
        None,
        "RuntimeError",
        "ValueError",
    ]


def test_a_module_without_a_variant_for_a_failed_step_is_not_told() -> None:
    unit = Kernel(small_manifest([], failing_reducer))
    unit.poke("tell break")
    assert unit.kinds() == ["event", "manifest", "step", "event", "step"]


@pytest.mark.parametrize("what", ["break", "wrong"])
def test_the_reaction_of_a_module_to_a_failed_step_belongs_to_the_run_of_the_event(what: str) -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        is_told = event["$tag"] == "StepFailed"
        return Step(set={"n": 1}, effects=[timer_request(7)]) if is_told else failing_reducer(state, event, context)

    budgets = Budgets(run=Allowance(max_tool_calls=1))
    unit = Kernel(effect_requesting_manifest(reduce, arms=ARMS, tool_policy=ToolPolicy(budgets=budgets)))
    unit.event(poke_event(what), cause=FROM_AFAR)
    [intent], [run] = unit.intents, unit.state.runs
    assert intent.run == run


def test_the_message_of_a_failure_is_1000_characters_at_most() -> None:
    unit = failing_kernel()
    unit.poke("at length")
    assert unit.records_of("step")[0].body == {"error": {"code": "invalid_step", "message": "x" * 1000}}
