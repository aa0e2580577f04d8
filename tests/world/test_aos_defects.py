"""The faults that AgentOS had when it was built, each by its letter or section in the notes, and that this has not.

Kernel and host (2.6 a to j), then plans, manifests and authority (1.3 to 1.6, 3.2, 3.3), and its list of what to do
better (13), by number; where the long tests of the same lie:

    13.1   identities of intents          here
    13.2   outcomes and not exceptions    here; kernel/test_advance.py
    13.3   checked replay                 history/test_replay.py, history/test_replay_faults.py
    13.4   a torn end of the journal      tests/stores/test_torn_log.py, tests/chaos/test_torn_log.py
    13.5   plans see the status           here
    13.6   receipts are validated         here (2.6 g)
    13.7   effects beside the kernel      host/test_host.py
    13.8   llm.generate                   effects/test_llm.py
    13.9   the chat's turn                tests/apps/demiurge/test_reducer.py
    13.10  tools                          effects/test_tool_call.py, tests/tools/stages/test_fit.py
    13.11  introspection                  effects/test_introspect.py
    13.12  workspaces                     effects/test_workspace.py
    13.13  secrets                        test_secrets.py, tests/cli/test_canaries.py
    13.14  who submits is answered        here (2.6 i)
    13.15  traces                         tests/cli/test_trace.py
    13.16  empty and absent allowlists    here; effect_kinds/test_checks.py
    13.17  what was left out              docs/design/departures.md
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.asking_room import asking
from tests.world.scripted import (
    BOARD,
    ECHO,
    KEY,
    ROOM,
    SCHEMAS,
    A,
    Echo,
    Kernel,
    Script,
    awaiting,
    called,
    echoed,
    edge,
    emitting,
    plain,
    plan,
    poke,
    raising,
    ref,
    room,
    running,
    said,
    stored,
    talking,
    tiny,
)

from demiurge import faults
from demiurge.errors import DemiurgeError, Divergence, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores import MemoryStore, SqliteStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolUserError
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.tools.redaction import Redaction
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolOutput
from demiurge.world.effect import failed, succeeded
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.introspect import Introspect
from demiurge.world.effects.workspace import WorkspaceEffects
from demiurge.world.history.trace import lineage, outcome, trace
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.manifest import BadManifest, Manifest
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.state import UnitState

IS_OK = {"op": "eq", "args": [ref("@var:r.status"), "ok"]}


def replayed(store: Store, manifest: Manifest) -> UnitState:
    found = [state for state in Host(store, manifest, []).replay() if state.unit == A]
    return found[-1]


async def test_a_nested_events_are_applied_once_when_a_world_is_loaded_again(store: Store) -> None:
    async with running(store, tiny(), [Echo()]) as host:
        await host.submit("ex/Ev@1", poke("ask:x,y"))
        await host.settle()
        live = plain(host.state(A))
    assert live["cell"]["n"] == 3
    assert plain(Host(store, tiny(), []).state(A)) == plain(replayed(store, tiny())) == live


async def test_b_only_an_effect_without_a_receipt_is_dispatched_when_a_world_opens(store: Store) -> None:
    async with running(store, tiny(), [Echo()]) as host:
        await host.submit("ex/Ev@1", poke("ask:done"))
        await host.settle()
    async with running(store, tiny(), [Echo()], perform=False) as host:
        await host.submit("ex/Ev@1", poke("ask:open"))
    again = Echo()
    async with running(store, tiny(), [again]) as host:
        await host.settle()
        await host.settle()
    assert again.performed == ["open"]


def test_c_an_identical_effect_hears_back_each_time() -> None:
    unit = Kernel(tiny())
    for _ in range(3):
        unit.poke("ask:same")
        unit.receipt(unit.intents[0], echoed("same"))
    assert unit.log.count("ok:same") == 3


def test_d_two_plans_with_an_identical_effect_each_have_their_own_receipt() -> None:
    unit = Kernel(tiny())
    unit.poke("ask:same,same")
    first, second = unit.intents
    unit.receipt(second, failed("gone", "It is gone."))
    assert unit.log == ["asked", "error:gone"]
    unit.receipt(first, echoed("same"))
    assert unit.log[-1] == "ok:same"
    assert not unit.state.is_open


DIVIDED_BY_ZERO = {"op": "get", "args": [{"record": {"a": {"op": "div", "args": [1, 0]}}}, "a"]}
"""The type of what `get` finds is not known before the plan runs, so the manifest is taken."""


@pytest.mark.parametrize(
    ("change", "what", "kind"),
    [
        ({"rules": []}, "ask:x", "decision"),
        ({"grants": [{"name": "echo", "cap": "ex/echo@1", "expiry_ns": 1}]}, "ask:x", "decision"),
        ({"plans": [plan([raising("t", "s", DIVIDED_BY_ZERO)])]}, "ask:x", "plan_ended"),
        ({}, "fail:x", "step"),
    ],
)
async def test_e_what_goes_wrong_is_recorded_and_the_world_opens_again(
    store: Store, change: Mapping[str, Any], what: str, kind: str
) -> None:
    manifest = tiny(**change)
    async with running(store, manifest, [Echo()]) as host:
        await host.submit("ex/Ev@1", poke(what))
        await host.settle()
    assert kind in [record.kind for record in stored(store)]
    async with running(store, manifest, [Echo()]) as host:
        assert not host.state(A).is_open
        await host.submit("ex/Ev@1", poke("on"))
        await host.settle()
    assert replayed(store, manifest).cell is not None


def test_f_a_receipt_that_comes_before_its_step_is_kept() -> None:
    steps = [
        emitting("slow", "h1", "slow"),
        emitting("quick", "h2", "quick"),
        awaiting("w1", "h1", "r1"),
        awaiting("w2", "h2", "r2"),
        raising("say", ref("@var:r1.payload.text"), ref("@var:r2.payload.text")),
    ]
    edges = [edge("slow", "w1"), edge("quick", "w2"), edge("w1", "w2"), edge("w2", "say")]
    unit = Kernel(tiny([plan(steps, edges)]))
    unit.poke("ask:x")
    slow, quick = unit.intents
    unit.receipt(quick, echoed("second"))
    unit.receipt(slow, echoed("first"))
    assert unit.log == ["asked", "first:second"]


@pytest.mark.parametrize("answer", [succeeded(nonsense=1), TimeoutError(), RuntimeError("broken")])
async def test_g_a_receipt_that_is_none_is_an_error_that_the_plan_sees(memory: MemoryStore, answer: Any) -> None:
    async with running(memory, tiny(), [Echo({"x": answer})]) as host:
        await host.submit("ex/Ev@1", poke("ask:x"))
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    [_, told] = cell["log"]
    status, _, code = told.partition(":")
    assert status != "ok"
    assert code


async def test_h_a_new_manifest_loses_no_plan_and_no_receipt(store: Store) -> None:
    async with running(store, tiny(), [Echo({"x": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke("ask:x"))
    other = tiny([], settings={"new": 1})
    async with running(store, other, [Echo()]) as host:
        await host.settle()
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "ok:x"]
        assert not host.state(A).is_open
    replayed(store, other)


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ("ex/None@1", {}, NotFound),
        ("ex/Ev@1", {"$tag": "Poke", "$value": {"room": "a"}}, InvalidValue),
        ("ex/Aside@1", "x", UsageError),
        ("ex/Ev@1", {"$tag": "PlanFailed", "$value": {}}, InvalidValue),
    ],
)
async def test_i_who_sends_what_can_not_be_taken_is_told(
    memory: MemoryStore, schema: str, value: Any, error: type[DemiurgeError]
) -> None:
    async with running(memory, tiny(), []) as host:
        with pytest.raises(error):
            await host.submit(schema, value)
    assert stored(memory) == []


async def test_j_what_a_reducer_knows_of_a_derived_event_is_the_same_at_replay(store: Store) -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        seen = f"{context.stamp.time_ns}:{context.entropy('x').hex()}"
        again = [Emit("ex/Ev@1", poke("derived"))] if event["$value"]["what"] == "first" else []
        return Step(set={"n": 1}, append={"log": [seen]}, events=again)

    manifest = tiny(reduce=reduce)
    async with running(store, manifest, []) as host:
        await host.submit("ex/Ev@1", poke("first"))
        cell = host.state(A).cell
        assert cell is not None
        first, derived = cell["log"]
    assert first.split(":")[0] == derived.split(":")[0], "one moment"
    assert first != derived, "entropy of its own"
    after = replayed(store, manifest).cell
    assert after is not None
    assert list(after["log"]) == [first, derived]


# -- plans (3.2, 3.3, 13) ---------------------------------------------------------------------------------------------


def test_3_2_a_branch_that_is_not_taken_does_not_run_on_behind_its_guard() -> None:
    """The registry plan's own fault: its last step had no guard, and read what was never set."""
    steps = [
        emitting("go", "h", "x"),
        awaiting("wait", "h", "r"),
        {"id": "keep", "op": "assign", "expr": ref("@var:r.payload.text"), "bind": {"as": "text"}},
        raising("say", {"text": "said"}, ref("@var:text")),
    ]
    unit = Kernel(tiny([plan(steps, [edge("go", "wait"), edge("wait", "keep", IS_OK), edge("keep", "say")])]))
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], failed("gone", "It is gone."))
    assert unit.of("plan_ended")[0].body["status"] == "ok"
    assert unit.log == ["asked"]


def test_3_3_a_reference_to_a_variable_may_have_a_path() -> None:
    unit = Kernel(tiny([ECHO]))
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], echoed("heard"))
    assert unit.log[-1] == "ok:heard"


def test_3_3_a_second_argument_that_the_first_makes_needless_is_not_read() -> None:
    found = {"op": "has", "args": [ref("@var:r.payload"), "code"]}
    gone = {"op": "eq", "args": [{"op": "get", "args": [ref("@var:r.payload"), "code"]}, "gone"]}
    steps = [emitting("go", "h", "x"), awaiting("wait", "h", "r"), raising("say", {"text": "gone"}, {"text": "-"})]
    guard = {"op": "and", "args": [found, gone]}
    unit = Kernel(tiny([plan(steps, [edge("go", "wait"), edge("wait", "say", guard)])]))
    unit.poke("ask:x,y")
    first, second = unit.intents
    unit.receipt(first, echoed("fine"))
    unit.receipt(second, failed("gone", "It is gone."))
    assert unit.log == ["asked", "gone:-"]


def test_3_4_a_correlation_is_compared_as_what_it_is() -> None:
    where = {"op": "eq", "args": [ref("@event.n"), ref("@var:correlation_id")]}
    step = {"id": "w", "op": "await_event", "event": "ex/Ask@1", "where": where, "bind": {"as": "e"}}

    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        number = int(event["$value"]["what"])
        return Step(set={"n": 1}, events=[Emit("ex/Ask@1", {"room": "a", "n": number, "text": ""})])

    unit = Kernel(tiny([plan([step])], reduce))
    unit.poke("1")
    unit.poke("2")
    assert len(unit.state.plans) == 2
    unit.poke("1")
    assert [r.body["id"] for r in unit.of("plan_ended")] == [1]


def test_13_1_an_intent_s_identity_holds_where_and_when_it_was_asked_for() -> None:
    unit = Kernel(tiny([plan([emitting("a", "h1", "same"), emitting("b", "h2", "same")])]))
    unit.poke("ask:x,x")
    unit.poke("ask:x")
    assert len({intent.id for intent in unit.intents}) == len(unit.intents) == 6


def test_13_2_an_error_ends_a_plan_with_a_record_that_the_reducer_sees() -> None:
    unit = Kernel(tiny([plan([raising("t", "s", {"op": "get", "args": [ref("@plan.input"), "nothing"]})])]))
    unit.poke("ask:x")
    assert unit.of("plan_ended")[0].body["code"] == "plan_failed"
    assert unit.log == ["asked", "plan failed:1:plan_failed"]


@pytest.mark.parametrize(("result", "told"), [(echoed("x"), "ok:x"), (failed("busy", "Later."), "error:busy")])
def test_13_5_a_plan_branches_on_the_status_of_a_receipt(result: Any, told: str) -> None:
    unit = Kernel(tiny())
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], result)
    assert unit.log[-1] == told


# -- hosts and effects (13) -------------------------------------------------------------------------------------------


async def test_13_3_replay_takes_what_came_from_outside_and_compares_all_else(store: Store) -> None:
    async with running(store, tiny(), [Echo()]) as host:
        await host.submit("ex/Ev@1", poke("ask:x"))
        await host.settle()
    assert sum(record.is_ingress for record in stored(store)) < len(stored(store))
    lied = tiny(reduce=lambda _state, _event, _context: Step(set={"n": 100}))
    with pytest.raises(Divergence, match=r"record ex/Room@1/a 2 \(step\)"):
        replayed(store, lied)


async def test_13_4_nothing_goes_out_before_it_is_durable(tmp_path: Path) -> None:
    echo = Echo()
    with SqliteStore.create(tmp_path / "w", "world_1") as disk:
        async with running(disk, tiny(), [echo]) as host:
            with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
                await host.submit("ex/Ev@1", poke("ask:x"))
        assert (stored(disk), echo.performed) == ([], [])


async def test_13_6_a_receipt_that_does_not_fit_its_schema_is_an_error(memory: MemoryStore) -> None:
    async with running(memory, tiny(), [Echo({"x": succeeded(text=1, blob=None)})]) as host:
        await host.submit("ex/Ev@1", poke("ask:x"))
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    assert list(cell["log"]) == ["asked", "error:receipt_invalid"]


async def test_13_7_a_unit_takes_events_while_its_effects_go_on_and_receipts_like_them(memory: MemoryStore) -> None:
    goes_on = asyncio.Event()
    async with running(memory, tiny(), [Echo({"x": goes_on})]) as host:
        await host.submit("ex/Ev@1", poke("ask:x"))
        await host.submit("ex/Ev@1", poke("meanwhile"))
        goes_on.set()
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    assert list(cell["log"]) == ["asked", "meanwhile", "ok:x"]
    assert [record.is_ingress for record in stored(memory) if record.kind == "receipt"] == [True]


async def test_13_8_a_model_is_asked_with_one_toolset_and_answers_with_refs(memory: MemoryStore) -> None:
    async with talking(memory, Script(called(("c1", "core__get_current_time", {})), said("noon"))) as talk:
        await talk.say("time?")
        first, last = talk.receipts("llm.generate")
        params = talk.records("intent")[0].body["params"]
        call = canonical_json.parse_object(talk.host.get_blob(first["payload"]["tool_call_refs"][0]))
    assert isinstance(params["tools_ref"], str)
    assert params["response_format"] is None
    assert (call["id"], call["name"]) == ("c1", "core__get_current_time")
    assert last["payload"]["tool_call_refs"] is None or list(last["payload"]["tool_call_refs"]) == []
    assert first["payload"]["output_items_ref"] != last["payload"]["output_items_ref"]


def talker(text: str) -> Tool[Any, Any]:
    async def tell() -> dict[str, str]:
        """Tells what it knows."""
        if not text:
            raise ToolUserError("I know nothing.")
        return {"text": text, "hidden": "canary"}

    return Tool.wrap(tell, name="tell", effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("text"))


async def test_13_9_all_calls_of_a_turn_are_answered_before_one_request_follows(memory: MemoryStore) -> None:
    model = Script(called(("c1", "tell", {}), ("c2", "core__get_current_time", {})), said("ok"))
    async with talking(memory, model, [talker("")]) as talk:
        await talk.say("well?")
        assert talk.roles() == ["user", "assistant", "tool", "tool", "assistant"]
        assert [output["tool_call_id"] for output in talk.outputs()] == ["c1", "c2"]
        failure = canonical_json.parse_object(talk.outputs()[0]["content"])
    assert (failure["ok"], failure["message"]) == (False, "I know nothing.")
    assert len(model.requests) == 2


async def test_13_10_a_result_that_is_too_long_is_referred_to_and_kept_whole(store: Store) -> None:
    """The model is told of it after it was decoded, redacted for people apart: nothing is cut in the middle."""
    tool, text = talker("x" * 5000), "x" * 5000
    policy = ToolPolicy(allowed_tools=("tell",), budgets=Budgets(max_result_bytes=200))
    model = Script(called(("c1", "tell", {})), said("long"))
    async with talking(store, model, [tool], policy=policy) as talk:
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


async def test_13_11_definitions_are_listed_by_prefix_and_shown_by_name(memory: MemoryStore) -> None:
    async with asking(memory, [Introspect()], {"query": {}}) as asker:
        listed = await asker.payload("introspect.schemas", prefix="ex/Poke")
        shown = await asker.payload("introspect.module", name=ROOM)
        schemas = canonical_json.parse_object(asker.host.get_blob(listed["schemas_ref"]))
        module = canonical_json.parse_object(asker.host.get_blob(shown["module_ref"]))
        assert listed["manifest_ref"] == shown["manifest_ref"] == asker.host.manifest.ref
    assert list(schemas) == ["ex/Poke@1"]
    assert (module["name"], module["event"]) == (ROOM, "ex/Ev@1")


async def test_13_12_workspaces_are_granted_by_name_and_a_conflict_is_a_result(memory: MemoryStore) -> None:
    grants: dict[str, dict[str, Any]] = {"workspace": {"workspaces": ["main"]}, "blob": {}}
    async with asking(memory, [WorkspaceEffects(), BlobEffects()], grants) as asker:
        text = await asker.give(b"text")
        assert (await asker.ask("workspace.list", workspace="other", path=""))["status"] == "denied"
        made = await asker.payload("workspace.write_bytes", workspace="main", path="a", bytes_ref=text)
        commit = {"workspace": "main", "expected_head": 0, "root_hash": made["new_root_hash"], "owner": "x"}
        done = [await asker.payload("workspace.commit", **commit) for _ in range(2)]
    assert [(one["ok"], one["version"]) for one in done] == [(True, 1), (False, 1)]


async def test_13_13_who_was_given_a_secret_is_recorded_and_the_secret_is_not(memory: MemoryStore) -> None:
    async with talking(memory, Script(said("hello"))) as talk:
        await talk.say("hi")
        [receipt] = talk.receipts("llm.generate")
    assert [dict(given) for given in receipt["secrets"]] == [{"alias": "llm/api", "version": 1}]
    journal = b"".join(row.data for row in memory.read_all())
    assert KEY.encode() not in journal + b"".join(map(memory.get_blob, memory.iter_blobs()))


async def test_13_14_who_submits_is_told_where_the_event_lies(memory: MemoryStore) -> None:
    async with running(memory, tiny(), []) as host:
        unit, seq, event_hash = await host.submit("ex/Ev@1", poke("hello"), idempotency_key="k")
        assert await host.submit("ex/Ev@1", poke("hello"), idempotency_key="k") == (unit, seq, event_hash)
    assert [r.body["value"] for r in stored(memory) if (str(r.unit), r.unit_seq) == (unit, seq)] == [poke("hello")]


@pytest.mark.parametrize(("what", "ends"), [("ask:x", "done"), ("fail:x", "failed"), ("ask:open", "running")])
async def test_13_15_a_lineage_is_what_was_caused_and_has_one_end(memory: MemoryStore, what: str, ends: str) -> None:
    async with running(memory, tiny(), [Echo({"open": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke("before"))
        accepted = await host.submit("ex/Ev@1", poke(what))
        if ends != "running":
            await host.settle()
        found = lineage(stored(memory), (accepted.unit, accepted.seq))
    assert outcome(trace(found)).state == ends
    assert all(record.cause is not None for record in found[1:])
    assert "before" not in str([record.body for record in found])


# -- manifests and authority (1.3, 1.4, 1.6, 6) -------------------------------------------------------------------


def test_1_3_what_is_built_in_need_not_be_listed_and_can_not_be_defined_anew() -> None:
    assert "sys/TextOrSecretRef@1" in tiny().schemas
    assert "http.request" in tiny().effects
    with pytest.raises(BadManifest, match=r"sys/\* is reserved"):
        tiny(definitions=[{"$kind": "defschema", "name": "sys/SecretRef@1", "type": {"text": {}}}])


def test_1_3_without_a_policy_nothing_is_allowed() -> None:
    unit = Kernel(tiny(rules=None))
    unit.poke("ask:x")
    assert unit.log == ["asked", "error:policy_denied"]


@pytest.mark.parametrize("value", ["sha256:short", "x", "sha256:" + "G" * 64])
def test_1_4_the_form_of_a_hash_is_checked(value: str) -> None:
    with pytest.raises(InvalidValue):
        tiny().schemas.validator({"hash": {}}).normalise(value)


def test_1_4_text_is_not_taken_for_bytes() -> None:
    """It became the bytes of the text there, where the other lens meant base64."""
    check = tiny().schemas.validator({"bytes": {}})
    assert check.normalise("aGk=") == b"hi"
    with pytest.raises(InvalidValue):
        check.normalise("no base64!")


def test_1_6_a_module_gets_no_two_arms_of_one_schema() -> None:
    twins = {"variant": {**SCHEMAS["ex/BoardEv@1"]["variant"], "Again": {"ref": "ex/Note@1"}}}
    with pytest.raises(BadManifest, match="the arms Note and Again"):
        tiny(schemas={"ex/BoardEv@1": twins})


def test_1_6_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadManifest) as raised:
        tiny([plan([emitting("a", "h", ref("@var:x"), cap="none", kind="ex.none")])], reduce=room, triggers=[])
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize(("params", "told"), [({"ops": []}, ["error:op_not_allowed"]), ({}, [])])
def test_6_and_13_16_an_empty_allowlist_allows_nothing_and_an_absent_one_all(
    params: Mapping[str, Any], told: list[str]
) -> None:
    """There, both meant anything."""
    grants: list[dict[str, Any]] = [
        {"name": "echo", "cap": "ex/echo@1"},
        {"name": "blob", "cap": "sys/blob@1", "params": params},
    ]
    content = {"variant": {"tag": "bytes", "value": {"bytes_b64": ""}}}
    wanted = {"record": {"blob_ref": {"null": {}}, "content": content}}
    put = {"id": "p", "op": "emit_effect", "kind": "blob.put", "cap": "blob", "params": wanted}
    steps = [{**put, "bind": {"effect_id_as": "h"}}, awaiting("w", "h", "r")]
    say = raising("say", ref("@var:r.status"), ref("@var:r.payload.code"))
    unit = Kernel(tiny([plan([*steps, say], [edge("p", "w"), edge("w", "say")])], grants=grants))
    unit.poke("ask:x")
    assert unit.log == ["asked", *told]
    assert len(unit.intents) == (not told)


def test_a_rule_that_could_match_nothing_is_refused() -> None:
    with pytest.raises(BadManifest, match="so the rule matches nothing"):
        tiny(rules=[{"when": {"effect_kind": "ex.eco"}, "decision": "deny"}, {"when": {}, "decision": "allow"}])


def test_an_event_goes_to_one_module() -> None:
    routes = tiny().routes
    assert routes["ex/Note@1"].module == routes["ex/BoardEv@1"].module == BOARD
