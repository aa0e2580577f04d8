"""A call that was left open: what is in force now counts, and none can keep a world from being used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.world.effects.test_tool_call import (
    Outside,
    approve,
    bump_call,
    output_contents,
    policy_that_asks,
    refusal_codes,
)
from tests.world.small_world import MAIN, ScriptedModel, call_answer, chat_world, stop_before_effect, text_answer

from demiurge.errors import NotFound
from demiurge.stores import Attempt, Batch, MemoryStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.capabilities import Workspaces
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.values.caller import Caller
from demiurge.world.host.dispatch import MAX_ATTEMPTS, attempt_key
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance
from demiurge.world.kernel.run_step import advance_with_blobs
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE


async def left_open(store: Store, tools: list[Tool[Any, Any]], policy: ToolPolicy, *, approved: bool = False) -> None:
    """A call that was admitted, and approved if need be, by a process that died before it dispatched it."""
    async with chat_world(store, ScriptedModel(call_answer(bump_call())), tools, policy=policy) as talk:
        stop_before_effect(talk.host, "tool.call")
        await talk.say("go")
        if approved:
            await approve(talk)


@pytest.mark.parametrize(
    ("policy", "code"), [(ToolPolicy(), "policy_denied"), (policy_that_asks("bump"), "approval_required")]
)
async def test_a_policy_that_became_stricter_binds_calls_that_were_admitted_before(
    store: Store, policy: ToolPolicy, code: str
) -> None:
    outside = Outside()
    await left_open(store, [outside.tool()], ToolPolicy(allowed_tools=("bump",)))
    async with chat_world(store, ScriptedModel(text_answer("done")), [outside.tool()], policy=policy) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == [code]
    assert outside.seen == []


async def test_a_policy_that_became_looser_leaves_the_approval_bound_to_the_call(store: Store) -> None:
    outside = Outside()
    await left_open(store, [outside.tool()], policy_that_asks("bump"), approved=True)
    async with chat_world(store, ScriptedModel(text_answer("done")), [outside.tool()]) as talk:
        await talk.host.settle()
        assert talk.turn["status"] == "done"
    assert outside.seen == ["x"]


@pytest.mark.parametrize(
    ("effect", "code"), [(ToolEffect.READ_ONLY, "execution"), (ToolEffect.STATE_CHANGE, "unknown_outcome")]
)
async def test_a_call_that_ends_its_process_each_time_is_given_up(store: Store, effect: ToolEffect, code: str) -> None:
    looked: list[int] = []

    def look(what: str) -> str:
        """Looks, and the process is gone."""
        looked.append(1)
        return f"seen {what}"

    tools = [Tool.wrap(look, name="bump", effect=effect)]
    await left_open(store, tools, ToolPolicy(allowed_tools=("bump",)))
    async with chat_world(store, ScriptedModel(), tools, perform=False) as talk:
        [intent] = talk.host.state(MAIN).intents.values()
    keys = [attempt_key(intent, number) for number in range(MAX_ATTEMPTS)]
    store.append([], attempts=[Attempt(key, str(MAIN), "earlier", 1) for key in keys])
    async with chat_world(store, ScriptedModel(text_answer("I could not look.")), tools) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == [code]
        assert talk.turn["status"] == "done"
    assert looked == []


async def test_a_def_handler_may_run_a_loop_of_its_own_while_others_are_busy(memory: MemoryStore) -> None:
    def keep(context: ToolContext) -> str:
        """Writes five files, each in a loop of its own."""
        workspaces = context.resources.get(Workspaces)
        assert workspaces is not None
        for number in range(5):
            asyncio.run(workspaces.write(f"f{number}", "x", workspace="main", expected_version=None))
        return "kept"

    tool = Tool.wrap(keep, name="keep", effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
    async with chat_world(memory, ScriptedModel(call_answer(("c1", "keep", {})), text_answer("ok")), [tool]) as talk:
        await talk.say("go", settle=False)
        for number in range(50):
            value = {"chat_id": f"other-{number}", "title": "t", "created_at_ms": 1}
            await talk.host.submit("demiurge/ChatCreated@1", value)
        async with asyncio.timeout(20):
            await talk.host.settle()
        assert "kept" in output_contents(talk)[0]
        versions = talk.host.state(Unit(WORKSPACE, "main")).cell
        assert versions is not None
        assert len(versions["versions"]) == 5


async def test_a_call_whose_attempt_came_with_the_receipt_before_it_runs_though_it_was_held_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first call's receipt is written, and the second one's attempt with it, an event comes that can't be
    taken, so that the unit stops: the second call has not begun, and is not in doubt."""
    outside, write, loop = Outside(), store.append, asyncio.get_running_loop()
    spoiled: list[bool] = []

    def append(batches: Sequence[Batch], **given: Any) -> list[list[int]]:
        if batches and given["attempts"] and not spoiled:
            spoiled.append(True)
            asyncio.run_coroutine_threadsafe(spoil(), loop).result(10)
        return write(batches, **given)

    async def spoil() -> None:
        stamp = Stamp(1, b"", Caller("user"), talk.host.manifest.ref)
        talk.host._units[MAIN].offer(Ingress("event", "spoils", {}, stamp))

    def spoiling(manifest: Manifest, state: UnitState, ingress: Ingress, *given: Any) -> Advance:
        if ingress.id == "spoils":
            raise NotFound("There is no such blob.")
        return advance_with_blobs(manifest, state, ingress, *given)

    monkeypatch.setattr(store, "append", append)
    monkeypatch.setattr("demiurge.world.host.live.advance_with_blobs", spoiling)
    model = ScriptedModel(call_answer(bump_call("a", "c1"), bump_call("b", "c2")), text_answer("done"))
    async with chat_world(store, model, [outside.tool()]) as talk:
        with pytest.raises(NotFound):
            await talk.say("go")
        await talk.host.settle()
        assert talk.turn["status"] == "done"
        assert not any("unknown_outcome" in content for content in output_contents(talk))
    assert outside.seen == ["a", "b"]
