"""The kernel follows what untrusted text a run has read, keeps no more than that, and decides its calls with it."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, Units, model_result, room_order, spending_manifest, tool_result
from tests.world.kernel.test_tool_requests import room_with_tools
from tests.world.small_world import A, Kernel

from demiurge.tools.effect import ToolEffect
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec
from demiurge.world.effect import Result, failed
from demiurge.world.kernel.outcome import Advance
from demiurge.world.manifest import Manifest
from demiurge.world.snapshot import snapshot_node
from demiurge.world.state import OpenIntent

PAGE = "page"
COUNTED = Budgets(run=Allowance(max_tool_calls=99))


def untrusted(result: Result, *tools: str) -> Result:
    return {**result, "untrusted": list(tools)}


def with_spec(manifest: Manifest, name: str, **fields: Any) -> Manifest:
    spec = ToolSpec(name, "", {"type": "object"}, **{"redaction": Redaction(), **fields})
    return replace(manifest, toolset=MappingProxyType({**manifest.toolset, name: spec}))


def admitted(unit: Kernel) -> list[Any]:
    """What was decided on each call so far."""
    return [record.body["admitted"] for record in unit.records if record.kind == "intent"]


def test_a_result_of_an_untrusted_tool_taints_its_run_until_nothing_of_it_is_open() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP, BUMP])
    first, second = world.a.intents
    world.answer(A, first, untrusted(tool_result(), PAGE))
    assert world.a.state.tainted == {None: (PAGE,)}
    world.tell(calls=[BUMP])
    asked = world.a.intents[-1]
    assert asked.awaits_approval
    assert asked.approval is not None
    assert asked.tainted == (PAGE,) == tuple(asked.approval["tainted"])
    assert admitted(world.a)[-1]["tainted"] == [PAGE]
    assert not second.awaits_approval
    world.decide(A, asked, approve=True)
    for intent in list(world.a.intents):
        world.answer(A, intent)
    assert world.a.state.tainted == {}
    world.tell(calls=[BUMP])
    assert not world.a.intents[-1].awaits_approval
    assert "tainted" not in admitted(world.a)[-1]


def test_counted_runs_taint_only_themselves() -> None:
    world = Units(spending_manifest(COUNTED))
    world.tell(calls=[BUMP, BUMP])
    world.answer(A, world.a.intents[0], untrusted(tool_result(), PAGE))
    assert list(world.a.state.tainted.values()) == [(PAGE,)]
    world.tell(calls=[BUMP])
    assert not world.a.intents[-1].awaits_approval


def test_an_answer_that_has_read_untrusted_text_taints_its_run() -> None:
    world = Units(spending_manifest())
    world.tell(think=[5], calls=[BUMP])
    thought = next(intent for intent in world.a.intents if intent.kind == "llm.generate")
    world.answer(A, thought, untrusted(model_result(1, 1), "b", "a"))
    assert world.a.state.tainted == {None: ("a", "b")}


def test_a_failed_effect_and_another_kind_of_effect_taint_nothing() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP, BUMP])
    world.answer(A, world.a.intents[0], failed("execution", "It broke."))
    assert world.a.state.tainted == {}


def test_an_event_to_another_unit_takes_the_taint_along() -> None:
    world = Units(spending_manifest())
    cause = {"unit": "ex/Board@1/c", "seq": 3, "index": 0, "tainted": [PAGE]}
    world.a.event(room_order(calls=[BUMP], notes=[{"text": "call"}]), cause=cause)
    world._send(A)
    assert world.a.intents[0].awaits_approval
    [(_, sent)] = world.post
    assert sent.cause["tainted"] == [PAGE]
    world.deliver()
    assert [intent.tainted for intent in world.b.intents] == [(PAGE,)] * 2
    assert all(intent.awaits_approval for intent in world.b.intents)


def test_a_sender_from_outside_names_no_taint() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP], notes=[{"text": "call"}])
    [(_, sent)] = world.post
    assert "tainted" not in sent.cause


def test_the_state_does_not_grow_with_the_calls() -> None:
    world = Units(spending_manifest())

    def read_once() -> int:
        world.tell(calls=[BUMP])
        world.answer(A, world.a.intents[0], untrusted(tool_result(), PAGE))
        return len(world.a.state.tainted)

    assert [read_once() for _ in range(20)] == [0] * 20


def test_a_restart_keeps_the_taint_of_a_run_and_of_its_calls() -> None:
    world = Units(spending_manifest(COUNTED))
    world.tell(calls=[BUMP, BUMP])
    clean, _ = snapshot_node(world.a.state)
    assert b"tainted" not in clean
    world.answer(A, world.a.intents[0], untrusted(tool_result(), PAGE))
    node, _ = snapshot_node(world.a.state)
    assert b"tainted" in node


CHANGES = {"name": BUMP, "effect": ToolEffect.STATE_CHANGE}


def test_an_effect_level_without_an_answer_is_decided_as_ever() -> None:
    manifest = with_spec(spending_manifest(), **CHANGES)
    world = Units(manifest)
    world.a.event(room_order(calls=[BUMP]), cause={"unit": "ex/Board@1/c", "seq": 3, "index": 0, "tainted": [PAGE]})
    [intent] = world.a.intents
    assert not intent.awaits_approval
    assert admitted(world.a)[-1]["tainted"] == [PAGE], "the record says it all the same"


def test_a_policy_may_deny_the_calls_of_a_tainted_run() -> None:
    plain = spending_manifest()
    policy = replace(plain.tool_policy, when_tainted={"external_side_effect": "deny"})
    world = Units(replace(plain, tool_policy=policy))
    world.a.event(room_order(calls=[BUMP]), cause={"unit": "ex/Board@1/c", "seq": 3, "index": 0, "tainted": [PAGE]})
    [intent] = world.a.intents
    assert intent.refused is not None
    assert intent.refused["code"] == "policy_denied"
    decided = admitted(world.a)[-1]
    assert (decided["verdict"], decided["tainted"]) == ("deny", [PAGE])


@pytest.mark.parametrize("tool", [BUMP, ASKED])
def test_a_call_of_a_quarantined_tool_is_refused_at_its_admission(tool: str) -> None:
    world = Units(with_spec(spending_manifest(), tool, quarantined=True))
    world.tell(calls=[tool])
    assert world.log == ["quarantined:Nobody has reviewed this tool as it is now, new or changed, so it is blocked."]
    assert admitted(world.a)[-1]["code"] == "quarantined"


def test_a_call_that_waited_while_its_tool_was_quarantined_is_refused_when_it_is_approved() -> None:
    manifest = with_spec(spending_manifest(), ASKED)
    world = Units(manifest)
    world.tell(calls=[ASKED])
    [waiting] = world.a.intents
    world.a.manifest = with_spec(manifest, ASKED, quarantined=True)
    world.decide(A, waiting, approve=True)
    assert world.log == ["quarantined:Nobody has reviewed this tool as it is now, new or changed, so it is blocked."]
    [decision] = [record.body for record in world.a.records if record.kind == "decision"]
    assert (decision["verdict"], decision["code"]) == ("deny", "quarantined")


def request_of(unit: Kernel, tool: str, *, tainted: bool, approved: bool) -> OpenIntent:
    """The open call of a tool, in a tainted run or another, approved by a person or allowed."""
    cause = {"unit": "ex/Board@1/c", "seq": 3, "index": 0, **({"tainted": [PAGE]} if tainted else {})}
    unit.event({"$tag": "Poke", "$value": {"room": "a", "what": f"ask:{tool}"}}, cause=cause)
    [intent] = unit.intents
    if approved:
        unit.take("approval", {"intent": intent.id, "verdict": "approve", "reason": "", "by": "anna"})
    [intent] = unit.intents
    assert intent.may_run
    return intent


@pytest.mark.parametrize(
    ("tainted", "approved", "changes", "code"),
    [
        (True, False, True, "effect_level"),
        (True, False, False, None),
        (True, True, True, None),
        (False, False, True, None),
    ],
)
def test_a_tool_of_a_lower_level_reaches_outside_from_a_tainted_run_only_with_an_approval(
    tainted: bool, approved: bool, changes: bool, code: str | None
) -> None:
    unit = room_with_tools()
    name = ASKED if approved else BUMP
    manifest = with_spec(unit.manifest, name, effect=ToolEffect.STATE_CHANGE)
    mine = replace(manifest.effects["ex.mine"], changes=changes)
    unit.manifest = replace(manifest, effects={**manifest.effects, "ex.mine": mine})
    parent = request_of(unit, name, tainted=tainted, approved=approved)
    unit.take("capability_request", {"parent": parent.id, "ordinal": 0, "kind": "ex.mine", "params": {"text": "x"}})
    assert isinstance(unit.last, Advance)
    refusals = [result["payload"]["code"] for _, result in unit.last.answers]
    assert refusals == ([code] if code is not None else [])
