"""Rooms and boards that spend: what the tests of budgets share.

A room is told in JSON what to do: `calls` of tools, `think` (the most tokens of each request to a model), and `notes`
for a board, each with its `budget`. A board makes two calls for a note that says "call"; for one that says "pass" its
plan sends such a note to another board, and for one that says "reply" it tells the room to make a call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.world.small_world import (
    BOARD,
    SECOND,
    A,
    Kernel,
    await_receipt_step,
    edge,
    plan,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of
from demiurge.world.effect import Result, failed, succeeded
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Sent
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

B, C = Unit(BOARD, "b"), Unit(BOARD, "c")
CALL = b'{"arguments_json":"{}","id":"c1","name":"bump"}'
BUMP, ASKED = "bump", "asked"
FREE = Budgets()

SCHEMAS: Mapping[str, Any] = {
    "ex/Think@1": {"record": {"room": {"text": {}}, "n": {"nat": {}}, "tokens": {"nat": {}}}},
}
TRIGGERS = {"ex/Ask@1": "ex/plan@1", "ex/Think@1": "ex/think@1", "ex/Note@1": "ex/noted@1"}


def spending_reducer(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    count = {"n": state["n"] + 1 if state is not None else 1}
    tag, value = event["$tag"], event["$value"]
    if tag == "Told":
        return Step(set=count, append={"log": [f"{value['status']}:{value['detail']}"]})
    if tag == "PlanFailed":
        return Step(set=count, append={"log": [f"failed:{value['code']}"]})
    if tag == "StepFailed":
        return Step(set=count, append={"log": [f"step:{value['code']}"]})
    wanted = json.loads(value["what"])
    events = [Emit("ex/Ask@1", {"room": context.key, "n": 1, "text": tool}) for tool in wanted.get("calls", ())]
    events += [Emit("ex/Think@1", {"room": context.key, "n": 1, "tokens": most}) for most in wanted.get("think", ())]
    for note in wanted.get("notes", ()):
        share = Allowance.from_json(note["budget"]) if "budget" in note else None
        events.append(Emit("ex/Note@1", {"board": "b", "text": note["text"]}, share))
    return Step(set=count, events=events)


def tool_call_step(step_id: str, handle: str, tool: Any) -> dict[str, Any]:
    params = {"record": {"tool": tool, "tool_call_id": "c1", "call_ref": {"hash": ref_of(CALL)}}}
    bind = {"effect_id_as": handle}
    return {"id": step_id, "op": "emit_effect", "kind": "tool.call", "cap": "tool", "params": params, "bind": bind}


def model_call_step(step_id: str, handle: str) -> dict[str, Any]:
    given = {"provider": "p", "model": "m", "temperature": {"dec128": "0"}, "max_tokens": ref("@plan.input.tokens")}
    absent: dict[str, Any] = {name: {"null": {}} for name in ("tools_ref", "tool_choice", "api_key", "response_format")}
    params = {"record": {**given, **absent, "message_refs": {"list": []}}}
    bind = {"effect_id_as": handle}
    return {"id": step_id, "op": "emit_effect", "kind": "llm.generate", "cap": "llm", "params": params, "bind": bind}


OK, NOT_OK = ({"op": op, "args": [ref("@var:r.status"), "ok"]} for op in ("eq", "ne"))


def _told(emitting: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    steps = [
        emitting,
        await_receipt_step("wait", "h", "r"),
        raise_event_step("ok", {"text": "ok"}, {"text": ""}),
        raise_event_step("bad", ref("@var:r.payload.code"), ref("@var:r.payload.message")),
    ]
    return steps, [edge("go", "wait"), edge("wait", "ok", OK), edge("wait", "bad", NOT_OK)]


def _is(text: str) -> Any:
    return {"op": "eq", "args": [ref("@plan.input.text"), text]}


def _passing(key: str) -> dict[str, Any]:
    value = {"variant": {"tag": "Note", "value": {"record": {"board": key, "text": "call"}}}}
    share = {"record": {"max_tool_calls": 1}}
    return {"id": "pass", "op": "raise_event", "event": "ex/BoardEv@1", "value": value, "budget": share}


def _replying() -> dict[str, Any]:
    asked = {"record": {"room": {"text": "a"}, "what": {"text": '{"calls":["bump"]}'}}}
    value = {"variant": {"tag": "Poke", "value": asked}}
    return {"id": "reply", "op": "raise_event", "event": "ex/Ev@1", "value": value}


NOTED = plan(
    [
        {"id": "start", "op": "assign", "expr": 1, "bind": {"as": "one"}},
        tool_call_step("c1", "h1", BUMP),
        tool_call_step("c2", "h2", BUMP),
        await_receipt_step("w1", "h1", "r1"),
        await_receipt_step("w2", "h2", "r2"),
        _passing("c"),
        _replying(),
    ],
    [
        edge("start", "c1", _is("call")),
        edge("start", "c2", _is("call")),
        edge("c1", "w1"),
        edge("c2", "w2"),
        edge("start", "pass", _is("pass")),
        edge("start", "reply", _is("reply")),
    ],
    name="ex/noted@1",
    on="ex/Note@1",
)


def spending_manifest(budgets: Budgets = FREE, *, asked: tuple[str, ...] = (ASKED,)) -> Manifest:
    return small_manifest(
        [
            plan(*_told(tool_call_step("go", "h", ref("@plan.input.text")))),
            plan(*_told(model_call_step("go", "h")), name="ex/think@1", on="ex/Think@1"),
            NOTED,
        ],
        spending_reducer,
        triggers=[{"event": event, "plan": name} for event, name in TRIGGERS.items()],
        grants=[
            {"name": "echo", "cap": "ex/echo@1", "params": {}},
            {"name": "tool", "cap": "sys/tool@1", "params": {}},
            {"name": "llm", "cap": "ex/llm@1", "params": {}},
        ],
        definitions=[{"$kind": "defcap", "name": "ex/llm@1", "cap_type": "llm.basic", "schema": {"record": {}}}],
        schemas={
            **SCHEMAS,
            "ex/Ev@1": {
                "variant": {
                    "Poke": {"ref": "ex/Poke@1"},
                    "Told": {"ref": "ex/Told@1"},
                    "PlanFailed": {"ref": "sys/PlanFailed@1"},
                    "StepFailed": {"ref": "sys/StepFailed@1"},
                }
            },
        },
        tool_policy=ToolPolicy((BUMP, ASKED), require_approval_for_tools=asked, budgets=budgets),
    )


def tool_result() -> Result:
    """A tool's answer."""
    ref = ref_of(b"")
    none = dict.fromkeys(("error_code", "view_ref", "events_ref", "session_ref", "usage"))
    return succeeded(tool_call_id="c1", ok=True, message="", message_ref=ref, record_ref=ref, **none)


def model_result(prompt: int, completion: int, micros: int | None = 0, put: Any = None) -> Result:
    """A model's answer; `put` keeps the blob that says what it cost, without it whole cents say it."""
    usage = put(canonical_json.encode({"cost_micros": micros})) if put is not None else None
    return succeeded(
        output_ref=ref_of(b""),
        token_usage={"prompt": prompt, "completion": completion},
        cost_cents=-(-micros // 10_000) if micros is not None else None,
        provider_id="p",
        tool_call_refs=None,
        output_items_ref=None,
        finish_reason=None,
        usage_ref=usage,
    )


def room_order(**what: Any) -> dict[str, Any]:
    """What a room is told."""
    return {"$tag": "Poke", "$value": {"room": "a", "what": json.dumps(what)}}


class Units:
    """A room and two boards on bare kernels, and the post between them, which a test may hold back."""

    def __init__(self, manifest: Manifest) -> None:
        self.units = {unit: Kernel(manifest, unit) for unit in (A, B, C)}
        self.post: deque[tuple[Unit, Sent]] = deque()
        for kernel in self.units.values():
            kernel.put(CALL)

    @property
    def a(self) -> Kernel:
        return self.units[A]

    @property
    def b(self) -> Kernel:
        return self.units[B]

    @property
    def c(self) -> Kernel:
        return self.units[C]

    @property
    def log(self) -> list[str]:
        return self.a.log

    def tell(self, **what: Any) -> None:
        """Something from outside for the room."""
        self.a.event(room_order(**what))
        self._send(A)

    def answer(self, unit: Unit, intent: OpenIntent | bytes, result: Result | None = None) -> None:
        self.units[unit].receipt(intent, result if result is not None else tool_result())
        self._send(unit)

    def decide(self, unit: Unit, intent: OpenIntent, *, approve: bool) -> None:
        verdict = "approve" if approve else "reject"
        self.units[unit].take("approval", {"intent": intent.id, "verdict": verdict, "reason": "", "by": "anna"})
        self._send(unit)

    def deliver(self) -> None:
        """The oldest message."""
        _, sent = self.post.popleft()
        kernel = self.units[sent.target]
        kernel.now_ns += SECOND
        stamp = Stamp(kernel.now_ns, kernel.now_ns.to_bytes(16, "big"), sent.caller, kernel.manifest.ref)
        body = {"schema": sent.schema, "value": sent.value}
        kernel.step(Ingress("event", f"sent:{sent.id}", body, stamp, sent.cause))
        self._send(sent.target)

    def deliver_all(self) -> None:
        while self.post:
            self.deliver()

    def _send(self, unit: Unit) -> None:
        """Post what a unit has sent, and answer what was refused in it, as if it were one step."""
        kernel = self.units[unit]
        first, begun = kernel.last, list[OpenIntent]()
        while True:
            self.post += ((unit, sent) for sent in kernel.last.outbox)
            begun += (intent for intent in kernel.last.intents if intent.refused is None)
            refused = next((intent for intent in kernel.intents if intent.refused is not None), None)
            if refused is None or refused.refused is None:
                break
            kernel.receipt(refused, failed(**refused.refused))
        kernel.last = replace(first, intents=tuple(begun))
