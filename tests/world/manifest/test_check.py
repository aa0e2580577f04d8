"""Every kind of mistake in a manifest is told with its place and with what to do (aos 1.6)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.small_world import (
    BOARD,
    SCHEMAS,
    await_receipt_step,
    edge,
    emit_effect_step,
    plan,
    ref,
    room_reducer,
    small_manifest,
)

from demiurge.apps.demiurge import app
from demiurge.errors import InvalidValue
from demiurge.world.manifest import BadManifest, Folder, Manifest, ManifestPlace, Problem, problems, system_definitions
from demiurge.world.manifest.cap_types import effect_problems
from demiurge.world.manifest.folder import ManifestPart
from demiurge.world.manifest.known import Known

OK = {"record": {"room": ref("@plan.input.room"), "status": "s", "detail": "d"}}
END = {"id": "end", "op": "end"}
LLM_GRANT = {"name": "l", "cap": "sys/llm.basic@1", "params": {"max_tokens": "x"}}
SECRET = {"variant": {"tag": "secret", "value": {"record": {"alias": "x/key", "version": {"nat": 1}}}}}


def problems_of(**change: Any) -> tuple[Problem, ...]:
    with pytest.raises(BadManifest) as raised:
        small_manifest(**change)
    assert raised.value.code == "bad_manifest"
    for problem in raised.value.problems:
        assert str(problem) in str(raised.value)
        assert problem.fix
    return raised.value.problems


def in_plan(*steps: Mapping[str, Any], edges: Any = (), **more: Any) -> dict[str, Any]:
    return {"plans": [{**plan(steps, edges), **more}]}


def with_definition(kind: str, name: str, /, **content: Any) -> dict[str, Any]:
    return {"definitions": [{"$kind": kind, "name": name, **content}]}


def assign_step(step_id: str, expr: Any) -> dict[str, Any]:
    return {"id": step_id, "op": "assign", "expr": expr, "bind": {"as": step_id}}


def waiting(step_id: str, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "op": "await_event", "event": "ex/Told@1", "bind": {"as": step_id}, **more}


def with_effect(**over: Any) -> dict[str, Any]:
    content = {"kind": "ex.more", "params_schema": "ex/EchoParams@1", "receipt_schema": "ex/EchoReceipt@1"}
    return with_definition("defeffect", "ex/more@1", **{**content, "cap_type": "echo", "origin_scope": "plan", **over})


def with_own_effect(cap_type: str, **fields: Any) -> dict[str, Any]:
    """An effect of one's own of this type of cap, whose parameters have these fields."""
    schemas = {"ex/P@1": {"record": fields}, "ex/Key@1": {"ref": "sys/TextOrSecretRef@1"}}
    return {**with_effect(cap_type=cap_type, params_schema="ex/P@1"), "schemas": schemas}


def rooms_with_effects(*effects: Mapping[str, Any], arms: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Rooms that may ask for these effects."""
    variant = {**SCHEMAS["ex/Ev@1"]["variant"], **{tag: {"ref": name} for tag, name in arms.items()}}
    return {"effects": effects, "schemas": {"ex/Ev@1": {"variant": variant}}, "grants": ASKING}


ASKING = [{"name": name, "cap": cap} for name, cap in {"echo": "ex/echo@1", "timer": "sys/timer@1"}.items()]
TIMER = {"kind": "timer.set", "cap": "timer"}
FIRED = {"Fired": "sys/TimerFired@1"}


def module(**abi: Any) -> dict[str, Any]:
    content = {"state": "ex/State@1", "event": "ex/Ev@1", **abi}
    return with_definition("defmodule", "ex/More@1", module_kind="reducer", abi=content)


def with_trigger(**over: Any) -> dict[str, Any]:
    return {"triggers": [{"event": "ex/Ask@1", "plan": "ex/plan@1", **over}]}


NAMES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "built in": (
        with_definition("defschema", "sys/Mine@1", type={"text": {}}),
        "sys/Mine@1",
        "name",
        "sys/* is reserved",
    ),
    "no version": (with_definition("defschema", "ex/Mine", type={"text": {}}), "ex/Mine", "name", "no versioned name"),
    "version 0": (
        with_definition("defschema", "ex/Mine@0", type={"text": {}}),
        "ex/Mine@0",
        "name",
        "no versioned name",
    ),
    "twice": (with_definition("defschema", "ex/Ev@1", type={"text": {}}), "ex/Ev@1", "", "ex/Ev@1 is defined twice"),
    "kind": (
        with_definition("defshema", "ex/X@1"),
        "ex/X@1",
        "$kind",
        "there is no kind 'defshema'; perhaps you mean defschema",
    ),
    "missing field": (with_definition("defcap", "ex/x@1", schema={"record": {}}), "ex/x@1", "", "cap_type is missing"),
    "unknown field": (
        with_definition("defschema", "ex/X@1", type={"text": {}}, tpye=1),
        "ex/X@1",
        "tpye",
        "is no field of this; perhaps you mean type",
    ),
    "not text": (
        with_definition("defcap", "ex/x@1", cap_type=7, schema={"record": {}}),
        "ex/x@1",
        "cap_type",
        "is no text",
    ),
    "surrogate": (
        with_definition("defcap", "ex/x@1", cap_type="\ud800", schema={"record": {}}),
        "ex/x@1",
        "",
        "can't be kept",
    ),
}
SCHEMA: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no type": (with_definition("defschema", "ex/X@1", type={"txt": {}}), "ex/X@1", "type", "there is no type 'txt'"),
    "dangling": (
        with_definition("defschema", "ex/X@1", type={"record": {"a": {"list": {"ref": "ex/Gone@1"}}}}),
        "ex/X@1",
        "type.a[]",
        "there is no definition 'ex/Gone@1'",
    ),
    "endless": (
        with_definition("defschema", "ex/X@1", type={"record": {"x": {"ref": "ex/X@1"}}}),
        "ex/X@1",
        "",
        "no finite value",
    ),
    "cap": (
        with_definition("defcap", "ex/x@1", cap_type="x", schema={"list": 1}),
        "ex/x@1",
        "schema[]",
        "a type is an object",
    ),
}
PARTS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "state": (module(state="ex/None@1"), "ex/More@1", "abi.state", "there is no schema ex/None@1"),
    "state is no record": (module(state="ex/Name@1"), "ex/More@1", "abi.state", "ex/Name@1 is no record"),
    "event": (module(event="ex/None@1"), "ex/More@1", "abi.event", "there is no schema ex/None@1"),
    "event is a text": (module(event="ex/Name@1"), "ex/More@1", "abi.event", "neither a record nor a variant"),
    "no code": (module(), "ex/More@1", "", "no code is registered"),
    "arms": (
        {"schemas": {"ex/BoardEv@1": {"variant": {"A": {"ref": "ex/Note@1"}, "B": {"ref": "ex/Note@1"}}}}},
        "ex/Board@1",
        "abi.event",
        "the arms A and B of ex/BoardEv@1 are of one schema",
    ),
    "arm": (
        {"schemas": {"ex/BoardEv@1": {"variant": {"A": {"ref": "ex/Note@1"}, "B": {"text": {}}}}}},
        "ex/Board@1",
        "abi.event",
        "the arm B of ex/BoardEv@1 is no schema of its own",
    ),
    "params": (with_effect(params_schema="ex/P@1"), "ex/more@1", "params_schema", "there is no schema ex/P@1"),
    "scope": (with_effect(origin_scope="reducers"), "ex/more@1", "origin_scope", "write plan, tool, reducer, both"),
    "scopes": (with_effect(origin_scope=["plan", "both"]), "ex/more@1", "origin_scope", "does not say who may ask"),
    "no scope": (with_effect(origin_scope=[]), "ex/more@1", "origin_scope", "does not say who may ask for it"),
    "no max_tokens": (
        with_own_effect("llm.basic", provider={"text": {}}, model={"text": {}}),
        "ex/more@1",
        "params_schema",
        "ex/P@1 has no field max_tokens, which llm.basic is about; add it, or define a cap type of your own",
    ),
    "no parameters": (with_own_effect("http.out"), "ex/more@1", "params_schema", "ex/P@1 has no field url"),
    "option": (
        with_own_effect("vault", alias={"option": {"text": {}}}),
        "ex/more@1",
        "params_schema",
        "the field alias of ex/P@1 is not of the type that vault is about; write text",
    ),
    "path": (
        with_own_effect("workspace", workspace={"text": {}}, path={"option": {"text": {}}}),
        "ex/more@1",
        "params_schema",
        "the field path of ex/P@1 is not of the type",
    ),
    "content": (
        with_own_effect("blob", content={"bytes": {}}),
        "ex/more@1",
        "params_schema",
        "write sys/BytesOrRef@1, or define a cap type of your own",
    ),
    "headers": (
        with_own_effect(
            "http.out",
            method={"text": {}},
            url={"text": {}},
            headers={"map": {"key": {"text": {}}, "value": {"text": {}}}},
        ),
        "ex/more@1",
        "params_schema",
        "the field headers of ex/P@1 is not of the type that http.out is about; write map",
    ),
    "cap's parameters": (
        with_definition("defcap", "ex/llm@1", cap_type="llm.basic", schema={"record": {"max_tokens": {"text": {}}}}),
        "ex/llm@1",
        "schema.record.max_tokens",
        "max_tokens is not of the type that it has in sys/llm.basic@1",
    ),
    "cap's form": (
        with_definition("defcap", "ex/llm@1", cap_type="llm.basic", schema={"list": {"text": {}}}),
        "ex/llm@1",
        "schema",
        "a cap of type llm.basic has a record",
    ),
    "reducer's kind": (
        rooms_with_effects({**TIMER, "kind": "timer.sett"}),
        "ex/Room@1",
        "effects[0].kind",
        "you mean timer.set",
    ),
    "not for reducers": (
        rooms_with_effects({"kind": "llm.generate", "cap": "timer"}),
        "ex/Room@1",
        "effects[0].kind",
        "reducers may not ask for llm.generate; let a plan ask for it",
    ),
    "reducer's grant": (
        rooms_with_effects({**TIMER, "cap": "timers"}, arms=FIRED),
        "ex/Room@1",
        "effects[0].cap",
        "there is no grant timers; perhaps you mean timer",
    ),
    "reducer's cap type": (
        rooms_with_effects({**TIMER, "cap": "echo"}, arms=FIRED),
        "ex/Room@1",
        "effects[0].cap",
        "the grant echo is of type echo, and timer.set needs timer",
    ),
    "reducer's arm": (
        rooms_with_effects(TIMER),
        "ex/Room@1",
        "effects[0]",
        "no arm of ex/Ev@1 brings back what comes of timer.set; "
        'add the arm "TimerFired": {"ref": "sys/TimerFired@1"} or "EffectReceipt": {"ref": "sys/EffectReceipt@1"}',
    ),
    "declared twice": (
        rooms_with_effects(TIMER, TIMER, arms=FIRED),
        "ex/Room@1",
        "effects[1]",
        "timer.set is declared twice",
    ),
    "declared in part": (rooms_with_effects({"kind": "timer.set"}), "ex/Room@1", "effects[0]", "cap is missing"),
    "effect kind": (with_effect(kind="more"), "ex/more@1", "kind", "is no kind of effect"),
    "effect twice": (with_effect(kind="tool.call"), "ex/more@1", "kind", "the effect tool.call is defined twice"),
    "cap type": (
        with_effect(cap_type="ehco"),
        "ex/more@1",
        "cap_type",
        "no cap is of type ehco; perhaps you mean echo",
    ),
    "binding": (
        with_definition("defsecret", "x/key@1", binding_id="LLM_KEY"),
        "x/key@1",
        "binding_id",
        "names no place of a secret; write env:NAME",
    ),
    "versions of a place that has none": (
        with_definition("defsecret", "x/key@*", binding_id="vault:key", else_binding_ids=["env:K"]),
        "x/key@*",
        "name",
        "env:K has no versions; bind alias@* to vault:NAME alone",
    ),
    "secret's name": (
        with_definition("defsecret", "x/key@+", binding_id="vault:key"),
        "x/key@+",
        "name",
        "write one such as demo/key@1 or demo/key@*",
    ),
    "secret's cap": (
        with_definition("defsecret", "x/key@1", binding_id="env:K", allowed_caps=["echo", "ecko"]),
        "x/key@1",
        "allowed_caps[1]",
        "there is no grant ecko; perhaps you mean echo",
    ),
    "secret's plan": (
        with_definition("defsecret", "x/key@1", binding_id="env:K", allowed_plans=["ex/gone@1"]),
        "x/key@1",
        "allowed_plans[0]",
        "there is no plan ex/gone@1",
    ),
    "tool": (with_definition("deftoolset", "ex/t@1", tools=[{"name": "x"}]), "ex/t@1", "tools[0]", "is no tool"),
    "rule's field": (
        {"rules": [{"when": {"effect_knid": "ex.echo"}, "decision": "deny"}]},
        "ex/policy@1",
        "rules[0].when.effect_knid",
        "perhaps you mean effect_kind",
    ),
    "rule's decision": (
        {"rules": [{"when": {}, "decision": "alow"}]},
        "ex/policy@1",
        "rules[0].decision",
        "write allow or deny",
    ),
    "rule of nothing": (
        {"rules": [{"when": {"effect_kind": "ex.ehco"}, "decision": "deny"}]},
        "ex/policy@1",
        "rules[0].when.effect_kind",
        "there is no ex.ehco, so the rule matches nothing; perhaps you mean ex.echo",
    ),
    "rule of no plan": (
        {"rules": [{"when": {"origin_kind": "plan", "origin_name": "ex/gone@1"}, "decision": "deny"}]},
        "ex/policy@1",
        "rules[0].when.origin_name",
        "there is no plan ex/gone@1",
    ),
    "rule of no origin": (
        {"rules": [{"when": {"origin_kind": "user"}, "decision": "deny"}]},
        "ex/policy@1",
        "rules[0].when.origin_kind",
        "there is no user",
    ),
    "rule of no module": (
        {"rules": [{"when": {"origin_kind": "reducer", "origin_name": "ex/Rome@1"}, "decision": "deny"}]},
        "ex/policy@1",
        "rules[0].when.origin_name",
        "there is no module ex/Rome@1; perhaps you mean ex/Room@1",
    ),
}
ROOT: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "cap": (
        {"grants": [{"name": "echo", "cap": "ex/none@1"}]},
        "manifest",
        "defaults.cap_grants[0].cap",
        "there is no cap ex/none@1",
    ),
    "params": (
        {
            "grants": [
                {"name": "echo", "cap": "ex/echo@1"},
                LLM_GRANT,
            ]
        },
        "manifest",
        "defaults.cap_grants[1].params.max_tokens",
        "see the parameters of sys/llm.basic@1",
    ),
    "grant twice": (
        {"grants": [{"name": "echo", "cap": "ex/echo@1"}, {"name": "echo", "cap": "ex/echo@1"}]},
        "manifest",
        "defaults.cap_grants[1]",
        "the grant echo is given twice",
    ),
    "expiry": (
        {"grants": [{"name": "echo", "cap": "ex/echo@1", "expiry_ns": -1}]},
        "manifest",
        "defaults.cap_grants[0].expiry_ns",
        "no whole number",
    ),
    "trigger's plan": (with_trigger(plan="ex/palm@1"), "manifest", "triggers[0].plan", "perhaps you mean ex/plan@1"),
    "trigger's event": (
        with_trigger(event="ex/Poke@1"),
        "manifest",
        "triggers[0].plan",
        "no plan with input ex/Poke@1",
    ),
    "trigger's schema": (
        with_trigger(event="ex/Gone@1"),
        "manifest",
        "triggers[0].event",
        "there is no schema ex/Gone@1",
    ),
    "correlation": (
        with_trigger(correlate_by="m"),
        "manifest",
        "triggers[0].correlate_by",
        "ex/Ask@1 has no field m to correlate by",
    ),
    "trigger twice": (
        {"triggers": [*with_trigger()["triggers"], *with_trigger()["triggers"]]},
        "manifest",
        "triggers[1]",
        "ex/Ask@1 triggers ex/plan@1 twice",
    ),
}
STEPS: dict[str, tuple[dict[str, Any], str, str]] = {
    "no steps": (in_plan(), "steps", "1 to 256 steps, not 0"),
    "too many": (in_plan(*(assign_step(f"s{n}", 1) for n in range(257))), "steps", "not 257"),
    "op": (in_plan({"id": "x", "op": "asign"}), "steps[0].op", "there is no op 'asign'; perhaps you mean assign"),
    "bind": (in_plan({"id": "x", "op": "assign", "expr": 1, "bind": {}}), "steps[0].bind", "as is missing"),
    "id": (in_plan({**END, "id": "an end"}), "steps[0].id", "is no name"),
    "id twice": (in_plan(assign_step("x", 1), assign_step("x", 2)), "steps[1].id", "two steps have the id x"),
    "no step": (in_plan(7), "steps[0]", "is no step"),  # type: ignore[arg-type]
    "field": (in_plan({**END, "reslut": 1}), "steps[0].reslut", "perhaps you mean result"),
    "edge": (in_plan(END, edges=[edge("en", "end")]), "edges[0].from", "there is no step en; perhaps you mean end"),
    "edge twice": (
        in_plan(assign_step("x", 1), END, edges=[edge("x", "end"), edge("x", "end", {"bool": True})]),
        "edges[1]",
        "two edges lead from x to end",
    ),
    "edge that never opens": (
        in_plan(assign_step("x", 1), END, edges=[edge("x", "end", False)]),
        "edges[0].when",
        "never opens",
    ),
    "after the end": (in_plan(END, assign_step("x", 1), edges=[edge("end", "x")]), "edges[0]", "nothing after it"),
    "circle": (
        in_plan(
            assign_step("x", 1),
            assign_step("y", 1),
            assign_step("z", 1),
            edges=[edge("x", "y"), edge("y", "x"), edge("y", "z")],
        ),
        "edges",
        "x, y run in a circle",
    ),
    "unreachable": (
        in_plan(END, assign_step("x", 1), assign_step("y", 1), edges=[edge("x", "y")]),
        "steps[0]",
        "so y can't be reached",
    ),
    "effect": (in_plan(emit_effect_step("x", "h", "t", kind="ex.ehco")), "steps[0].kind", "perhaps you mean ex.echo"),
    "grant": (in_plan(emit_effect_step("x", "h", "t", cap="none")), "steps[0].cap", "there is no grant none"),
    "wrong grant": (
        in_plan(emit_effect_step("x", "h", "t", kind="blob.put")),
        "steps[0].cap",
        "the grant echo is of type echo, and blob.put needs blob",
    ),
    "for a tool": (
        {**in_plan(emit_effect_step("x", "h", "t", kind="ex.more")), **with_effect(origin_scope="tool")},
        "steps[0].kind",
        "ex.more is for tools",
    ),
    "handle twice": (
        in_plan(emit_effect_step("x", "h", "t"), emit_effect_step("y", "h", "t")),
        "steps[1].bind",
        "bound twice",
    ),
    "handle overwritten": (
        in_plan(emit_effect_step("x", "h", "t"), {**assign_step("y", 1), "bind": {"as": "h"}}),
        "steps[0].bind",
        "bound twice",
    ),
    "awaits nothing": (in_plan(await_receipt_step("x", "h", "r")), "steps[0].for", "it awaits no effect of this plan"),
    "awaits too early": (
        in_plan(emit_effect_step("x", "h", "t"), await_receipt_step("y", "h", "r")),
        "steps[1].for",
        "not asked for before it; add an edge from x",
    ),
    "event": (in_plan({"id": "x", "op": "raise_event", "event": "ex/E@1", "value": 1}), "steps[0].event", "no schema"),
    "a workspace's event": (
        in_plan({"id": "x", "op": "raise_event", "event": "sys/WorkspaceCommit@1", "value": 1}),
        "steps[0].event",
        "would pass by the grants; ask for the effect workspace.commit",
    ),
    "any event": (in_plan(waiting("x")), "steps[0]", "would take any event"),
    "where": (in_plan(waiting("x", where=ref("@event.status"))), "steps[0].where", "is of type text, not bool"),
    "where's field": (
        in_plan(waiting("x", where={"op": "eq", "args": [ref("@event.statu"), 1]})),
        "steps[0].where.args[0].ref",
        "there is no statu",
    ),
    "result without output": (in_plan({**END, "result": 1}), "steps[0]", "leave it out or declare output"),
    "output without result": (in_plan(END, output="ex/Note@1"), "steps[0]", "add it, or leave out output"),
    "output": (in_plan({**END, "result": 1}, output="ex/Gone@1"), "output", "there is no schema ex/Gone@1"),
    "input": ({"plans": [plan([END], on="ex/Aks@1")], "triggers": []}, "input", "perhaps you mean ex/Ask@1"),
    "correlation_id": (
        in_plan({**assign_step("x", 1), "bind": {"as": "correlation_id"}}),
        "steps[0].bind",
        "set by the trigger",
    ),
    "local": (in_plan(assign_step("x", 1), locals={"x": "ex/Gone@1"}), "locals.x", "there is no schema ex/Gone@1"),
    "unset local": (
        in_plan(assign_step("x", 1), locals={"y": "ex/Note@1"}),
        "locals.y",
        "no assign or await_event sets y",
    ),
    "required_caps": (in_plan(END, required_caps=["echo"]), "required_caps", "the steps say none"),
    "allowed_effects": (
        in_plan(emit_effect_step("x", "h", "t"), allowed_effects=[]),
        "allowed_effects",
        "the steps say ex.echo",
    ),
    "secret": (in_plan(emit_effect_step("x", "h", SECRET)), "steps[0].params", "there is no secret x/key@1"),
    "secret of others": (
        {
            **in_plan(emit_effect_step("x", "h", SECRET)),
            **with_definition("defsecret", "x/key@1", binding_id="env:K", allowed_plans=[]),
        },
        "steps[0].params",
        "ex/plan@1 may not have the secret x/key@1",
    ),
    "secret of others, in any version": (
        {
            **in_plan(emit_effect_step("x", "h", SECRET)),
            **with_definition("defsecret", "x/key@*", binding_id="vault:key", allowed_caps=[]),
        },
        "steps[0].params",
        "echo may not have the secret x/key@1",
    ),
}


def plan_with_expression(expression: Any, *before: Mapping[str, Any]) -> dict[str, Any]:
    """A plan whose last step, at the end of a chain, has this expression."""
    steps = [*before, assign_step("last", expression)]
    return in_plan(*steps, edges=[edge(a["id"], b["id"]) for a, b in pairwise(steps)])


def nested_list(depth: int) -> Any:
    return {"list": [nested_list(depth - 1)]} if depth else 1


FORMS: dict[str, tuple[dict[str, Any], str, str]] = {
    "list": (plan_with_expression([1]), "steps[0].expr", 'write {"list": [...]}'),
    "fraction": (plan_with_expression(0.5), "steps[0].expr", "has a fraction"),
    "two forms": (plan_with_expression({"text": "x", "nat": 1}), "steps[0].expr", "an expression is one form"),
    "form": (plan_with_expression({"txt": "x"}), "steps[0].expr", "there is no form 'txt'; perhaps you mean text"),
    "inside": (
        plan_with_expression({"record": {"a": {"list": [{"nat": -1}]}}}),
        "steps[0].expr.record.a.list[0].nat",
        "no constant of type nat",
    ),
    "operation": (
        plan_with_expression({"op": "equals", "args": []}),
        "steps[0].expr.op",
        "there is no operation 'equals'",
    ),
    "arity": (plan_with_expression({"op": "eq", "args": [1]}), "steps[0].expr", "eq takes 2 arguments"),
    "operation's field": (
        plan_with_expression({"op": "not", "args": [True], "arg": 1}),
        "steps[0].expr.arg",
        "no field of an operation",
    ),
    "map": (plan_with_expression({"map": {}}), "steps[0].expr.map", "a map is a list of entries"),
    "variant": (
        plan_with_expression({"variant": {"value": 1}}),
        "steps[0].expr.variant",
        "a variant is a tag and a value",
    ),
    "null": (plan_with_expression({"null": None}), "steps[0].expr.null", "null has nothing inside"),
    "bytes": (plan_with_expression({"bytes_b64": "%"}), "steps[0].expr.bytes_b64", "is no base64"),
    "deep": (plan_with_expression(nested_list(70)), "steps[0].expr" + ".list[0]" * 65, "nested too deep"),
    "no reference": (plan_with_expression(ref("var:x")), "steps[0].expr.ref", "is no reference"),
    "reference to nowhere": (plan_with_expression(ref("@vars.x")), "steps[0].expr.ref", "@vars.x is no reference"),
    "input's field": (plan_with_expression(ref("@plan.input.txt")), "steps[0].expr.ref", "there is no txt"),
    "below a text": (plan_with_expression(ref("@plan.input.text.x")), "steps[0].expr.ref", "there is no x"),
    "plan": (plan_with_expression(ref("@plan.inputs")), "steps[0].expr.ref", "there is no inputs"),
    "variable": (plan_with_expression(ref("@var:x")), "steps[0].expr.ref", "nothing sets x"),
    "receipt": (
        plan_with_expression(
            ref("@var:r.palyoad"), emit_effect_step("go", "h", "t"), await_receipt_step("w", "h", "r")
        ),
        "steps[2].expr.ref",
        "there is no palyoad",
    ),
    "variable of another branch": (
        in_plan(assign_step("a", 1), assign_step("b", ref("@var:a"))),
        "steps[1].expr.ref",
        "a is not set before this; add edges",
    ),
    "event elsewhere": (plan_with_expression(ref("@event.x")), "steps[0].expr.ref", "there is no event here"),
    "step": (plan_with_expression(ref("@step:gone")), "steps[0].expr.ref", "no step gone before this binds a value"),
    "guard": (
        in_plan(assign_step("a", 1), END, edges=[edge("a", "end", ref("@plan.input.n"))]),
        "edges[0].when",
        "is of type nat, not bool",
    ),
    "guard that computes": (
        in_plan(assign_step("a", 1), END, edges=[edge("a", "end", {"op": "len", "args": ["x"]})]),
        "edges[0].when",
        "is of type int, not bool",
    ),
    "guard on what comes later": (
        in_plan(assign_step("a", 1), assign_step("b", 1), END, edges=[edge("a", "end", ref("@var:b"))]),
        "edges[0].when.ref",
        "b is not set before this",
    ),
    "invariant": (in_plan(END, invariants=[{"text": "x"}]), "invariants[0]", "is of type text, not bool"),
    "invariant of the event": (in_plan(END, invariants=[ref("@event")]), "invariants[0].ref", "no event here"),
    "invariant of nothing": (in_plan(END, invariants=[ref("@var:x")]), "invariants[0].ref", "nothing sets x"),
}


def named_cases(*groups: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(*case, id=name) for group in groups for name, case in group.items()]


@pytest.mark.parametrize(("change", "file", "path", "told"), named_cases(NAMES, SCHEMA, PARTS, ROOT))
def test_a_mistake_is_told_where_it_is(change: dict[str, Any], file: str, path: str, told: str) -> None:
    assert_told(problems_of(**change), file, path, told)


@pytest.mark.parametrize(("change", "path", "told"), named_cases(STEPS, FORMS))
def test_a_mistake_in_a_plan_is_told_where_it_is(change: dict[str, Any], path: str, told: str) -> None:
    assert_told(problems_of(**change), "ex/plan@1", path, told)


def assert_told(found: tuple[Problem, ...], file: str, path: str, told: str) -> None:
    said = [str(p) for p in found if (p.file, p.path) == (file, path)]
    assert any(told in line for line in said), found


@pytest.mark.parametrize("arms", [FIRED, {"Came": "sys/EffectReceipt@1"}])
def test_a_reducer_may_ask_for_what_it_declares_and_hears_of(arms: Mapping[str, str]) -> None:
    assert small_manifest(**rooms_with_effects(TIMER, arms=arms)).modules["ex/Room@1"].effects == {
        "timer.set": ("timer",)
    }


@pytest.mark.parametrize(
    ("scope", "who"),
    [
        ("plan", {"plan"}),
        ("tool", {"tool"}),
        ("reducer", {"reducer"}),
        ("both", {"plan", "tool"}),
        (["plan", "reducer"], {"plan", "reducer"}),
    ],
)
def test_an_effect_says_who_may_ask_for_it(scope: Any, who: set[str]) -> None:
    assert small_manifest(**with_effect(origin_scope=scope)).effects["ex.more"].origins == who


def test_the_built_in_effects_have_what_their_caps_are_about() -> None:
    known = Known.of(Folder.of([], {}))
    for definition in system_definitions():
        if definition["$kind"] == "defeffect":
            assert not list(effect_problems(ManifestPart(definition, ManifestPlace("")), known))


def test_an_effect_of_a_built_in_cap_type_may_have_more_fields_and_its_own_names_for_types() -> None:
    text: dict[str, Any] = {"text": {}}
    fields = {"provider": text, "model": text, "max_tokens": {"nat": {}}, "more": text}
    for more in ({}, {"api_key": {"option": {"ref": "ex/Key@1"}}}):
        assert small_manifest(**with_own_effect("llm.basic", **fields, **more)).effects["ex.more"].params == "ex/P@1"


def routed(*events: Mapping[str, Any], modules: Any = ()) -> list[str]:
    """The problems of the shipped app with other routes."""
    root = {**app().root, "routing": {"events": list(events)}}
    return [str(p) for p in problems(Folder.of([*app().definitions, *modules], root))]


CHAT = {"event": "demiurge/ChatEvent@1", "module": "demiurge/Demiurge@1", "key_field": "$value.chat_id"}
MESSAGE = {**CHAT, "event": "demiurge/UserMessage@1"}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            [{**CHAT, "event": "demiurge/ChatRequest@1"}],
            "events[0].event: demiurge/ChatRequest@1 is no event of module",
        ),
        ([{**CHAT, "module": "demiurge/Gone@1"}], "events[0].module: there is no module demiurge/Gone@1"),
        ([{"event": CHAT["event"], "module": CHAT["module"]}], "events[0]: a route has a key_field exactly when"),
        (
            [{**CHAT, "key_field": "chat_id"}],
            "key_field: the event is a variant, whose fields are in $value; write $value.chat_id",
        ),
        (
            [{**CHAT, "key_field": "$value.chatid"}],
            "has no field chatid; name a field that every event of the module has",
        ),
        ([{**CHAT, "key_field": "$value.request_id"}], "ChatCreated@1 has no field request_id"),
        (
            [{**MESSAGE, "key_field": "$value.request_id"}],
            "has nat there, and a key is text",
        ),
        ([{**CHAT, "key_field": "$value..x"}], "key_field: is no path of fields"),
        ([CHAT, CHAT], "events[1]: demiurge/ChatEvent@1 has two routes"),
        ([{**CHAT, "inbox": 1}], "events[0].inbox: is no field of this"),
    ],
)
def test_a_route_leads_somewhere(events: list[Any], told: str) -> None:
    assert any(told in line for line in routed(*events)), routed(*events)


def test_an_arm_of_two_routed_events_needs_a_route_of_its_own() -> None:
    abi = {"state": "demiurge/ChatState@1", "event": "ex/Twin@1"}
    twin = [
        {"$kind": "defschema", "name": "ex/Twin@1", "type": {"variant": {"U": {"ref": "demiurge/UserMessage@1"}}}},
        {
            "$kind": "defmodule",
            "name": "ex/Twin@1",
            "module_kind": "reducer",
            "key_schema": "demiurge/ChatId@1",
            "abi": abi,
        },
    ]
    other = {"event": "ex/Twin@1", "module": "ex/Twin@1", "key_field": "$value.chat_id"}
    [told] = routed(CHAT, other, modules=twin)
    assert "demiurge/UserMessage@1 is an arm of two routed events" in told
    assert routed(CHAT, other, MESSAGE, modules=twin) == []


def test_every_problem_is_told_at_once() -> None:
    found = problems_of(
        plans=[plan([emit_effect_step("x", "h", ref("@var:y"), cap="none"), await_receipt_step("y", "g", "r")])],
        definitions=[{"$kind": "defschema", "name": "ex/Bad@1", "type": {"txt": {}}}],
        grants=[{"name": "a", "cap": "ex/none@1"}],
        rules=[{"when": {}, "decision": "alow"}],
        triggers=[{"event": "ex/Ask@1", "plan": "ex/none@1"}],
    )
    assert [(p.file, p.path) for p in found] == [
        ("ex/policy@1", "rules[0].decision"),
        ("ex/Bad@1", "type"),
        ("ex/plan@1", "steps[0].params.record.text.ref"),
        ("ex/plan@1", "steps[0].cap"),
        ("ex/plan@1", "steps[1].for"),
        ("manifest", "defaults.cap_grants[0].cap"),
        ("manifest", "triggers[0].plan"),
    ]


def told_at(*steps: Any, edges: Any = (), **more: Any) -> list[str]:
    return [p.path for p in problems_of(**in_plan(*steps, edges=edges, **more))]


MISTAKES: list[Any] = [
    emit_effect_step("go", "h", ref("@var:nothing"), cap="none"),
    await_receipt_step("wait", "h", "r"),
    assign_step("a", ref("@var:r.palyoad")),
    assign_step("b", {"op": "frob", "args": []}),
]
TOLD = ["steps[0].params.record.text.ref", "steps[0].cap", "steps[2].expr.ref", "steps[3].expr.op", "invariants[0].ref"]
ORDER = [edge("go", "wait"), edge("wait", "a")]


@pytest.mark.parametrize(
    ("steps", "edges", "own"),
    [
        ([], [], []),
        ([{"id": "x", "op": "sleep"}], [], ["steps[4].op"]),
        ([{"id": "x", "op": "assign", "expr": 1}], [], ["steps[4]"]),
        ([assign_step("go", 1)], [], ["steps[4].id"]),
        ([], [edge("wait", "nowhere")], ["edges[2].to"]),
        ([], [{"from": "go"}], ["edges[2]"]),
        ([], [edge("a", "wait")], ["edges"]),
        ([], [edge("go", "wait")], ["edges[2]"]),
    ],
    ids=[
        "no further problem",
        "unknown op",
        "missing bind",
        "repeated id",
        "edge to an unknown step",
        "edge without a target",
        "circle of edges",
        "repeated edge",
    ],
)
def test_a_bad_step_or_edge_hides_nothing_else(steps: list[Any], edges: list[Any], own: list[str]) -> None:
    invariants = {"invariants": [ref("@event.x")], "required_caps": ["other"]}
    found = told_at(*MISTAKES, *steps, edges=[*ORDER, *edges], **invariants)
    unnamed = {"steps[0].params.record.text.ref"} if own == ["steps[4]"] else set()
    derived = set() if steps else {"required_caps"}
    assert set(found) == (set(TOLD) | set(own) | derived) - unnamed
    assert len(found) == len(set(found))


def test_a_variable_of_an_unreadable_step_is_not_reported_as_missing() -> None:
    assert told_at({"id": "a", "op": "asign", "expr": 1, "bind": {"as": "x"}}, assign_step("b", ref("@var:x"))) == [
        "steps[0].op"
    ]
    assert told_at({**emit_effect_step("a", "h", "t"), "op": "emit"}, await_receipt_step("b", "h", "r")) == [
        "steps[0].op"
    ]
    assert told_at("step", assign_step("b", ref("@var:x")), await_receipt_step("c", "h", "r")) == ["steps[0]"]


def test_a_bad_rule_hides_no_rule_that_matches_nothing() -> None:
    rules = [
        {"when": {"effect_kind": "ex.ecko", "cap_name": 7}, "decision": "allow"},
        {"when": {"color": "red"}, "decision": "maybe"},
        "rule",
        {"when": {"cap_name": "ecko"}, "decision": "deny"},
    ]
    assert {p.path for p in problems_of(rules=rules)} == {
        *("rules[0].when.cap_name", "rules[0].when.effect_kind", "rules[1].when.color", "rules[1].decision"),
        *("rules[2]", "rules[3].when.cap_name"),
    }


@pytest.mark.parametrize(
    ("params", "path", "told"),
    [
        ({"record": {"txt": "x"}}, "params.record.txt", "there is no field txt; perhaps you mean text"),
        ({"record": {"txt": "x"}}, "params.record", "lacks text"),
        ({"record": {}}, "params.record", "lacks text"),
        ({"record": {"text": {"bool": True}}}, "params.record.text", "is of type bool, and text is wanted"),
        ({"record": {"text": 1}}, "params.record.text", "is of type int, and text is wanted"),
        ({"record": {"text": None}}, "params.record.text", "is null, and text is wanted"),
        ({"record": {"text": {"list": []}}}, "params.record.text", "is of type list, and text is wanted"),
        ({"record": {"text": ref("@plan.input.n")}}, "params.record.text", "is of type nat, and text is wanted"),
        ({"record": {"text": {"op": "len", "args": ["x"]}}}, "params.record.text", "is of type int"),
        ({"text": "x"}, "params", "is of type text, and record is wanted"),
        (ref("@plan.input"), "params", "has a field room, which is not wanted"),
    ],
)
def test_the_params_of_an_effect_are_checked_against_its_schema(params: Any, path: str, told: str) -> None:
    step = {**emit_effect_step("go", "h", "x"), "params": params}
    found = problems_of(**in_plan(step))
    at = [p for p in found if p.path == f"steps[0].{path}"]
    assert any(str(p).partition(": ")[2].find(told) >= 0 for p in at), found


@pytest.mark.parametrize(
    ("kind", "constant", "fits"),
    [
        ("nat", {"text": "many"}, False),
        ("nat", "many", False),
        ("nat", -1, False),
        ("nat", {"int": -1}, False),
        ("nat", {"text": "9007199254740993"}, True),
        ("nat", 7, True),
        ("hash", "sha256:1", False),
        ("hash", {"text": f"sha256:{'1' * 64}"}, True),
        ("dec128", "0.5", True),
        ("dec128", "half", False),
        ("uuid", "x", False),
        ("text", "", True),
    ],
)
def test_a_constant_that_can_never_be_of_the_type_is_told(kind: str, constant: Any, fits: bool) -> None:
    schemas = {"ex/Told@1": {"record": {**SCHEMAS["ex/Told@1"]["record"], "extra": {"option": {kind: {}}}}}}
    told = {"record": {"room": "a", "status": True, "detail": "d", "extra": constant}}
    step = {"id": "tell", "op": "raise_event", "event": "ex/Ev@1", "value": {"variant": {"tag": "Told", "value": told}}}
    found = [(p.path.rpartition(".")[2], p.wrong) for p in problems_of(schemas=schemas, **in_plan(step))]
    told_anyway = [("status", "is of type bool, and text is wanted")]
    assert found == told_anyway + ([] if fits else [("extra", f"is a constant that is no {kind}")])


def test_an_event_that_a_plan_raises_is_checked_against_its_schema() -> None:
    value = {"variant": {"tag": "Told", "value": {"record": {"room": "a", "status": True}}}}
    step = {"id": "tell", "op": "raise_event", "event": "ex/Ev@1", "value": value}
    found = [(p.path.removeprefix("steps[0].value.variant."), p.wrong) for p in problems_of(**in_plan(step))]
    assert found == [
        ("value.record.status", "is of type bool, and text is wanted"),
        ("value.record", "lacks detail"),
    ]
    step["value"] = {"variant": {"tag": "Tld", "value": None}}
    assert [p.wrong for p in problems_of(**in_plan(step))] == ["there is no arm Tld"]


def test_a_bad_type_hides_no_endless_one() -> None:
    bad = [
        {"$kind": "defschema", "name": "ex/Bad@1", "type": {"txt": {}}},
        {"$kind": "defschema", "name": "ex/Uses@1", "type": {"record": {"bad": {"ref": "ex/Bad@1"}}}},
        {"$kind": "defschema", "name": "ex/Loop@1", "type": {"record": {"x": {"ref": "ex/Loop@1"}}}},
    ]
    assert [p.file for p in problems_of(definitions=bad)] == ["ex/Bad@1", "ex/Loop@1"]


def test_an_unknown_field_hides_no_other_mistake() -> None:
    found = problems_of(**in_plan(emit_effect_step("x", "h", "t", cap="none"), stpes=[]))
    assert [p.path for p in found] == ["stpes", "steps[0].cap"]


def test_one_mistake_is_told_once() -> None:
    """What refers to a definition with a mistake is no mistake of its own."""
    broken = {**SCHEMAS["ex/Ask@1"]["record"], "n": {"natt": {}}}
    assert [(p.file, p.path) for p in problems_of(schemas={"ex/Ask@1": {"record": broken}})] == [("ex/Ask@1", "type.n")]


def test_the_shipped_app_is_sound() -> None:
    assert problems(Folder.of(app().definitions, app().root), {*app().reducers, "sys/Workspace@1"}) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["x", "ex/X@1", "manifest", "$kind", "defplan"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["$kind", "name", "type", "steps", "id", "op", "ref"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def spoiled_definitions(draw: st.DrawFn) -> tuple[list[Any], Any]:
    """The shipped app with some of its values replaced by anything."""
    parts: Any = draw(st.sampled_from([[*app().definitions, dict(app().root)]]))
    for _ in range(draw(st.integers(1, 3))):
        parts = _replaced(draw, parts)
    *definitions, root = parts
    return [d for d in definitions if isinstance(d, dict) and isinstance(d.get("$kind"), str)], root


def _replaced(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    if depth and (not isinstance(value, dict | list) or not value or draw(st.integers(0, 4)) == 0):
        return draw(JSON)
    if isinstance(value, dict):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: _replaced(draw, value[name], depth + 1)}
    index = draw(st.integers(0, len(value) - 1))
    return [*value[:index], _replaced(draw, value[index], depth + 1), *value[index + 1 :]]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(spoiled_definitions())
def test_a_spoiled_manifest_is_sound_or_its_problems_are_reported(parts: tuple[list[Any], Any]) -> None:
    definitions, root = parts
    root = {**root, "$kind": "manifest"} if isinstance(root, dict) else {"$kind": "manifest"}
    found = problems(Folder.of(definitions, root))
    assert all(problem.wrong and problem.fix for problem in found)
    if not found:
        names = [d["name"] for d in definitions if d["$kind"] == "defmodule"]
        reducers = dict.fromkeys((*names, "sys/Workspace@1"))
        assert problems(Folder.of(definitions, root), reducers) == ()


def test_a_manifest_is_its_bytes() -> None:
    made = small_manifest()
    assert Manifest.load(made.node, made.reducers).ref == made.ref == small_manifest().ref
    assert small_manifest(source=b"2").ref != made.ref
    assert small_manifest(settings={"x": 1}).ref != made.ref


def test_built_in_schemas_and_effects_need_no_definition_and_cannot_be_redefined() -> None:
    assert "sys/TextOrSecretRef@1" in small_manifest().schemas
    assert "http.request" in small_manifest().effects
    with pytest.raises(BadManifest, match=r"sys/\* is reserved"):
        small_manifest(definitions=[{"$kind": "defschema", "name": "sys/SecretRef@1", "type": {"text": {}}}])


@pytest.mark.parametrize("value", ["sha256:short", "x", "sha256:" + "G" * 64])
def test_a_malformed_hash_is_refused(value: str) -> None:
    with pytest.raises(InvalidValue):
        small_manifest().schemas.validator({"hash": {}}).normalise(value)


def test_bytes_are_read_from_base64_and_other_text_is_refused() -> None:
    """It became the bytes of the text there, where the other lens meant base64."""
    check = small_manifest().schemas.validator({"bytes": {}})
    assert check.normalise("aGk=") == b"hi"
    with pytest.raises(InvalidValue):
        check.normalise("no base64!")


def test_two_arms_of_one_schema_are_refused() -> None:
    twins = {"variant": {**SCHEMAS["ex/BoardEv@1"]["variant"], "Again": {"ref": "ex/Note@1"}}}
    with pytest.raises(BadManifest, match="the arms Note and Again"):
        small_manifest(schemas={"ex/BoardEv@1": twins})


def test_problems_of_plans_reducers_and_triggers_are_told_together() -> None:
    with pytest.raises(BadManifest) as raised:
        small_manifest(
            [plan([emit_effect_step("a", "h", ref("@var:x"), cap="none", kind="ex.none")])],
            reduce=room_reducer,
            triggers=[],
        )
    assert len(raised.value.problems) == 3


def test_a_rule_for_an_unknown_effect_kind_is_refused() -> None:
    with pytest.raises(BadManifest, match="so the rule matches nothing"):
        small_manifest(
            rules=[{"when": {"effect_kind": "ex.eco"}, "decision": "deny"}, {"when": {}, "decision": "allow"}]
        )


def test_an_arm_and_its_variant_are_routed_to_one_module() -> None:
    routes = small_manifest().routes
    assert routes["ex/Note@1"].module == routes["ex/BoardEv@1"].module == BOARD
