"""What a reducer is told besides its state and the event: all of it from the stamp, the manifest and the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.world.budget_worlds import ASKED, BUMP
from tests.world.small_world import START_NS, Kernel, chat_manifest, poke_event, small_manifest

from demiurge.tools.policy import ToolPolicy
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.unit import Unit


def contexts_of_poke(manifest_of: Any, *, key: str = "a") -> list[ReducerContext]:
    """The contexts of a poke that pokes once more."""
    contexts: list[ReducerContext] = []

    def reduce(state: Mapping[str, Any] | None, event: Any, context: ReducerContext) -> Step:
        contexts.append(context)
        again = [Emit("ex/Ev@1", poke_event("again", key))] if event["$value"]["what"] != "again" else []
        return Step(set={"n": 1}, events=again)

    unit = Kernel(manifest_of(reduce), Unit("ex/Room@1", key))
    unit.event(poke_event("go", key), actor="anna")
    return contexts[-2:]


def test_a_reducer_is_told_its_key_its_settings_and_whose_event_it_was() -> None:
    first, second = contexts_of_poke(lambda reduce: small_manifest([], reduce, settings={"colour": "red"}), key="b")
    assert [(context.key, context.settings) for context in (first, second)] == [("b", {"colour": "red"})] * 2
    assert [(context.origin, context.cause) for context in (first, second)] == [("external", 0), ("derived", 3)]
    assert first.stamp == second.stamp
    assert (first.stamp.actor, first.stamp.time_ns > START_NS) == ("anna", True)


def test_a_reducer_may_ask_what_the_policy_says_of_a_tool() -> None:
    policy = ToolPolicy((BUMP, ASKED), require_approval_for_tools=(ASKED,))
    context, _ = contexts_of_poke(lambda reduce: small_manifest([], reduce, tool_policy=policy))
    assert [context.decide_tool(tool) for tool in (BUMP, ASKED, "other")] == ["allow", "require_approval", "deny"]


def test_a_reducer_is_told_which_tools_and_schemas_the_manifest_has() -> None:
    toolset = chat_manifest().toolset
    context, _ = contexts_of_poke(lambda reduce: replace(small_manifest([], reduce), toolset=toolset))
    assert context.toolset == toolset
    assert "ex/Note@1" in context.schemas
    assert "ex/Nothing@1" not in context.schemas
