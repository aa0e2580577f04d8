"""The kernel: one pure function from a unit's state and one ingress to its next state, records and wants.

    advance(manifest, unit_state, ingress, blobs) -> Advance | Need

No I/O, no clock, no randomness: they are in the ingress's stamp (architecture.md 2). Whatever a user, a reducer, a
policy or a provider does wrong becomes a recorded outcome; nothing is thrown for it, so replay reproduces it.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.values import cbor
from demiurge.values.draft import draft_of
from demiurge.values.refs import Ref, ref_of
from demiurge.world.admission import admit, decide_tool
from demiurge.world.approval import question, refusal
from demiurge.world.cell import apply_step, own_copy
from demiurge.world.expr import ExpressionError
from demiurge.world.manifest import Manifest
from demiurge.world.outcome import Advance, Ingress, Need, Sent
from demiurge.world.plan import Ended, PlanInstance, hear, run
from demiurge.world.record import Cause, Record, Stamp, seal_record
from demiurge.world.reducer import Emit, MissingBlob, ReducerContext
from demiurge.world.routing import routed
from demiurge.world.state import OpenIntent, Request, UnitState
from demiurge.world.unit import Unit

__all__ = ["advance"]

_Advance = draft_of(Advance)
_Context = draft_of(ReducerContext)
_OpenIntent = draft_of(OpenIntent)
_Stamp = draft_of(Stamp)

EVENTS_PER_INGRESS = 4096
MESSAGE = 1000
"""Longest error text of a step, in characters."""


def advance(manifest: Manifest, unit_state: UnitState, ingress: Ingress, blobs: Mapping[Ref, bytes]) -> Advance | Need:
    """One step of one unit. `unit_state` is not changed; `blobs` holds what the step may read."""
    step = _Run(manifest, unit_state.copy(), ingress, blobs)
    try:
        step.process()
    except MissingBlob as missing:
        return Need(missing.ref)
    return _Advance(
        step.state,
        tuple(step.records),
        tuple(i for i in step.ready if i.id in step.state.intents),
        tuple(step.sent),
        tuple(step.new_blobs),
        tuple(step.answers),
    )


class _Run:
    """One call of `advance`: the state being changed and what has come out so far."""

    def __init__(self, manifest: Manifest, state: UnitState, ingress: Ingress, blobs: Mapping[Ref, bytes]) -> None:
        self.manifest, self.state, self.ingress = manifest, state, ingress
        self.blobs: ChainMap[Ref, bytes] = ChainMap({}, blobs)  # type: ignore[arg-type]  # only the first is written to
        self.records: list[Record] = []
        self.ready: list[OpenIntent] = []
        self.sent: list[Sent] = []
        self.new_blobs: list[bytes] = []
        self.answers: list[tuple[bytes, Mapping[str, Any]]] = []
        self.tasks: deque[Callable[[], None]] = deque()
        self.derived = _Stamp(ingress.stamp.time_ns)
        self.events = 0
        self.owned: set[int] = set()

    def process(self) -> None:
        handle = {
            "event": self.on_event,
            "receipt": self.on_receipt,
            "approval": self.on_approval,
            "capability_request": self.on_capability_request,
            "fork": self.on_fork,
        }[self.ingress.kind]
        handle()
        while self.tasks:
            self.tasks.popleft()()

    # -- records ------------------------------------------------------------------------------------------------------

    def record(self, kind: str, body: Mapping[str, Any], cause: Cause, refs: Sequence[Ref] = ()) -> int:
        return self._append(kind, body, cause, self.derived, refs)

    def record_ingress(self) -> int:
        i = self.ingress
        seq = self._append(i.kind, i.body, i.cause, i.stamp, i.refs)
        if self.state.manifest != self.manifest.ref:
            self.state.manifest = self.manifest.ref
            refs = [self.manifest.ref, *self.manifest.sources.values()]
            self.record("manifest", {"ref": self.manifest.ref}, seq, refs)
        return seq

    def _append(self, kind: str, body: Mapping[str, Any], cause: Cause, stamp: Stamp, refs: Sequence[Ref]) -> int:
        s = self.state
        sealed = seal_record(str(s.unit), s.seq, kind, cause, stamp, body, s.head, refs)
        self.records.append(sealed)
        s.seq, s.head = s.seq + 1, sealed.hash
        return sealed.unit_seq

    # -- ingress ------------------------------------------------------------------------------------------------------

    def on_event(self) -> None:
        body = self.ingress.body
        self.consume(body["schema"], body["value"], self.record_ingress())

    def on_receipt(self) -> None:
        body = self.ingress.body
        intent = self.state.intents.get(body["intent"])
        if intent is not None:
            self.answer(intent, {"status": body["status"], "payload": body["payload"]}, self.record_ingress())

    def on_approval(self) -> None:
        """A person's decision. It lets the intent run only if the rules in force still allow it."""
        body, stamp = self.ingress.body, self.ingress.stamp
        intent = self.state.intents.get(body["intent"])
        if intent is None or not intent.awaits_approval or intent.approval is None:
            return
        seq = self.record_ingress()
        refused = refusal(self.manifest, intent, body, stamp)
        if refused is not None:
            if refused.decision is not None:
                self.record("decision", {"intent": intent.id, "kind": intent.kind, **refused.decision}, seq)
            self.answer(intent, _failed(refused.code, refused.message), seq)
            return
        approved = replace(
            intent, approved={"by": body["by"], "reason": body["reason"], "at_ms": stamp.time_ns // 1_000_000}
        )
        self.state.intents[intent.id] = approved
        self.ready.append(approved)

    def on_capability_request(self) -> None:
        """A running tool asks for an effect: admitted only while its `tool.call` is open (architecture.md 1)."""
        body = self.ingress.body
        parent = self.state.intents.get(body["parent"])
        if parent is None or parent.kind != "tool.call" or parent.awaits_approval:
            return
        ordinal = body["ordinal"]
        if ordinal in parent.requests:
            return
        seq = self.record_ingress()
        digest = cbor.digest(body["params"])
        intent_id = cbor.digest([parent.id, ordinal, body["kind"], digest])
        request = Request(body["kind"], digest, intent_id)
        self.state.intents[parent.id] = replace(parent, requests={**parent.requests, ordinal: request})
        origin = {"kind": "tool", "name": parent.params["tool"], "parent": parent.id, "ordinal": ordinal}
        effect = self.manifest.effects.get(body["kind"])
        grant = self.grant_of(effect.cap_type) if effect else ""
        self.emit_effect(intent_id, body["kind"], grant, body["params"], origin, seq)

    def on_fork(self) -> None:
        """From here on the unit is another world's: what it asks for now has another identity."""
        self.record_ingress()
        self.state.world = self.ingress.body["world"]

    def grant_of(self, cap_type: str) -> str:
        """The one grant of this cap type; none when there are none or several."""
        names = [g.name for g in self.manifest.grants.values() if g.cap_type == cap_type]
        return names[0] if len(names) == 1 else ""

    # -- events -------------------------------------------------------------------------------------------------------

    def raise_event(self, emit: Emit, target: tuple[Unit, str, Any] | None, cause: int) -> None:
        """Record an event that was emitted here, and take it or send it on to where it is routed.

        Its value is already normalised and its route known, so nothing can go wrong any more.
        """
        self.events += 1
        body = {"value": emit.value, "schema": emit.schema}
        refs = self.manifest.schemas.validator(emit.schema).refs(emit.value)
        seq = self.record("event", body, cause, refs)
        if target is not None and target[0] != self.state.unit:
            unit, schema, value = target
            sender = {"unit": str(self.state.unit), "seq": seq, "index": len(self.sent)}
            self.sent.append(Sent(f"{sender['unit']}#{seq}.{sender['index']}", unit, schema, value, sender))
            return
        schema, value = (target[1], target[2]) if target is not None else (emit.schema, emit.value)
        self.consume(schema, value, seq)

    def consume(self, schema: str, value: Any, seq: int) -> None:
        """Offer the event to the plans that wait, start those that it triggers, then queue it for the unit's reducer.

        A module's event is heard under its own schema, and its arm under the arm's.
        """
        module = self.manifest.modules.get(self.state.unit.module)
        heard_as = {schema: value}
        if module is not None and schema == module.event and module.tags and value["$tag"] in module.tags:
            heard_as[module.tags[value["$tag"]]] = value["$value"]
        for instance in self.state.plans.values():
            if instance.waits:
                self.offer(instance, heard_as, seq)
        for form, part in heard_as.items():
            for trigger in self.manifest.triggers.get(form, ()):
                self.start_plan(trigger.plan, trigger.correlate_by, part, seq)
        if module is not None and schema == module.event:
            self.tasks.append(lambda: self.reduce(schema, value, seq))

    def reduce(self, schema: str, value: Any, cause: int) -> None:
        module = self.manifest.modules[self.state.unit.module]
        context = _Context(
            stamp=self.ingress.stamp,
            key=self.state.unit.key,
            origin=self.origin_of(cause),
            settings=self.manifest.settings,
            decide_tool=lambda tool: decide_tool(self.manifest, tool, actor=self.ingress.stamp.actor).verdict,
            blobs=self.blobs,
            seed=hashlib.sha256(self.ingress.stamp.entropy + cause.to_bytes(8, "big")).digest(),
        )
        try:
            step = self.manifest.reducers[module.name].reduce(own_copy(self.state.cell), own_copy(value), context)
            cell, emitted, digest = apply_step(self.manifest.schemas, module.state, self.state.cell, step)
            self.check_events(len(emitted))
            targets = [routed(self.manifest, emit.schema, emit.value) for emit in emitted]
        except InvalidValue as error:
            self.step_failed("invalid_step", str(error)[:MESSAGE], value, cause)
            return
        except Exception as error:  # noqa: BLE001 - a reducer's fault is an outcome, whatever it is
            self.step_failed("reducer_failed", type(error).__name__, value, cause)
            return
        self.state.cell = cell
        refs = [ref_of(blob) for blob in step.blobs]
        self.blobs.update(zip(refs, step.blobs, strict=True))
        self.new_blobs.extend(step.blobs)
        seq = self.record("step", {"digest": digest}, cause, refs)
        for emit, target in zip(emitted, targets, strict=True):
            self.raise_event(emit, target, seq)

    def step_failed(self, code: str, message: str, value: Any, cause: int) -> None:
        """Record that a step did not happen, and tell the module once, so that nothing waits for it for ever."""
        body = {"code": code, "message": message}
        seq = self.record("step", {"error": body}, cause)
        module = self.manifest.modules[self.state.unit.module]
        tag = module.arms.get("sys/StepFailed@1")
        if tag is not None and value.get("$tag") != tag and self.origin_of(cause) != "external":
            self.tasks.append(lambda: self.reduce(module.event, {"$tag": tag, "$value": body}, seq))

    def check_events(self, more: int) -> None:
        if self.events + more > EVENTS_PER_INGRESS:
            raise InvalidValue("this ingress has caused too many events")

    def origin_of(self, seq: int) -> Literal["external", "unit", "derived"]:
        if self.records[0].unit_seq != seq or self.ingress.kind != "event":
            return "derived"
        return "external" if self.ingress.cause is None else "unit"

    # -- plans --------------------------------------------------------------------------------------------------------

    def start_plan(self, name: str, correlate_by: str | None, value: Any, cause: int) -> None:
        correlation = _field(value, correlate_by) if correlate_by else ""
        instance = PlanInstance(
            self.state.next_plan,
            name,
            self.manifest.ref,
            cause,
            value,
            str(correlation),
            {"correlation_id": correlation},
        )
        self.state.next_plan += 1
        self.own(instance)
        self.tasks.append(lambda: self.run_plan(instance.id, cause))

    def offer(self, instance: PlanInstance, heard_as: Mapping[str, Any], cause: int) -> None:
        """Let the steps that wait now for this event, under one of its schemas, look at it when their turn comes."""
        offers = [(step_id, heard_as[want]) for step_id, want in instance.waits.items() if want in heard_as]
        if offers:
            self.tasks.append(lambda: self.run_plan(instance.id, cause, offers))

    def own(self, instance: PlanInstance) -> PlanInstance:
        """Take an instance that this step may change."""
        self.owned.add(instance.id)
        self.state.plans[instance.id] = instance
        return instance

    def run_plan(self, plan_id: int, cause: int, offers: Sequence[tuple[str, Any]] | None = None) -> None:
        """Move a plan on; whatever goes wrong in it ends it with a record that the unit's reducer can see.

        With `offers` (see `hear`) only when it takes one.
        """
        instance = self.state.plans.get(plan_id)
        if instance is None:
            return
        if plan_id not in self.owned:
            instance = self.own(instance.copy())
        manifest = self.manifest_of(instance.manifest)
        plan, port = manifest.plans[instance.plan], _Port(self, manifest, instance, cause)
        ended: Ended | None = None
        error: tuple[str, str] | None = None
        try:
            if offers is not None and not hear(plan, instance, offers, port):
                return
            ended = run(plan, instance, port)
        except (ExpressionError, DemiurgeError) as problem:
            code = problem.code if isinstance(problem, ExpressionError) else "plan_failed"
            error = code, str(problem)[:MESSAGE]
        if ended is None and error is None:
            return
        del self.state.plans[plan_id]
        body: dict[str, Any] = {"id": plan_id, "plan": instance.plan, "status": "error" if error else "ok"}
        refs: Sequence[Ref] = ()
        if error:
            body |= {"code": error[0], "message": error[1]}
        elif plan.output is not None and ended is not None:
            body["result"] = ended.result
            refs = manifest.schemas.validator(plan.output).refs(ended.result)
        seq = self.record("plan_ended", body, cause, refs)
        module = self.manifest.modules.get(self.state.unit.module)
        if error and module is not None and "sys/PlanFailed@1" in module.arms:
            value = {
                "plan": instance.plan,
                "plan_id": plan_id,
                "correlation": instance.correlation,
                "code": error[0],
                "message": error[1],
            }
            wrapped = {"$tag": module.arms["sys/PlanFailed@1"], "$value": value}
            self.tasks.append(lambda: self.reduce(module.event, wrapped, seq))

    def manifest_of(self, ref: Ref) -> Manifest:
        """The manifest that an open plan started under; a newer one does not change it (architecture.md 2, rule 7)."""
        if ref == self.manifest.ref:
            return self.manifest
        if ref not in self.blobs:
            raise MissingBlob(ref)
        return Manifest.load(self.blobs[ref], self.manifest.reducers)

    # -- effects ------------------------------------------------------------------------------------------------------

    def emit_effect(
        self, intent_id: bytes, kind: str, grant: str, params: Any, origin: Mapping[str, Any], cause: int
    ) -> None:
        """Admit an effect and record the intent; or record the denial and answer it at once."""
        effect = self.manifest.effects.get(kind)
        if effect is None:
            self.deny(intent_id, kind, origin, cause, _failed("unknown_effect", f"There is no effect {kind}."))
            return
        validator = self.manifest.schemas.validator(effect.params)
        try:
            params = validator.normalise(params)
        except InvalidValue as error:
            self.deny(intent_id, kind, origin, cause, _failed("effect_params_invalid", str(error)))
            return
        stamp = self.ingress.stamp
        admission = admit(self.manifest, effect, params, grant, origin, now_ns=stamp.time_ns, actor=stamp.actor)
        if admission.verdict == "deny":
            answer = _failed(admission.code, admission.message)
            self.deny(intent_id, kind, origin, cause, answer, admission.to_node())
            return
        approval = None
        if admission.verdict == "require_approval":
            if params["call_ref"] not in self.blobs:
                raise MissingBlob(params["call_ref"])
            approval = question(self.manifest, params, self.blobs[params["call_ref"]], stamp)
        body = {"id": intent_id, "kind": kind, "grant": grant, "origin": dict(origin), "params": params}
        body |= {"admitted": admission.to_node()} | ({"approval": approval} if approval else {})
        seq = self.record("intent", body, cause, validator.refs(params))
        intent = _OpenIntent(intent_id, seq, kind, params, grant, origin, stamp.actor, self.manifest.ref, approval)
        self.state.intents[intent_id] = intent
        if approval is None:
            self.ready.append(intent)

    def deny(
        self,
        intent_id: bytes,
        kind: str,
        origin: Mapping[str, Any],
        cause: int,
        answer: Mapping[str, Any],
        why: Mapping[str, Any] | None = None,
    ) -> None:
        body = {"intent": intent_id, "kind": kind, "origin": dict(origin)}
        body |= why if why is not None else {"verdict": "deny", "by": "schema", **answer["payload"]}
        seq = self.record("decision", body, cause)
        self.deliver(intent_id, origin, answer, seq)

    def answer(self, intent: OpenIntent, result: Mapping[str, Any], seq: int) -> None:
        """Close an intent with its result."""
        del self.state.intents[intent.id]
        self.deliver(intent.id, intent.origin, result, seq)

    def deliver(self, intent_id: bytes, origin: Mapping[str, Any], result: Mapping[str, Any], seq: int) -> None:
        if origin["kind"] == "tool":
            self.answers.append((intent_id, result))
            parent = self.state.intents.get(origin["parent"])
            if parent is not None:
                request = replace(parent.requests[origin["ordinal"]], answer=result)
                requests = {**parent.requests, origin["ordinal"]: request}
                self.state.intents[parent.id] = replace(parent, requests=requests)
            return
        instance = self.state.plans.get(origin["id"])
        if instance is not None:
            if instance.id not in self.owned:
                instance = self.own(instance.copy())
            instance.receipts[intent_id] = result
            self.tasks.append(lambda: self.run_plan(instance.id, seq))


class _Port:
    """The kernel as a running plan sees it."""

    def __init__(self, step: _Run, manifest: Manifest, instance: PlanInstance, cause: int) -> None:
        self.step, self.manifest, self.instance, self.cause = step, manifest, instance, cause
        self.index = 0

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        unit = self.step.state
        self.index += 1
        digest = cbor.digest(params)
        identity = [unit.world, str(unit.unit), self.cause, self.instance.id, self.index, kind, digest, grant]
        intent_id = cbor.digest(identity)
        origin = {"id": self.instance.id, "kind": "plan", "name": self.instance.plan}
        self.step.emit_effect(intent_id, kind, grant, params, origin, self.cause)
        return intent_id

    def checked(self, schema: str, value: Any) -> Any:
        return self.manifest.schemas.validator(schema).normalise(value)

    def raise_event(self, schema: str, value: Any) -> None:
        manifest = self.step.manifest  # those who take the event live under it
        checked = manifest.schemas.validator(schema).normalise(value)
        self.step.check_events(1)
        self.step.raise_event(Emit(schema, checked), routed(manifest, schema, checked), self.cause)


def _field(value: Any, path: str) -> Any:
    """The field that a trigger correlates by; "" when the event has no such field."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if value is not None else ""


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"status": "error", "payload": {"code": code, "message": message}}
