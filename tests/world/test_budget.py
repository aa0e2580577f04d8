"""Budgets where they are felt: in a chat, by a tool, by an effect that runs, over restarts, snapshots and forks."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from tests.world.budget_worlds import CALL, B, Units, room_order, spending_manifest
from tests.world.budget_worlds import tool_result as tool_answer
from tests.world.recomputed_stores import fork_store
from tests.world.small_world import (
    A,
    EchoAdapter,
    ScriptedModel,
    call_answer,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)

from demiurge.models.providers import PROVIDERS
from demiurge.models.request import GenerateRequest
from demiurge.stores import MemoryStore, Store
from demiurge.stores.protocol import Snapshot
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.limits.budget import BudgetTracker, TokenUsage
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import ref_of
from demiurge.wire.items import Completion, Message
from demiurge.world.budget import Used
from demiurge.world.effect import EffectCall, Restart, Result
from demiurge.world.effect_kinds.llm import TWO_REQUESTS
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.snapshot import read_snapshot, snapshot_node
from demiurge.world.state import OpenIntent
from demiurge.world.workspace import WORKSPACE


def look(effect: ToolEffect = ToolEffect.READ_ONLY) -> Tool[Any, Any]:
    def look(at: str) -> str:
        """Looks."""
        return f"seen {at}"

    return Tool.wrap(look, name="look", effect=effect)


def call(number: int) -> tuple[str, str, dict[str, str]]:
    return (f"c{number}", "look", {"at": str(number)})


def policy_with_budgets(run: Allowance | None = None, unit: Allowance | None = None, tool: str = "look") -> ToolPolicy:
    return ToolPolicy(allowed_tools=(tool,), budgets=Budgets(run=run, unit=unit))


def contents(talk: Any) -> list[dict[str, Any]]:
    """What the model was told about its calls that were refused."""
    texts = [output["content"] for output in talk.outputs()]
    return [canonical_json.parse_object(text) for text in texts if text.startswith('{"ok":false')]


# -- chats ------------------------------------------------------------------------------------------------------------


async def test_the_model_is_told_of_a_call_beyond_the_budget_and_answers_in_words(store: Store) -> None:
    model = ScriptedModel(call_answer(call(1), call(2)), call_answer(call(3)), text_answer("I have seen one."))
    async with chat_world(store, model, [look()], policy=policy_with_budgets(run=Allowance(max_tool_calls=1))) as talk:
        await talk.say("look")
        ran = [receipt["payload"]["ok"] for receipt in talk.receipts("tool.call")]
        assert (talk.turn["status"], ran) == ("done", [True, False, False])
        sentence = "The budget for this run is used up: 0 of 1 tool calls are left."
        assert contents(talk) == [{"ok": False, "error_code": "budget_exceeded", "message": sentence}] * 2


async def test_the_user_is_told_when_no_more_requests_to_the_model_are_paid_for(store: Store) -> None:
    model = ScriptedModel(call_answer(call(1)), text_answer("again"))
    async with chat_world(
        store, model, [look()], policy=policy_with_budgets(run=Allowance(max_llm_requests=1))
    ) as talk:
        await talk.say("look")
        assert (talk.turn["status"], talk.turn["code"]) == ("failed", "budget_exceeded")
        assert talk.turn["message"] == "The budget for this run is used up: 0 of 1 model requests are left."
        await talk.say("again")  # a message of its own has a budget of its own
        assert talk.turn["status"] == "done"


async def test_tokens_and_cost_of_real_receipts_are_counted(memory: MemoryStore) -> None:
    limits = Allowance(max_total_tokens=10_000, max_cost_micros=10**9)
    async with chat_world(
        memory, ScriptedModel(text_answer("hi")), [look()], policy=policy_with_budgets(unit=limits)
    ) as talk:
        await talk.say("hello")
        used = talk.host.state(talk.unit).used
        assert used is not None
        assert used._replace(cost_micros=0, unpriced=0) == Used(0, 1, 15)
        [receipt] = talk.receipts("llm.generate")
        usage = canonical_json.parse_object(talk.host.get_blob(receipt["payload"]["usage_ref"]))
        assert (used.cost_micros, used.unpriced) == (usage["cost_micros"] or 0, int(usage["cost_micros"] is None))


class FinalModel(ScriptedModel):
    """Decides by the JSON tool protocol to call no tool, and then answers."""

    asked = 0

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        self.asked += 1
        last = request.items[-1]
        assert isinstance(last, Message)
        nonce = re.search("TOOL_NONCE: ([0-9a-f]+)", last.text)
        return text_answer(f'{{"action": "final", "nonce": "{nonce[1]}"}}' if nonce is not None else "hi")


async def test_a_final_decision_and_the_answer_after_it_count_as_two_requests(memory: MemoryStore) -> None:
    limits = policy_with_budgets(unit=Allowance(max_llm_requests=10))
    async with chat_world(memory, FinalModel(), [look()], policy=limits) as talk:
        await talk.say("hello", provider="openai-chat-json")
        assert talk.turn["status"] == "done"
        used = talk.host.state(talk.unit).used
        assert used is not None
        assert used._replace(cost_micros=0, unpriced=0) == Used(0, 2, 30)
        assert list(talk.host.replay())


@pytest.mark.parametrize(("most", "status"), [(1, "failed"), (2, "done")])
async def test_a_request_that_may_take_two_is_admitted_if_the_budget_suffices_for_both(
    memory: MemoryStore, most: int, status: str
) -> None:
    model = FinalModel()
    limits = policy_with_budgets(run=Allowance(max_llm_requests=most))
    async with chat_world(memory, model, [look()], policy=limits) as talk:
        await talk.say("hello", provider="openai-chat-json")
        assert (talk.turn["status"], model.asked) == (status, 2 if status == "done" else 0)
        if status == "failed":
            why = "The budget for this run is used up: 1 of 1 model requests are left, and 2 may be needed."
            assert (talk.turn["code"], talk.turn["message"]) == ("budget_exceeded", why)


def test_models_that_get_their_tools_by_the_json_tool_protocol_may_take_two_requests() -> None:
    assert {*TWO_REQUESTS} == {name for name, row in PROVIDERS.items() if row.json_tool_protocol}


async def test_a_chats_budget_holds_over_restarts_and_replays(store: Store) -> None:
    limits = policy_with_budgets(unit=Allowance(max_tool_calls=2))
    for number in range(3):
        async with chat_world(
            store, ScriptedModel(call_answer(call(number)), text_answer("ok")), [look()], policy=limits
        ) as talk:
            await talk.say("look")
            used = talk.host.state(talk.unit).used
            assert used is not None
            assert used.tool_calls == min(number + 1, 2)
            assert list(talk.host.replay())
    assert [answer["error_code"] for answer in contents(talk)] == ["budget_exceeded"]


# -- tools ------------------------------------------------------------------------------------------------------------


async def test_a_tool_finds_what_is_left_in_its_context_and_says_what_it_used(memory: MemoryStore) -> None:
    found: dict[str, Any] = {}

    def think(context: ToolContext) -> str:
        """Asks a model of its own."""
        tracker, deadline = context.budget_tracker, context.deadline
        assert tracker is not None
        assert deadline is not None
        assert (context.resources.get(BudgetTracker), context.resources.get(Deadline)) == (tracker, deadline)
        found.update(budget=tracker.budget, left=deadline.remaining())
        tracker.record_cumulative("mine", TokenUsage(30, 10), 250)
        return "thought"

    limits = policy_with_budgets(
        Allowance(max_total_tokens=1000, max_wall_ms=60_000), Allowance(max_total_tokens=5000), "think"
    )
    tools = [Tool.wrap(think, name="think", effect=ToolEffect.READ_ONLY)]
    async with chat_world(
        memory, ScriptedModel(call_answer(("c1", "think", {})), text_answer("ok")), tools, policy=limits
    ) as talk:
        await talk.say("think")
        [receipt] = talk.receipts("tool.call")
        assert receipt["payload"]["usage"] == {"total_tokens": 40, "cost_micros": 250}
        assert found["budget"].max_total_tokens == 1000 - 15  # of the request before it
        assert timedelta(seconds=50) < found["left"] <= timedelta(seconds=60)
        used = talk.host.state(talk.unit).used
        assert used is not None
        assert (used.tool_calls, used.total_tokens) == (1, 40 + 2 * 15)


async def test_without_budgets_a_tool_finds_none_and_its_receipt_says_nothing(memory: MemoryStore) -> None:
    found: list[Any] = []

    def think(context: ToolContext) -> str:
        """Looks for a budget."""
        found.append((context.budget_tracker, context.deadline))
        return "thought"

    tools = [Tool.wrap(think, name="think", effect=ToolEffect.READ_ONLY)]
    async with chat_world(memory, ScriptedModel(call_answer(("c1", "think", {})), text_answer("ok")), tools) as talk:
        await talk.say("think")
        assert talk.receipts("tool.call")[0]["payload"]["usage"] is None
    assert found == [(None, None)]


@pytest.mark.parametrize(
    ("effect", "code"), [(ToolEffect.READ_ONLY, "timeout"), (ToolEffect.STATE_CHANGE, "unknown_outcome")]
)
async def test_a_tool_that_runs_when_its_run_is_over_is_stopped_by_the_runner(
    memory: MemoryStore, effect: ToolEffect, code: str
) -> None:
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    limits = policy_with_budgets(Allowance(max_wall_ms=400), tool="wait")
    tools = [Tool.wrap(wait, name="wait", effect=effect)]
    async with chat_world(
        memory, ScriptedModel(call_answer(("c1", "wait", {})), text_answer("ok")), tools, policy=limits
    ) as talk:
        await talk.say("wait")
        [receipt] = talk.receipts("tool.call")
        assert receipt["payload"]["error_code"] == code
        assert receipt["payload"]["message"] == SAFE_MESSAGES[ToolErrorCode(code)]


# -- effects that run -------------------------------------------------------------------------------------------------


def manifest_with_time_limit(most_ms: int) -> Manifest:
    return small_manifest(tool_policy=ToolPolicy(budgets=Budgets(run=Allowance(max_wall_ms=most_ms))))


def room_log(host: Host) -> list[str]:
    cell = host.state(A).cell
    assert cell is not None
    return list(cell["log"])


@pytest.mark.parametrize(("restart", "code"), [("retry", "deadline_exceeded"), ("in_doubt", "unknown_outcome")])
async def test_an_effect_that_runs_when_its_run_is_over_is_stopped(store: Store, restart: Restart, code: str) -> None:
    echo = EchoAdapter({"x": asyncio.Event()}, restart)
    async with running_host(store, manifest_with_time_limit(300), [echo]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
        assert room_log(host) == ["asked", f"error:{code}"]
        assert not host.state(A).is_open
        assert list(host.replay())
    assert echo.performed == ["x"]


class Failing(EchoAdapter):
    async def perform(self, call: EffectCall) -> Result:
        raise TimeoutError


async def test_a_time_out_of_the_adapters_own_is_not_the_runs(memory: MemoryStore) -> None:
    async with running_host(memory, manifest_with_time_limit(60_000), [Failing()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
        assert room_log(host) == ["asked", "error:effect_failed"]


async def test_an_effect_resumed_after_the_deadline_of_its_run_is_not_begun(store: Store) -> None:
    async with running_host(store, manifest_with_time_limit(60_000), [EchoAdapter()], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    echo = EchoAdapter()
    async with running_host(store, manifest_with_time_limit(60_000), [echo]) as host:  # hours later
        await host.settle()
        assert room_log(host) == ["asked", "error:deadline_exceeded"]
    assert echo.performed == []


# -- snapshots, forks -------------------------------------------------------------------------------------------------


def test_a_state_without_budgets_is_kept_as_it_always_was() -> None:
    world = Units(spending_manifest())
    world.tell(calls=["bump", "asked"], think=[5])
    node = cbor.decode(snapshot_node(world.a.state)[0])
    assert not {"runs", "used"} & set(node)
    assert all(not {"run", "left"} & set(part) for part in (*node["intents"], *node["plans"]))


def test_a_state_with_budgets_comes_back_from_its_snapshot() -> None:
    world = Units(
        spending_manifest(Budgets(run=Allowance(max_tool_calls=5, max_wall_ms=10**6), unit=Allowance(max_tool_calls=9)))
    )
    world.tell(calls=["bump", "bump"], notes=[{"text": "call", "budget": {"max_tool_calls": 1}}])
    world.deliver()
    world.answer(A, world.a.intents[0])
    for kernel in (world.a, world.b):
        node, chunks = snapshot_node(kernel.state)
        stored = {ref_of(node): node, **chunks}
        snapshot = Snapshot(str(kernel.state.unit), kernel.state.seq - 1, kernel.state.head, ref_of(node))
        again = read_snapshot(snapshot, kernel.state.world, kernel.state.unit, stored.__getitem__)
        assert (again.runs, again.used, again.intents) == (kernel.state.runs, kernel.state.used, kernel.state.intents)
        assert [plan.run for plan in again.plans.values()] == [plan.run for plan in kernel.state.plans.values()]
        assert again.runs


class Bump:
    """The adapter of `tool.call` where no tool runs. `let` lets it go on."""

    kinds = ("tool.call",)

    def __init__(self, store: Store, let: asyncio.Event | None = None) -> None:
        self.store, self.let, self.made = store, let, 0

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "in_doubt"

    async def perform(self, call: EffectCall) -> Result:
        self.made += 1
        if self.let is not None:
            await self.let.wait()
        await call.put_blob(b"")
        return tool_answer()


async def test_a_fork_carries_shares_on_and_settles_its_own(store: Store) -> None:
    manifest = spending_manifest(Budgets(run=Allowance(max_tool_calls=3), unit=Allowance(max_tool_calls=9)))
    store.put_blob(CALL)
    notes = [{"text": "call", "budget": {"max_tool_calls": 2}}]
    async with running_host(store, manifest, [Bump(store, asyncio.Event())]) as host:
        await host.submit("ex/Ev@1", room_order(notes=notes, calls=["bump"]))
        while len(host.state(B).intents) < 2:
            await asyncio.sleep(0)
        lent = [run.lent for run in host.state(A).runs.values()]
        assert [[limits for _, limits in entry.values()] for entry in lent] == [[{"tool_calls": 2}]]
    target, _ = fork_store(store, manifest)
    async with running_host(target, manifest, [Bump(target)]) as host:
        await host.settle()
        assert (host.state(A).runs, host.state(B).runs) == ({}, {})
        used = [host.state(unit).used for unit in (A, B)]
        assert used == [Used(1), Used(2)]  # what was open ended there, and may have been done
        assert list(host.replay())
    [settled] = [r for r in stored_records(target) if r.kind == "event" and r.body["schema"] == "sys/BudgetSettled@1"]
    assert settled.body["value"]["tool_calls"] == 2


async def test_an_event_that_an_effect_sends_takes_nothing_along(memory: MemoryStore) -> None:
    limits = policy_with_budgets(Allowance(max_tool_calls=2), tool="workspace__write")
    write = ("c1", "workspace__write", {"path": "a", "text": "x"})
    async with chat_world(memory, ScriptedModel(call_answer(write), text_answer("ok")), policy=limits) as talk:
        await talk.say("write")
        assert talk.turn["status"] == "done"
        [commit] = [r for r in stored_records(memory) if r.unit.startswith(WORKSPACE) and isinstance(r.cause, dict)]
        assert isinstance(commit.cause, dict)
        assert commit.cause["budget"] == {"tool_calls": 0}
