"""The faults that AgentOS had when it was built, each by its letter or section in the notes, and that this has not.

Kernel and host (2.6 a to j), then plans, manifests and authority (1.3 to 1.6, 3.2, 3.3, 13).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.scripted import (
    BOARD,
    ECHO,
    SCHEMAS,
    A,
    Echo,
    Kernel,
    awaiting,
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
    stored,
    tiny,
)

from demiurge.errors import DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores import MemoryStore, Store
from demiurge.world.effect import failed, succeeded
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


@pytest.mark.parametrize(
    ("change", "what", "kind"),
    [
        ({"rules": []}, "ask:x", "decision"),
        ({"grants": [{"name": "echo", "cap": "ex/echo@1", "expiry_ns": 1}]}, "ask:x", "decision"),
        ({"plans": [plan([raising("t", "s", {"op": "div", "args": [1, 0]})])]}, "ask:x", "plan_ended"),
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


# -- manifests and authority (1.3, 1.4, 1.6, 6, 13) -------------------------------------------------------------------


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


def test_6_an_empty_allowlist_allows_nothing() -> None:
    """Absent means anything, empty nothing: there, both meant anything."""
    grants: list[dict[str, Any]] = [
        {"name": "echo", "cap": "ex/echo@1"},
        {"name": "blob", "cap": "sys/blob@1", "params": {"ops": []}},
    ]
    params = {
        "record": {"blob_ref": {"null": {}}, "content": {"variant": {"tag": "bytes", "value": {"bytes_b64": ""}}}}
    }
    put = {"id": "p", "op": "emit_effect", "kind": "blob.put", "cap": "blob", "params": params}
    steps = [{**put, "bind": {"effect_id_as": "h"}}, awaiting("w", "h", "r")]
    told = raising("say", ref("@var:r.status"), ref("@var:r.payload.code"))
    unit = Kernel(tiny([plan([*steps, told], [edge("p", "w"), edge("w", "say")])], grants=grants))
    unit.poke("ask:x")
    assert unit.log[-1] == "error:op_not_allowed"


def test_a_rule_that_could_match_nothing_is_refused() -> None:
    with pytest.raises(BadManifest, match="so the rule matches nothing"):
        tiny(rules=[{"when": {"effect_kind": "ex.eco"}, "decision": "deny"}, {"when": {}, "decision": "allow"}])


def test_an_event_goes_to_one_module() -> None:
    routes = tiny().routes
    assert routes["ex/Note@1"].module == routes["ex/BoardEv@1"].module == BOARD
