"""`tool.call` through a host: one runner, capabilities that are effects, a person's decision, and restarts
(seed 000, Tests: Plan and Integration; architecture.md 2, rules 3 and 4).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.world.small_world import (
    MAIN,
    START_NS,
    SYSTEM,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_adapters,
    chat_manifest,
    chat_world,
    stop_before_effect,
    stored_records,
    text_answer,
)

from demiurge.errors import Conflict, NotFound, UsageError
from demiurge.stores import MemoryStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.capabilities import Introspection, Workspaces
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolUserError
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult
from demiurge.tools.source import StaticToolSource
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import FixedClock, SeededEntropy
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolOutput
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE

READ, LIST, WRITE, STATE = "workspace__read", "workspace__list", "workspace__write", "introspect__state"
DAY_NS = 24 * 3600 * 10**9


class Outside:
    """A counter that tools bump: what an outside observer saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def tool(self, effect: ToolEffect = ToolEffect.STATE_CHANGE, name: str = "bump", **more: Any) -> Tool[Any, Any]:
        async def bump(what: str) -> str:
            """Bumps the counter."""
            self.seen.append(what)
            return f"bumped {what}"

        return Tool.wrap(bump, name=name, effect=effect, **more)


def policy_that_asks(*names: str, allowed: tuple[str, ...] = ()) -> ToolPolicy:
    return ToolPolicy(allowed_tools=(*names, *allowed), require_approval_for_tools=names)


def bump_call(what: str = "x", call_id: str = "c1") -> tuple[str, str, dict[str, str]]:
    return (call_id, "bump", {"what": what})


async def approve(talk: ChatClient, *, approve: bool = True, reason: str = "ok", index: int = 0) -> None:
    _, intent = talk.host.approvals()[index]
    await talk.host.decide(intent.id, approve=approve, reason=reason, caller=Caller("anna"))
    await talk.host.settle()


def output_contents(talk: ChatClient) -> list[str]:
    return [output["content"] for output in talk.outputs()]


def refusal_codes(talk: ChatClient) -> list[str]:
    return [canonical_json.parse_object(text)["error_code"] for text in output_contents(talk)]


# -- one call ---------------------------------------------------------------------------------------------------------


async def test_a_call_runs_is_recorded_and_answered(store: Store) -> None:
    outside = Outside()
    async with chat_world(
        store, ScriptedModel(call_answer(bump_call()), text_answer("done")), [outside.tool()]
    ) as talk:
        await talk.say("go")
        [receipt] = talk.receipts("tool.call")
        payload, get = receipt["payload"], talk.host.get_blob
        schema = talk.host.manifest.schemas.validator("sys/ToolCallReceipt@1")
        assert schema.normalise(payload) == payload
        assert (payload["ok"], payload["tool_call_id"]) == (True, "c1")
        message = canonical_json.parse_object(get(payload["message_ref"]))
        assert message == {"role": "tool", "tool_call_id": "c1", "content": message["content"]}
        assert "bumped x" in message["content"]
        record = canonical_json.parse_object(get(payload["record_ref"]))
        assert (record["tool_call_id"], record["name"], record["decision"]) == ("c1", "bump", "allow")
        assert (talk.roles(), talk.turn["status"]) == (["user", "assistant", "tool", "assistant"], "done")
    assert outside.seen == ["x"]


async def test_the_view_and_record_of_a_call_are_redacted_and_the_models_content_is_not(memory: MemoryStore) -> None:
    async with chat_world(
        memory, ScriptedModel(call_answer(bump_call("secret")), text_answer("done")), [Outside().tool()]
    ) as talk:
        await talk.say("go")
        payload = talk.receipts("tool.call")[0]["payload"]
        assert "secret" in output_contents(talk)[0]
        for name in ("view_ref", "record_ref"):
            assert b"secret" not in talk.host.get_blob(payload[name])


async def test_bad_arguments_are_answered_by_the_runner(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(("c1", "bump", {"what": 7}), ("c2", "bump", {"wat": "x"})), text_answer("sorry"))
    async with chat_world(memory, model, [outside.tool()]) as talk:
        await talk.say("go")
        assert refusal_codes(talk) == ["validation", "validation"]
    assert outside.seen == []


async def test_a_tool_that_is_allowed_but_not_here_is_unavailable(memory: MemoryStore) -> None:
    policy = ToolPolicy(allowed_tools=("ghost",))
    async with chat_world(
        memory, ScriptedModel(call_answer(("c1", "ghost", {})), text_answer("ok")), policy=policy
    ) as talk:
        await talk.say("go", tools_ref=None)
        assert refusal_codes(talk) == ["unavailable"]


async def test_a_tool_that_raises_is_answered_without_its_words(memory: MemoryStore) -> None:
    async def breaks() -> str:
        """Breaks."""
        raise RuntimeError("the password is hunter2")

    async def explains() -> str:
        """Explains."""
        raise ToolUserError("Ask for less.")

    tools = [Tool.wrap(breaks, name="breaks"), Tool.wrap(explains, name="explains")]
    model = ScriptedModel(call_answer(("c1", "breaks", {}), ("c2", "explains", {})), text_answer("ok"))
    async with chat_world(memory, model, tools) as talk:
        await talk.say("go")
        assert refusal_codes(talk) == ["execution", "execution"]
        assert "Ask for less." in output_contents(talk)[1]
    assert all(b"hunter2" not in record.data for record in stored_records(memory))
    assert all(b"hunter2" not in memory.get_blob(ref) for ref in memory.iter_blobs())


async def test_calls_of_one_turn_are_all_answered_before_the_model_is_asked_again(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(
        call_answer(bump_call("a", "c1"), bump_call("b", "c2"), bump_call("c", "c3")), text_answer("done")
    )
    async with chat_world(memory, model, [outside.tool()]) as talk:
        await talk.say("go")
        assert [output["tool_call_id"] for output in talk.outputs()] == ["c1", "c2", "c3"]
    assert outside.seen == ["a", "b", "c"]
    assert len(model.requests) == 2


async def test_calls_of_one_turn_run_one_after_the_other_so_that_writes_do_not_conflict(memory: MemoryStore) -> None:
    """Seed 003, PX: no calls in parallel unless the user opts in."""
    running = most = 0

    async def count() -> str:
        """Counts how many run at once."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return ""

    writes = [(f"w{n}", WRITE, {"path": f"{n}.txt", "text": "x"}) for n in range(3)]
    calls = call_answer(*writes, ("c1", "count", {}), ("c2", "count", {}), ("c3", "count_too", {}))
    tools = [Tool.wrap(count, name=name, effect=ToolEffect.READ_ONLY) for name in ("count", "count_too")]
    async with chat_world(memory, ScriptedModel(calls, text_answer("done")), tools) as talk:
        await talk.say("go")
        cell = talk.host.state(Unit(WORKSPACE, "main")).cell
        assert cell is not None
        assert len(cell["versions"]) == 3
    assert most == 1


async def test_cancelled_tools_are_in_doubt_when_they_change_something(memory: MemoryStore) -> None:
    begun = asyncio.Event()

    async def slow() -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    for effect, code in [(ToolEffect.STATE_CHANGE, "unknown_outcome"), (ToolEffect.READ_ONLY, "cancelled")]:
        store = MemoryStore("world_1")
        begun.clear()
        tool = Tool.wrap(slow, name="slow", effect=effect)
        async with chat_world(store, ScriptedModel(call_answer(("c1", "slow", {})), text_answer("ok")), [tool]) as talk:
            await talk.say("go", settle=False)
            await begun.wait()
            await talk.host.cancel(MAIN, reason="enough", caller=Caller("user"))
            await talk.host.settle()
            assert talk.receipts("tool.call")[0]["payload"]["code"] == code
            assert refusal_codes(talk) == [code]


async def test_a_call_that_is_cancelled_before_it_began_never_runs_not_even_after_a_restart(store: Store) -> None:
    outside = Outside()
    tools = [outside.tool()]
    model = ScriptedModel(call_answer(bump_call()), text_answer("unused"))
    async with chat_world(store, model, tools, policy=policy_that_asks("bump")) as talk:
        await talk.say("go", settle=False)
        await talk.host.settle()
        _, intent = talk.host.approvals()[0]
        deciding = asyncio.create_task(talk.host.decide(intent.id, approve=True, reason="", caller=Caller("anna")))
        while not talk.host._units[MAIN].effects:
            await asyncio.sleep(0)
        await talk.host.submit("demiurge/TurnCancelled@1", {"chat_id": "main", "request_id": 1})
        await talk.host.cancel(MAIN, reason="enough", caller=Caller("user"))
        await deciding
        await talk.host.settle()
        assert talk.host.state(MAIN).intents == {}
    seen = list(outside.seen)
    async with chat_world(store, ScriptedModel(), tools, policy=policy_that_asks("bump")) as talk:
        await talk.host.settle()
    assert outside.seen == seen


# -- capabilities -----------------------------------------------------------------------------------------------------


async def test_a_workspace_is_written_listed_and_read_by_effects(store: Store) -> None:
    model = ScriptedModel(
        call_answer(("c1", WRITE, {"path": "docs/a.txt", "text": "hello"})),
        call_answer(("c2", LIST, {"path": "docs"}), ("c3", READ, {"path": "docs/a.txt"})),
        text_answer("done"),
    )
    async with chat_world(store, model) as talk:
        await talk.say("go")
        wrote, listed, text = output_contents(talk)
        assert "docs/a.txt" in wrote
        assert "a.txt" in listed
        assert "hello" in text
        kinds = [r.body["kind"] for r in talk.records("intent") if r.body["origin"]["kind"] == "tool"]
        assert sorted(kinds) == ["workspace.commit", "workspace.list", "workspace.read_bytes", "workspace.write_bytes"]
        [versions] = [talk.host.state(Unit(WORKSPACE, "main")).cell]
        assert versions is not None
        assert len(versions["versions"]) == 1
        assert versions["versions"][0]["owner"] == "user"


async def test_a_capability_request_is_an_ingress_whose_effect_names_its_parent(memory: MemoryStore) -> None:
    async with chat_world(memory, ScriptedModel(call_answer(("c1", LIST, {})), text_answer("done"))) as talk:
        await talk.say("go")
        [parent] = [r for r in talk.records("intent") if r.body["kind"] == "tool.call"]
        [request] = talk.records("capability_request")
        assert (request.cause, request.body["parent"], request.body["ordinal"]) == (
            parent.unit_seq,
            parent.body["id"],
            0,
        )
        [child] = [r for r in talk.records("intent") if r.body["kind"] == "workspace.list"]
        assert child.cause == request.unit_seq
        assert child.body["origin"] == {"kind": "tool", "name": LIST, "parent": parent.body["id"], "ordinal": 0}


async def test_a_commit_names_the_call_that_caused_it(memory: MemoryStore) -> None:
    async with chat_world(
        memory, ScriptedModel(call_answer(("c1", WRITE, {"path": "a", "text": "x"})), text_answer("done"))
    ) as talk:
        await talk.say("go")
        [intent] = [r for r in talk.records("intent") if r.body["kind"] == "workspace.commit"]
        [commit, *_] = talk.host.records(Unit(WORKSPACE, "main"))
        assert commit.cause == {"unit": str(MAIN), "seq": intent.unit_seq, "index": 0}


async def test_a_conflict_is_a_result_and_not_a_crash(memory: MemoryStore) -> None:
    def write(call_id: str, text: str, expected: int | None) -> Any:
        return call_answer((call_id, WRITE, {"path": "a", "text": text, "expected_version": expected}))

    model = ScriptedModel(write("c1", "one", 0), write("c2", "two", 0), write("c3", "three", 1), text_answer("done"))
    async with chat_world(memory, model) as talk:
        await talk.say("go")
        outcomes = [m["tool"]["ok"] for m in talk.state["messages"] if m["tool"]]
        assert outcomes == [True, True, True], "a conflict is no failure of the tool"
        assert "version 0 was expected, but it is 1" in output_contents(talk)[1]
        cell = talk.host.state(Unit(WORKSPACE, "main")).cell
        assert cell is not None
        assert len(cell["versions"]) == 2


async def test_a_first_write_may_expect_an_empty_workspace_and_another_expectation_conflicts(
    memory: MemoryStore,
) -> None:
    model = ScriptedModel(
        call_answer(("c1", WRITE, {"path": "a", "text": "x", "expected_version": 7})), text_answer("done")
    )
    async with chat_world(memory, model) as talk:
        await talk.say("go")
        assert "version 7 was expected, but it is 0" in output_contents(talk)[0]
        assert talk.host.state(Unit(WORKSPACE, "main")).cell is None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (READ, {"path": "nowhere"}),
        (LIST, {"path": "nowhere"}),
        (READ, {"path": "docs"}),
        (WRITE, {"path": "docs", "text": "x"}),
    ],
)
async def test_a_failed_workspace_call_tells_the_model_the_path(
    memory: MemoryStore, tool: str, arguments: dict[str, Any]
) -> None:
    model = ScriptedModel(
        call_answer(("c0", WRITE, {"path": "docs/a", "text": "x"})),
        call_answer(("c1", tool, arguments)),
        text_answer("ok"),
    )
    async with chat_world(memory, model) as talk:
        await talk.say("go")
        answer = canonical_json.parse_object(output_contents(talk)[1])
        assert (answer["ok"], answer["error_code"]) == (False, "execution")
        assert arguments["path"] in answer["message"]
        assert talk.turn["status"] == "done"


async def test_a_path_outside_the_grant_is_denied_recorded_and_told(memory: MemoryStore) -> None:
    manifest = chat_manifest(grants={"cap_workspace": {"params": {"path_prefixes": ["docs"]}}})
    model = ScriptedModel(call_answer(("c1", WRITE, {"path": "etc/passwd", "text": "x"})), text_answer("ok"))
    async with chat_world(memory, model, manifest=manifest) as talk:
        await talk.say("go")
        [decision] = talk.records("decision")
        assert (decision.body["by"], decision.body["code"]) == ("cap", "path_not_allowed")
        assert refusal_codes(talk) == ["policy_denied"]
        assert talk.host.state(Unit(WORKSPACE, "main")).cell is None


async def test_a_read_only_tool_of_the_users_can_not_write(memory: MemoryStore) -> None:
    async def sneaky(context: ToolContext) -> str:
        """Says that it only reads."""
        workspaces = context.resources.get(Workspaces)
        assert workspaces is not None
        await workspaces.write("a", "x", workspace="main", expected_version=None)
        return "written"

    tool = Tool.wrap(sneaky, name="sneaky", effect=ToolEffect.READ_ONLY, capabilities=(Workspaces,))
    async with chat_world(memory, ScriptedModel(call_answer(("c1", "sneaky", {})), text_answer("ok")), [tool]) as talk:
        await talk.say("go")
        assert [d.body["code"] for d in talk.records("decision")] == ["effect_level"]
        assert refusal_codes(talk) == ["policy_denied"]
        assert talk.host.state(Unit(WORKSPACE, "main")).cell is None


async def test_introspection_receipts_name_the_unit_its_number_and_the_hash_of_what_was_read(store: Store) -> None:
    async with chat_world(store, ScriptedModel(call_answer(("c1", STATE, {})), text_answer("ok"))) as talk:
        await talk.say("go")
        [receipt] = talk.receipts("introspect.state")
        reading = receipt["payload"]["reading"]
        assert reading["unit"] == str(MAIN)
        [request] = talk.records("capability_request")
        assert request.unit_seq < reading["unit_seq"] <= request.unit_seq + 2
        assert store.has_blob(reading["state_hash"])
        seen = canonical_json.parse_object(talk.host.get_blob(receipt["payload"]["state_ref"]))
        assert seen["turn"]["status"] == "tools"
        assert [m["role"] for m in seen["messages"]] == ["user", "assistant"]
    assert verify(store).ok


async def test_introspection_of_what_is_not_there_says_so(memory: MemoryStore) -> None:
    calls = call_answer(("c1", STATE, {"module": "ex/None@1"}), ("c2", STATE, {"key": "nobody"}))
    async with chat_world(memory, ScriptedModel(calls, text_answer("ok"))) as talk:
        await talk.say("go")
        texts = output_contents(talk)
        assert "There is no module ex/None@1." in texts[0]
        receipts = talk.receipts("introspect.state")
        assert sorted(r["status"] for r in receipts) == ["error", "ok"]
        [found] = [r["payload"] for r in receipts if r["status"] == "ok"]
        assert found["state_ref"] is None
        assert found["reading"] == {"unit": "demiurge/Demiurge@1/nobody", "unit_seq": 0, "state_hash": None}


async def test_the_manifest_is_introspected_by_its_address(memory: MemoryStore) -> None:
    async with chat_world(
        memory, ScriptedModel(call_answer(("c1", "introspect__manifest", {})), text_answer("ok"))
    ) as talk:
        await talk.say("go")
        [receipt] = talk.receipts("introspect.manifest")
        assert receipt["payload"] == {"manifest_ref": talk.host.manifest.ref}
        _, _, value = output_contents(talk)[0].partition("\n\n")
        shown = canonical_json.parse_object(value)["manifest"]
        assert "demiurge/chat_plan@1" in shown["plans"]
        assert {"llm.generate", "tool.call", "workspace.commit"} <= set(shown["effects"])
        grants = {grant["name"] for grant in shown["grants"]}
        assert grants == {
            "cap_llm",
            "cap_tool",
            "cap_workspace",
            "cap_query",
            "cap_webhook",
            "cap_registry",
            "cap_issues",
            "cap_chief",
        }
        assert shown["policies"] == ["demiurge/policy@1"]
        assert shown["policy"][-1] == {"when": {}, "decision": "deny"}
        triggers = [(trigger["event"], trigger["plan"]) for trigger in shown["triggers"]]
        assert ("demiurge/ChatRequest@1", "demiurge/chat_plan@1") in triggers
        assert {route["event"] for route in shown["routing"]} == {
            "demiurge/ChatEvent@1",
            "demiurge/CallsEvent@1",
            "demiurge/SamplingEvent@1",
            "demiurge/TitleEvent@1",
        }
        assert shown["tool_policy"]["allowed_tools"] == sorted(shown["tools"])
        assert shown["settings"]["max_tool_rounds"] == 8
        assert "policys" not in shown


async def test_a_model_is_shown_the_rules_for_its_caller_and_not_whom_they_name(memory: MemoryStore) -> None:
    model = ScriptedModel(call_answer(("c1", "introspect__manifest", {})), text_answer("ok"))
    rules = (
        ToolPolicyRule("ours", tenants=("acme", "globex"), denied_tools=(READ,)),
        ToolPolicyRule("theirs", tenants=("initech",), denied_tools=(LIST,)),
    )
    policy = ToolPolicy(("introspect__manifest", READ, LIST), rules=rules)
    async with chat_world(memory, model, policy=policy) as talk:
        await talk.say("go", caller=BOT)
        shown = canonical_json.parse_object(output_contents(talk)[0].partition("\n\n")[2])["manifest"]["tool_policy"]
        assert shown["rules"] == [{"name": "ours", "denied_tools": [READ]}]


async def test_a_tool_may_ask_for_several_things_at_once(memory: MemoryStore) -> None:
    async def both(context: ToolContext) -> str:
        """Reads two things."""
        workspaces, introspection = context.resources.get(Workspaces), context.resources.get(Introspection)
        assert workspaces is not None
        assert introspection is not None
        entries, state = await asyncio.gather(workspaces.list("", workspace="main"), introspection.state(None, None))
        return f"{len(entries)} {state['key']}"

    tool = Tool.wrap(both, name="both", effect=ToolEffect.READ_ONLY, capabilities=(Workspaces, Introspection))
    async with chat_world(memory, ScriptedModel(call_answer(("c1", "both", {})), text_answer("ok")), [tool]) as talk:
        await talk.say("go")
        assert "0 main" in output_contents(talk)[0]
        assert [r.body["ordinal"] for r in talk.records("capability_request")] == [0, 1]


# -- approvals --------------------------------------------------------------------------------------------------------


async def test_a_call_that_needs_a_person_waits_undispatched(store: Store) -> None:
    outside = Outside()
    async with chat_world(
        store, ScriptedModel(call_answer(bump_call())), [outside.tool()], policy=policy_that_asks("bump")
    ) as talk:
        await talk.say("go")
        [(unit, intent)] = talk.host.approvals()
        assert unit == MAIN
        asked = intent.approval
        assert asked is not None
        assert (asked["tool"], asked["tool_call_id"], asked["actor"]) == ("bump", "c1", "user")
        assert asked["spec_hash"] == talk.host.manifest.toolset["bump"].spec_hash
        assert talk.turn["status"] == "tools"
        assert store.attempts([intent.id]) == {}
    assert outside.seen == []


async def test_an_approved_call_runs_once_and_its_record_says_who(store: Store) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(bump_call()), text_answer("done"))
    async with chat_world(store, model, [outside.tool()], policy=policy_that_asks("bump")) as talk:
        await talk.say("go")
        await approve(talk, reason="go ahead")
        [decision] = talk.records("approval")
        assert (decision.body["verdict"], decision.body["by"], decision.body["reason"]) == (
            "approve",
            "anna",
            "go ahead",
        )
        assert decision.stamp.actor == "anna"
        assert talk.turn["status"] == "done"
        assert talk.host.approvals() == []
    assert outside.seen == ["x"]


async def test_a_rejected_call_is_told_to_the_model_with_the_reason(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(bump_call()), text_answer("pity"))
    async with chat_world(memory, model, [outside.tool()], policy=policy_that_asks("bump")) as talk:
        await talk.say("go")
        await approve(talk, approve=False, reason="Not on a Sunday.")
        answer = canonical_json.parse_object(output_contents(talk)[0])
        assert (answer["error_code"], answer["message"]) == ("approval_rejected", "Not on a Sunday.")
        assert talk.turn["status"] == "done"
    assert outside.seen == []


async def test_a_decision_that_comes_too_late_is_expired(memory: MemoryStore) -> None:
    outside = Outside()
    manifest = chat_manifest([outside.tool()], policy_that_asks("bump"))
    clock = FixedClock(START_NS)
    host = Host(
        memory,
        manifest,
        chat_adapters(ScriptedModel(call_answer(bump_call()), text_answer("ok")), [outside.tool()]),
        clock=clock,
        entropy=SeededEntropy(1),
    )
    talk = ChatClient(host)
    memory.put_blob(SYSTEM)
    await host.start()
    await talk.create()
    await talk.say("go")
    [(_, intent)] = host.approvals()
    clock.advance(7 * DAY_NS)
    await host.decide(intent.id, approve=True, reason="ok", caller=Caller("anna"))
    await host.settle()
    assert refusal_codes(talk) == ["approval_expired"]
    await host.close()
    assert outside.seen == []


async def test_a_decision_survives_a_restart_while_it_is_pending(store: Store) -> None:
    outside = Outside()
    tools, policy = [outside.tool()], policy_that_asks("bump")
    async with chat_world(store, ScriptedModel(call_answer(bump_call())), tools, policy=policy) as talk:
        await talk.say("go")
        [(_, before)] = talk.host.approvals()
    async with chat_world(store, ScriptedModel(text_answer("done")), tools, policy=policy) as talk:
        await talk.host.settle()
        assert outside.seen == []
        [(_, after)] = talk.host.approvals()
        assert after == before
        await approve(talk)
        assert talk.turn["status"] == "done"
    assert outside.seen == ["x"]


async def test_an_approved_call_that_was_not_begun_runs_after_a_restart(store: Store) -> None:
    outside = Outside()
    tools, policy = [outside.tool()], policy_that_asks("bump")
    async with chat_world(store, ScriptedModel(call_answer(bump_call())), tools, policy=policy) as talk:
        await talk.say("go")
        intent = talk.host.approvals()[0][1]
        stop_before_effect(talk.host)
        await talk.host.decide(intent.id, approve=True, reason="", caller=Caller("anna"))
    assert outside.seen == []
    async with chat_world(store, ScriptedModel(text_answer("done")), tools, policy=policy) as talk:
        await talk.host.settle()
        assert talk.turn["status"] == "done"
    assert outside.seen == ["x"]


async def test_a_policy_that_denies_since_then_beats_the_approval(store: Store) -> None:
    outside = Outside()
    tools = [outside.tool()]
    async with chat_world(
        store, ScriptedModel(call_answer(bump_call())), tools, policy=policy_that_asks("bump")
    ) as talk:
        await talk.say("go")
    async with chat_world(
        store, ScriptedModel(text_answer("ok")), tools, policy=ToolPolicy(allowed_tools=(READ,))
    ) as talk:
        await approve(talk)
        assert refusal_codes(talk) == ["policy_denied"]
        assert talk.records("decision")[-1].body["by"] == "tool_policy"
    assert outside.seen == []


@pytest.mark.parametrize("given_before", [True, False])
@pytest.mark.parametrize(("now", "ran"), [("another rule", False), ("the same rule", True), ("no rule", True)])
async def test_an_approval_that_one_rule_asked_for_does_not_count_under_another(
    memory: MemoryStore, now: str, *, ran: bool, given_before: bool
) -> None:
    """Whether it was given before the rule changed, to a call that had not begun, or after."""
    policies = {
        "another rule": ToolPolicy(("bump",), require_approval_for_effects=(ToolEffect.STATE_CHANGE,)),
        "the same rule": policy_that_asks("bump", allowed=(READ,)),
        "no rule": ToolPolicy(("bump",)),
    }
    outside = Outside()
    tools = [outside.tool()]
    async with chat_world(
        memory, ScriptedModel(call_answer(bump_call())), tools, policy=policy_that_asks("bump")
    ) as talk:
        await talk.say("go")
        if given_before:
            stop_before_effect(talk.host)
            await talk.host.decide(talk.host.approvals()[0][1].id, approve=True, reason="", caller=Caller("anna"))
    async with chat_world(memory, ScriptedModel(text_answer("ok")), tools, policy=policies[now]) as talk:
        if not given_before:
            await approve(talk)
        await talk.host.settle()
        assert talk.turn["status"] == "done"
        assert list(talk.host.replay())
        assert ran or refusal_codes(talk) == ["approval_expired"]
    assert outside.seen == (["x"] if ran else [])


async def test_a_tool_that_changed_since_then_beats_the_approval(store: Store) -> None:
    outside = Outside()
    async with chat_world(
        store, ScriptedModel(call_answer(bump_call())), [outside.tool()], policy=policy_that_asks("bump")
    ) as talk:
        await talk.say("go")
    changed = [outside.tool(ToolEffect.EXTERNAL_SIDE_EFFECT)]
    async with chat_world(store, ScriptedModel(text_answer("ok")), changed, policy=policy_that_asks("bump")) as talk:
        await approve(talk)
        assert refusal_codes(talk) == ["approval_expired"]
    assert outside.seen == []


async def test_a_call_is_decided_once(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(bump_call()), text_answer("done"))
    async with chat_world(memory, model, [outside.tool()], policy=policy_that_asks("bump")) as talk:
        await talk.say("go")
        _, intent = talk.host.approvals()[0]
        yes = talk.host.decide(intent.id, approve=True, reason="", caller=Caller("anna"))
        no = talk.host.decide(intent.id, approve=False, reason="", caller=Caller("bert"))
        outcomes = await asyncio.gather(yes, no, return_exceptions=True)
        assert outcomes[0] is None
        assert isinstance(outcomes[1], Conflict)
        await talk.host.settle()
        await talk.host.decide(intent.id, approve=True, reason="asked again", caller=Caller("anna"))
        for approve_it, actor in [(False, "anna"), (True, "bert")]:
            with pytest.raises(Conflict):
                await talk.host.decide(intent.id, approve=approve_it, reason="", caller=Caller(actor))
        assert len(talk.records("approval")) == 1
    assert outside.seen == ["x"]


BY_CHIEFS = ToolPolicy(
    allowed_tools=(READ,),
    require_approval_for_tools=(READ,),
    rules=(
        ToolPolicyRule("agents-bump", roles=("agent",), tenants=("acme",), allowed_tools=("bump",)),
        ToolPolicyRule(
            "chiefs-approve", roles=("agent",), require_approval_for_tools=("bump",), approvers=("chief", "user")
        ),
    ),
)
BOT = Caller("bot", "acme", ("agent",), "http")
CHIEF = Caller("ann", roles=("chief",))


async def test_the_caller_decides_which_rule_applies_and_an_approver_needs_the_role(store: Store) -> None:
    outside = Outside()
    tools = [outside.tool()]
    async with chat_world(
        store, ScriptedModel(call_answer(bump_call()), text_answer("done")), tools, policy=BY_CHIEFS
    ) as talk:
        await talk.say("go", caller=BOT)
        [(_, intent)] = talk.host.approvals()
        assert intent.caller == BOT
        [asked] = [record.body for record in talk.records("intent") if record.body["kind"] == "tool.call"]
        assert asked["approval"]["approvers"] == [["chief", "user"]]
        assert asked["admitted"]["rule"].endswith(", rule chiefs-approve")
        for caller in (BOT, Caller("eve"), Caller("eve", roles=("approver",))):
            for verdict in (True, False):
                with pytest.raises(UsageError, match="role chief or user") as caught:
                    await talk.host.decide(intent.id, approve=verdict, reason="", caller=caller)
                assert caught.value.code == "not_an_approver"
        assert talk.records("approval") == []
        await talk.host.decide(intent.id, approve=True, reason="fine", caller=CHIEF)
        await talk.host.settle()
        record = canonical_json.parse_object(talk.host.get_blob(talk.receipts("tool.call")[0]["payload"]["record_ref"]))
        assert (record["decision"], record["rule"]) == ("require_approval", "chiefs-approve")
        assert talk.turn["status"] == "done"
        assert list(talk.host.replay())
    assert outside.seen == ["x"]
    async with chat_world(store, ScriptedModel(), tools, policy=BY_CHIEFS) as talk:
        assert list(talk.host.replay())


async def test_an_approval_by_a_role_survives_a_restart(store: Store) -> None:
    outside = Outside()
    tools = [outside.tool()]
    async with chat_world(store, ScriptedModel(call_answer(bump_call())), tools, policy=BY_CHIEFS) as talk:
        await talk.say("go", caller=BOT)
        intent = talk.host.approvals()[0][1]
        stop_before_effect(talk.host)
        await talk.host.decide(intent.id, approve=True, reason="", caller=CHIEF)
    async with chat_world(store, ScriptedModel(text_answer("done")), tools, policy=BY_CHIEFS) as talk:
        await talk.host.settle()
        assert talk.turn["status"] == "done"
    assert outside.seen == ["x"]


async def test_an_approval_does_not_count_once_others_have_to_give_it(memory: MemoryStore) -> None:
    outside = Outside()
    tools = [outside.tool()]
    narrower = replace(BY_CHIEFS, rules=(BY_CHIEFS.rules[0], replace(BY_CHIEFS.rules[1], approvers=("user",))))
    async with chat_world(memory, ScriptedModel(call_answer(bump_call())), tools, policy=BY_CHIEFS) as talk:
        await talk.say("go", caller=BOT)
        stop_before_effect(talk.host)
        await talk.host.decide(talk.host.approvals()[0][1].id, approve=True, reason="", caller=CHIEF)
    async with chat_world(memory, ScriptedModel(text_answer("ok")), tools, policy=narrower) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == ["approval_expired"]
    assert outside.seen == []


async def test_a_rule_for_one_tenant_allows_nothing_to_another(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(bump_call()), text_answer("ok"))
    async with chat_world(memory, model, [outside.tool()], policy=BY_CHIEFS) as talk:
        await talk.say("go", caller=replace(BOT, tenant="globex"))
        assert refusal_codes(talk) == ["policy_denied"]
        [asked] = [record.body for record in talk.records("intent") if record.body["kind"] == "tool.call"]
        assert ", rule" not in asked["admitted"]["rule"]
    assert outside.seen == []


async def test_a_caller_may_cancel_a_call_that_only_others_may_approve(memory: MemoryStore) -> None:
    async with chat_world(
        memory, ScriptedModel(call_answer(bump_call())), [Outside().tool()], policy=BY_CHIEFS
    ) as talk:
        await talk.say("go", caller=BOT)
        await talk.host.submit("demiurge/TurnCancelled@1", {"chat_id": "main", "request_id": 1})
        await talk.host.cancel(MAIN, reason="Never mind.", caller=BOT)
        assert talk.host.approvals() == []
        assert refusal_codes(talk) == ["cancelled"]


async def test_two_calls_wait_for_two_decisions_and_then_one_follow_up(memory: MemoryStore) -> None:
    outside = Outside()
    model = ScriptedModel(call_answer(bump_call("a", "c1"), bump_call("b", "c2")), text_answer("done"))
    async with chat_world(memory, model, [outside.tool()], policy=policy_that_asks("bump")) as talk:
        await talk.say("go")
        await approve(talk, index=1)
        assert (talk.turn["status"], len(model.requests)) == ("tools", 1)
        await approve(talk, approve=False)
        assert talk.turn["status"] == "done"
    assert outside.seen == ["b"]


async def test_cancelling_withdraws_what_waits_for_a_person(memory: MemoryStore) -> None:
    outside = Outside()
    async with chat_world(
        memory, ScriptedModel(call_answer(bump_call())), [outside.tool()], policy=policy_that_asks("bump")
    ) as talk:
        await talk.say("go")
        await talk.host.submit("demiurge/TurnCancelled@1", {"chat_id": "main", "request_id": 1})
        await talk.host.cancel(MAIN, reason="Never mind.", caller=Caller("user"))
        assert talk.host.approvals() == []
        assert refusal_codes(talk) == ["cancelled"]
        assert not talk.host.state(MAIN).is_open
    assert outside.seen == []


async def test_nothing_waits_under_an_id_that_nobody_gave(memory: MemoryStore) -> None:
    async with chat_world(memory, ScriptedModel()) as talk:
        with pytest.raises(NotFound):
            await talk.host.decide(b"?" * 32, approve=True, reason="", caller=Caller("anna"))


# -- restarts ---------------------------------------------------------------------------------------------------------


async def crash_in_call(store: Store, tools: list[Tool[Any, Any]], *, attempted: bool, call: Any = None) -> None:
    """A turn whose call was dispatched when the process died: begun (an attempt is durable) or not yet."""
    async with chat_world(store, ScriptedModel(call_answer(call or bump_call())), tools) as talk:
        stop_before_effect(talk.host, "tool.call", attempted_in=store if attempted else None)
        await talk.say("go")
        assert len(talk.host.state(MAIN).intents) == 1


async def settle_after_restart(store: Store, tools: list[Tool[Any, Any]]) -> ChatClient:
    async with chat_world(store, ScriptedModel(text_answer("done")), tools) as talk:
        await talk.host.settle()
        assert talk.turn["status"] == "done"
        return talk


@pytest.mark.parametrize("effect", list(ToolEffect))
async def test_a_call_that_was_not_begun_is_dispatched_after_a_restart(store: Store, effect: ToolEffect) -> None:
    outside = Outside()
    tools = [outside.tool(effect)]
    await crash_in_call(store, tools, attempted=False)
    talk = await settle_after_restart(store, tools)
    assert outside.seen == ["x"]
    assert "bumped" in output_contents(talk)[0]


async def test_a_begun_call_that_only_reads_is_made_again(store: Store) -> None:
    outside = Outside()
    tools = [outside.tool(ToolEffect.READ_ONLY)]
    await crash_in_call(store, tools, attempted=True)
    talk = await settle_after_restart(store, tools)
    assert outside.seen == ["x"]
    assert "bumped" in output_contents(talk)[0]


@pytest.mark.parametrize("effect", [ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT])
async def test_a_begun_call_that_changes_something_is_in_doubt_and_never_repeated(
    store: Store, effect: ToolEffect
) -> None:
    outside = Outside()
    tools = [outside.tool(effect)]
    await crash_in_call(store, tools, attempted=True)
    talk = await settle_after_restart(store, tools)
    assert outside.seen == []
    assert refusal_codes(talk) == ["unknown_outcome"]


async def test_a_reconcile_hook_finds_out_what_became_of_a_begun_call(store: Store) -> None:
    outside, asked = Outside(), list[str]()

    async def find_out(params: Any, *, context: ToolContext) -> Any:
        asked.append(params.what)
        workspaces = context.resources.get(Workspaces)
        assert workspaces is not None
        await workspaces.list("", workspace="main")
        return ToolResult(message="it was bumped before", value="")

    tools = [outside.tool(reconcile=find_out, capabilities=(Workspaces,))]
    await crash_in_call(store, tools, attempted=True)
    talk = await settle_after_restart(store, tools)
    assert (outside.seen, asked) == ([], ["x"])
    assert "it was bumped before" in output_contents(talk)[0]


def reading_tool(
    paths: list[str], seen: list[str], *, effect: ToolEffect = ToolEffect.READ_ONLY, **more: Any
) -> Tool[Any, Any]:
    """Lists the folders of `paths` one after the other; a path "!" is where the process dies."""

    async def look(context: ToolContext) -> str:
        """Looks around."""
        workspaces = context.resources.get(Workspaces)
        assert workspaces is not None
        for path in paths:
            if path == "!":
                await asyncio.Event().wait()
            seen.append(path)
            await workspaces.list(path, workspace="main")
        return "looked"

    return Tool.wrap(look, name="look", effect=effect, capabilities=(Workspaces,), **more)


async def died_reading(store: Store, tool: Tool[Any, Any], requests: int) -> None:
    """A world whose tool had made `requests` when the process died."""
    model = ScriptedModel(
        call_answer(*((f"w{n}", WRITE, {"path": f"{name}/f", "text": "x"}) for n, name in enumerate("abc"))),
        call_answer(("c1", "look", {})),
    )
    async with chat_world(store, model, [tool]) as talk:
        await talk.say("go", settle=False)
        while sum(r.body["kind"] == "workspace.list" for r in talk.records("capability_request")) < requests:
            await asyncio.sleep(0.001)
        while len(talk.receipts("workspace.list")) < requests:
            await asyncio.sleep(0.001)


async def test_a_handler_that_is_run_again_is_answered_from_what_was_recorded_in_order(store: Store) -> None:
    seen: list[str] = []
    await died_reading(store, reading_tool(["a", "b", "!"], seen), 2)
    again: list[str] = []
    talk = await settle_after_restart(store, [reading_tool(["a", "b", "c"], again)])
    assert (seen, again) == (["a", "b"], ["a", "b", "c"])
    kinds = [r for r in talk.records("capability_request") if r.body["kind"] == "workspace.list"]
    assert [r.body["params"]["path"] for r in kinds] == ["a", "b", "c"], "the first two were not asked again"
    assert "looked" in output_contents(talk)[-1]


async def test_a_handler_that_asks_for_something_else_the_second_time_is_in_doubt(store: Store) -> None:
    await died_reading(store, reading_tool(["a", "!"], []), 1)
    talk = await settle_after_restart(store, [reading_tool(["b"], [])])
    assert canonical_json.parse_object(output_contents(talk)[-1])["error_code"] == "unknown_outcome"


async def test_a_reconcile_hook_may_ask_for_what_the_handler_never_asked(store: Store) -> None:
    async def find_out(params: Any, *, context: ToolContext) -> Any:
        workspaces = context.resources.get(Workspaces)
        assert workspaces is not None
        entries = await workspaces.list("", workspace="main")
        return ToolResult(message=f"found {len(entries)}", value="")

    change = ToolEffect.STATE_CHANGE
    await died_reading(store, reading_tool(["a", "!"], [], effect=change, reconcile=find_out), 1)
    talk = await settle_after_restart(store, [reading_tool(["a", "!"], [], effect=change, reconcile=find_out)])
    assert "found 3" in output_contents(talk)[-1]


async def test_a_tool_that_changed_while_its_call_was_open_does_not_run(store: Store) -> None:
    outside = Outside()
    await crash_in_call(store, [outside.tool(ToolEffect.READ_ONLY)], attempted=True)
    changed = [outside.tool(ToolEffect.EXTERNAL_SIDE_EFFECT)]
    async with chat_world(store, ScriptedModel(text_answer("ok")), changed) as talk:
        await talk.host.settle()
        assert refusal_codes(talk) == ["unavailable"]
    assert outside.seen == []


async def test_a_model_call_that_was_begun_is_made_again_with_the_same_key(store: Store) -> None:
    first = ScriptedModel()
    async with chat_world(store, first) as talk:
        stop_before_effect(talk.host, attempted_in=store)
        await talk.say("go")
        [intent] = talk.host.state(MAIN).intents
    model = ScriptedModel(text_answer("hello"))
    async with chat_world(store, model) as talk:
        await talk.host.settle()
        assert talk.turn["status"] == "done"
    assert model.requests[0].idempotency_key == intent.hex()


async def test_the_restart_rule_of_a_tool_that_is_gone_is_doubt() -> None:
    manifest = chat_manifest([Outside().tool()])
    adapters = ToolCalls(StaticToolSource([]), FixedClock(START_NS))
    assert adapters.restart(intent_for("bump"), manifest) == "in_doubt"
    assert adapters.restart(intent_for(READ), manifest) == "retry"


def intent_for(tool: str) -> OpenIntent:
    params = {"tool": tool, "tool_call_id": "c", "call_ref": "r"}
    return OpenIntent(b"i", 0, "tool.call", params, "cap_tool", {}, Caller("user"), Ref("m"))


def telling_tool(text: str) -> Tool[Any, Any]:
    async def tell() -> dict[str, str]:
        """Tells what it knows."""
        if not text:
            raise ToolUserError("I know nothing.")
        return {"text": text, "hidden": "canary"}

    return Tool.wrap(tell, name="tell", effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("text"))


async def test_all_calls_of_an_answer_are_answered_before_the_next_request(memory: MemoryStore) -> None:
    model = ScriptedModel(call_answer(("c1", "tell", {}), ("c2", "core__get_current_time", {})), text_answer("ok"))
    async with chat_world(memory, model, [telling_tool("")]) as talk:
        await talk.say("well?")
        assert talk.roles() == ["user", "assistant", "tool", "tool", "assistant"]
        assert [output["tool_call_id"] for output in talk.outputs()] == ["c1", "c2"]
        failure = canonical_json.parse_object(talk.outputs()[0]["content"])
    assert (failure["ok"], failure["message"]) == (False, "I know nothing.")
    assert len(model.requests) == 2


async def test_a_result_that_is_too_long_is_referred_to_and_kept_whole(store: Store) -> None:
    """The model is told of it after it was decoded, redacted for people apart: nothing is cut in the middle."""
    tool, text = telling_tool("x" * 5000), "x" * 5000
    policy = ToolPolicy(allowed_tools=("tell",), budgets=Budgets(max_result_bytes=200))
    model = ScriptedModel(call_answer(("c1", "tell", {})), text_answer("long"))
    async with chat_world(store, model, [tool], policy=policy) as talk:
        await talk.say("well?")
        [receipt] = [r for r in talk.records("receipt") if "message_ref" in r.body["payload"]]
        [output] = talk.outputs()
        view = canonical_json.parse_object(talk.host.get_blob(receipt.body["payload"]["view_ref"]))
        blobs = {ref: talk.host.get_blob(Ref(ref)) for ref in receipt.refs}
        assert verify(store).ok
        assert [state.seq for state in talk.host.replay()]
    sent = [item.content for item in model.requests[1].items if isinstance(item, ToolOutput)]
    assert sent == [output["content"]]
    assert len(output["content"]) < 200 < len(text)
    [whole] = [data for ref, data in blobs.items() if ref in output["content"]]
    assert canonical_json.parse_object(whole) == {"text": text, "hidden": "canary"}
    assert canonical_json.parse_object(blobs[view["ref"]]) == {"text": text}
    assert view["bytes"] == len(blobs[view["ref"]])
