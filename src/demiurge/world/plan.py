"""Plans: small step graphs that turn an intent event into effects and their receipts into events.

A plan is data (seeds 000 and 001). `run` moves one instance as far as it can go and says what it wants through a
`PlanPort`; it does no I/O. An effect's receipt is bound as `{status, payload}`, so a plan sees failures; whatever goes
wrong inside a plan ends it with a recorded error (architecture.md 4).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref
from demiurge.world.expr import ExpressionError, evaluate

__all__ = ["Plan", "PlanInstance", "PlanPort", "parse_plan", "run"]

FIELDS: Mapping[str, tuple[str, ...]] = {
    "emit_effect": ("kind", "params", "cap", "bind"),
    "await_receipt": ("for", "bind"),
    "raise_event": ("event", "value"),
    "assign": ("expr", "bind"),
    "end": (),
}
"""What a step of each op has to have."""

BOUND = {"emit_effect": "effect_id_as", "await_receipt": "as", "assign": "as"}
"""The field of `bind` that names the variable an op sets."""


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    when: Any = True


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` in declaration order; `incoming` holds the edges into each step."""

    name: str
    input: str
    steps: Mapping[str, Mapping[str, Any]]
    incoming: Mapping[str, tuple[Edge, ...]]
    edges: tuple[Edge, ...]

    def problems(self, *, effects: Container[str], grants: Container[str], schemas: Container[str]) -> Iterator[str]:
        """What does not resolve, one sentence each."""
        if self.input not in schemas:
            yield f"{self.name}: there is no schema {self.input}"
        for step_id, step in self.steps.items():
            for problem in _step_problems(step, effects, grants, schemas, self._handles()):
                yield f"{self.name}.{step_id}: {problem}"
        for edge in self.edges:
            if edge.source not in self.steps or edge.target not in self.steps:
                yield f"{self.name}: edge {edge.source} -> {edge.target} names no step"
        if not self._acyclic():
            yield f"{self.name}: its edges run in a circle"

    def _handles(self) -> set[str]:
        """References to the effects that this plan emits."""
        emitting = [step for step in self.steps.values() if step.get("op") == "emit_effect"]
        return {f"@var:{step['bind'].get('effect_id_as')}" for step in emitting if "bind" in step}

    def _acyclic(self) -> bool:
        done: set[str] = set()
        while True:
            free = {s for s in self.steps if s not in done and all(e.source in done for e in self.incoming[s])}
            if not free:
                return len(done) == len(self.steps) or any(e.source not in self.steps for e in self.edges)
            done |= free


def parse_plan(definition: Mapping[str, Any]) -> Plan:
    """A plan from its `defplan` definition. Raises InvalidValue for two steps with one id."""
    edges = tuple(Edge(e["from"], e["to"], e.get("when", True)) for e in definition.get("edges", ()))
    steps = {step["id"]: step for step in definition["steps"]}
    incoming = {step_id: tuple(e for e in edges if e.target == step_id) for step_id in steps}
    if len(steps) != len(definition["steps"]):
        raise InvalidValue(f"{definition['name']} has two steps with one id", code="bad_manifest")
    return Plan(definition["name"], definition["input"], steps, incoming, edges)


def _step_problems(
    step: Mapping[str, Any],
    effects: Container[str],
    grants: Container[str],
    schemas: Container[str],
    handles: set[str],
) -> Iterator[str]:
    op = str(step.get("op"))
    if op not in FIELDS:
        yield f"unknown op {op!r}"
        return
    missing = [name for name in FIELDS[op] if name not in step]
    if op in BOUND and BOUND[op] not in step.get("bind", {}):
        missing.append(f"bind.{BOUND[op]}")
    if missing:
        yield f"{', '.join(missing)} is missing"
        return
    if op == "emit_effect" and step["kind"] not in effects:
        yield f"there is no effect {step['kind']}"
    if op == "emit_effect" and step["cap"] not in grants:
        yield f"there is no grant {step['cap']}"
    if op == "raise_event" and step["event"] not in schemas:
        yield f"there is no schema {step['event']}"
    if op == "await_receipt" and step["for"] not in [{"ref": handle} for handle in handles]:
        yield "it awaits no effect of this plan"


@dataclass(slots=True)
class PlanInstance:
    """One run of a plan. `done` holds finished and skipped steps; `receipts` those that came in, by intent."""

    id: int
    plan: str
    manifest: Ref
    cause: int
    input: Any
    correlation: str
    vars: dict[str, Any] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    receipts: dict[bytes, Any] = field(default_factory=dict)

    def copy(self) -> PlanInstance:
        return PlanInstance(
            self.id,
            self.plan,
            self.manifest,
            self.cause,
            self.input,
            self.correlation,
            dict(self.vars),
            set(self.done),
            dict(self.receipts),
        )

    def to_node(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "plan": self.plan,
            "manifest": self.manifest,
            "cause": self.cause,
            "input": self.input,
            "correlation": self.correlation,
            "vars": self.vars,
            "done": sorted(self.done),
            "receipts": [[intent, result] for intent, result in sorted(self.receipts.items())],
        }


class PlanPort(Protocol):
    """What the kernel does for a running plan."""

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        """Ask for an effect; the answer is the intent's id, whose receipt arrives in `receipts`."""

    def raise_event(self, schema: str, value: Any) -> None: ...


def run(plan: Plan, instance: PlanInstance, port: PlanPort) -> bool:
    """Move `instance` until it waits or ends; True when it has ended. Raises ExpressionError."""
    while True:
        ready = [step_id for step_id in plan.steps if _ready(plan, instance, step_id)]
        ready.sort(key=lambda step_id: plan.steps[step_id]["op"] != "emit_effect")
        moved = False
        for step_id in ready:
            step = plan.steps[step_id]
            if step["op"] == "end":
                return True
            if _take(step, instance, port):
                instance.done.add(step_id)
                moved = True
        if len(instance.done) == len(plan.steps):
            return True
        if not moved and not _skip(plan, instance):
            return False


def _settled(plan: Plan, instance: PlanInstance, step_id: str) -> bool:
    done = instance.done
    if step_id in done:
        return False
    for edge in plan.incoming[step_id]:
        if edge.source not in done:
            return False
    return True


def _open(edge: Edge, instance: PlanInstance) -> bool:
    if edge.when is True:
        return True
    value = evaluate(edge.when, _environment(instance))
    if type(value) is not bool:
        raise ExpressionError(f"the guard {edge.source} -> {edge.target} is not a bool")
    return value


def _ready(plan: Plan, instance: PlanInstance, step_id: str) -> bool:
    edges = plan.incoming[step_id]
    return _settled(plan, instance, step_id) and (not edges or any(_open(e, instance) for e in edges))


def _skip(plan: Plan, instance: PlanInstance) -> bool:
    """Mark steps whose guards are all false; True when there were any."""
    closed = [
        step_id
        for step_id, edges in plan.incoming.items()
        if edges and _settled(plan, instance, step_id) and not any(_open(e, instance) for e in edges)
    ]
    instance.done.update(closed)
    return bool(closed)


def _environment(instance: PlanInstance) -> dict[str, Any]:
    return {"input": instance.input, "vars": instance.vars}


def _take(step: Mapping[str, Any], instance: PlanInstance, port: PlanPort) -> bool:
    """Perform one ready step; False when it still waits."""
    env = _environment(instance)
    match step["op"]:
        case "emit_effect":
            params = evaluate(step["params"], env)
            instance.vars[step["bind"]["effect_id_as"]] = port.emit_effect(step["kind"], step["cap"], params)
        case "await_receipt":
            intent = evaluate(step["for"], env)
            if intent not in instance.receipts:
                return False
            instance.vars[step["bind"]["as"]] = instance.receipts[intent]
        case "raise_event":
            port.raise_event(step["event"], evaluate(step["value"], env))
        case "assign":
            instance.vars[step["bind"]["as"]] = evaluate(step["expr"], env)
    return True
