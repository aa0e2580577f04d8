"""World plans: small step graphs that turn an intent event into effects and their receipts into events.

A plan is data. `run` moves one instance as far as it can go and makes its requests through a `PlanPort`; it does no
I/O. An effect's receipt is bound as `{status, payload}`, so a plan sees failures. Any fault inside a plan ends the plan
with a recorded error.

A step begins when all steps before it are done or skipped and one of its incoming edges is open. An edge is open when
its source step was *done* and its guard holds; a step without an open edge is skipped. So a branch that is not taken is
skipped to its end without repeating its guard, and the steps after the branches run if one branch did. Each step is
decided on once: a variable that changes while the step waits does not change the decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref
from demiurge.world.expr import ExpressionError, evaluate, parse_ref, references

__all__ = ["BOUND", "Edge", "Ended", "PlanInstance", "PlanPort", "WorldPlan", "offer_event", "parse_plan", "run"]

BOUND = {"emit_effect": "effect_id_as", "await_receipt": "as", "await_event": "as", "assign": "as"}
"""The field of `bind` that names the variable an op sets."""

EFFECTS_PER_MOVE = 64
"""The most effects that an instance may ask for between two ingresses."""

MAX_VALUE = 1 << 20
MAX_DEPTH = 64
"""Limits of a value that a step binds, emits or raises: its size (bytes of its texts, and one for each of its parts)
and its nesting."""


class Edge(NamedTuple):
    source: str
    target: str
    when: Any = True


class Invariant(NamedTuple):
    """A condition that must hold as soon as all the variables (`vars`) and steps that it reads are set."""

    condition: Any
    vars: frozenset[str]
    steps: frozenset[str]


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """A plan's definition, parsed. `steps` are in declaration order; `incoming` holds the edges into each step;
    `read_steps` are the steps that a `@step:` ref names, whose values are kept."""

    name: str
    input: str
    output: str | None
    locals: Mapping[str, str]
    steps: Mapping[str, Mapping[str, Any]]
    incoming: Mapping[str, tuple[Edge, ...]]
    invariants: tuple[Invariant, ...]
    read_steps: frozenset[str]


def parse_plan(definition: Mapping[str, Any]) -> WorldPlan:
    """Parses a `defplan` definition. Raises InvalidValue if two steps have one id."""
    edges = tuple(Edge(e["from"], e["to"], e.get("when", True)) for e in definition.get("edges", ()))
    steps = {step["id"]: step for step in definition["steps"]}
    if len(steps) != len(definition["steps"]):
        raise InvalidValue(f"{definition['name']} has two steps with one id", code="bad_manifest")
    conditions = definition.get("invariants", ())
    expressions = [*conditions, *(edge.when for edge in edges), *(e for step in steps.values() for e in _parts(step))]
    return WorldPlan(
        definition["name"],
        definition["input"],
        definition.get("output"),
        definition.get("locals", {}),
        steps,
        {step_id: tuple(e for e in edges if e.target == step_id) for step_id in steps},
        tuple(Invariant(c, _named([c], "var:"), _named([c], "step:")) for c in conditions),
        _named(expressions, "step:"),
    )


def _parts(step: Mapping[str, Any]) -> list[Any]:
    """Returns a step's expressions."""
    return [step[name] for name in ("params", "where", "value", "expr", "result", "budget") if name in step]


def _named(expressions: Sequence[Any], prefix: str) -> frozenset[str]:
    """Returns the names in those refs of the expressions whose head begins with `prefix`, without the prefix."""
    heads = (parse_ref(path)[0] for expression in expressions for path in references(expression))
    return frozenset(head.removeprefix(prefix) for head in heads if head.startswith(prefix))


@dataclass(slots=True)
class PlanInstance:
    """One run of a plan.

    `done` holds finished steps, `skipped` the steps that were not taken, `begun` guarded steps that have begun and
    wait. `receipts` holds the receipts that came in, by intent; `waits` the event that each open `await_event` wants;
    `results` the values of steps that a `@step:` ref names. `run` is the id of the counted run that the instance
    belongs to, if any.
    """

    id: int
    plan: str
    manifest: Ref
    cause: int
    input: Any
    correlation: str
    vars: dict[str, Any] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    receipts: dict[bytes, Any] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    waits: dict[str, str] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    run: int | None = None

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
            set(self.skipped),
            set(self.begun),
            dict(self.waits),
            dict(self.results),
            self.run,
        )

    def to_node(self) -> dict[str, Any]:
        """Returns the instance as plain data. Rarely used fields are left out when empty."""
        node: dict[str, Any] = {
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
        rare = {
            "skipped": sorted(self.skipped),
            "begun": sorted(self.begun),
            "waits": self.waits,
            "results": self.results,
        }
        node |= {name: value for name, value in rare.items() if value}
        return node | ({"run": self.run} if self.run is not None else {})

    @classmethod
    def from_node(cls, node: Mapping[str, Any]) -> PlanInstance:
        sets = {name: set(node.get(name, ())) for name in ("done", "skipped", "begun")}
        return cls(**{**node, **sets, "receipts": dict(node["receipts"])})


class PlanPort(Protocol):
    """The services of the kernel for a running plan."""

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        """Asks for an effect. Returns the intent's id; its receipt arrives in `receipts`."""

    def raise_event(self, schema: str, value: Any, budget: Any = None) -> None:
        """Raises an event. `budget` is the share of this run's budget that the event takes to another unit, as an
        `Allowance` in JSON."""

    def checked(self, schema: str, value: Any) -> Any:
        """Returns the normal form of one of the plan's values. Raises InvalidValue."""


class Ended(NamedTuple):
    """The end of a plan; `result` is the value of its `end` step."""

    result: Any


class InvariantViolation(ExpressionError):
    """An invariant of the plan does not hold."""

    code = "invariant_violation"


def run(plan: WorldPlan, instance: PlanInstance, port: PlanPort) -> Ended | None:
    """Moves `instance` until it waits (returns None) or ends. Raises ExpressionError, InvalidValue, and whatever `port`
    raises."""
    emitted = 0
    _check_invariants(plan, instance)
    while True:
        settled = len(instance.done) + len(instance.skipped)
        for step_id in _ready(plan, instance):
            step = plan.steps[step_id]
            if step["op"] == "end":
                return _end(plan, instance, step, port)
            emitted += step["op"] == "emit_effect"
            if emitted > EFFECTS_PER_MOVE:
                raise ExpressionError(f"the plan asks for more than {EFFECTS_PER_MOVE} effects at once")
            if _take(plan, instance, step_id, step, port):
                _finish(plan, instance, step_id)
        total = len(instance.done) + len(instance.skipped)
        if total == len(plan.steps):
            return _end(plan, instance, {}, port)
        if total == settled:
            return None


def offer_event(plan: WorldPlan, instance: PlanInstance, offers: Sequence[tuple[str, Any]], port: PlanPort) -> bool:
    """Offers an event to waiting steps, as pairs of a step's id and the event's value. Returns whether a step took it.

    Raises ExpressionError if a `where` has no value or is not a bool.
    """
    taken = False
    for step_id, value in offers:
        step = plan.steps[step_id]
        if step_id in instance.waits and _is_true(
            step.get("where", True), {**_environment(instance), "event": value}, f"{step_id}'s where"
        ):
            del instance.waits[step_id]
            _bind(plan, instance, step, value, port)
            _finish(plan, instance, step_id)
            taken = True
    return taken


def _ready(plan: WorldPlan, instance: PlanInstance) -> list[str]:
    """Returns the steps that may run now, effects first, in declaration order. Marks steps that can never run as
    skipped."""
    effects: list[str] = []
    others: list[str] = []
    done, skipped = instance.done, instance.skipped
    for step_id, edges in plan.incoming.items():
        if step_id in done or step_id in skipped:
            continue
        if step_id not in instance.begun:
            if not all(edge.source in done or edge.source in skipped for edge in edges):
                continue
            if edges and not any(_is_open(edge, instance) for edge in edges):
                skipped.add(step_id)
                continue
            if any(edge.when is not True for edge in edges):
                instance.begun.add(step_id)
        (effects if plan.steps[step_id]["op"] == "emit_effect" else others).append(step_id)
    return effects + others


def _is_open(edge: Edge, instance: PlanInstance) -> bool:
    if edge.source in instance.skipped:
        return False
    return edge.when is True or _is_true(edge.when, _environment(instance), f"the guard {edge.source} -> {edge.target}")


def _is_true(condition: Any, env: Mapping[str, Any], what: str) -> bool:
    value = evaluate(condition, env)
    if type(value) is not bool:
        raise ExpressionError(f"{what} is not a bool")
    return value


def _environment(instance: PlanInstance) -> dict[str, Any]:
    return {"input": instance.input, "vars": instance.vars, "steps": instance.results}


def _take(plan: WorldPlan, instance: PlanInstance, step_id: str, step: Mapping[str, Any], port: PlanPort) -> bool:
    """Performs one ready step. Returns False if the step still waits."""
    env = _environment(instance)
    match step["op"]:
        case "emit_effect":
            intent = port.emit_effect(step["kind"], step["cap"], _bounded(evaluate(step["params"], env)))
            _bind(plan, instance, step, intent, port)
        case "await_receipt":
            intent = evaluate(step["for"], env)
            if type(intent) is not bytes:
                raise ExpressionError(f"{step_id} awaits what is no effect")
            if intent not in instance.receipts:
                return False
            _bind(plan, instance, step, instance.receipts[intent], port)
        case "await_event":
            instance.waits.setdefault(step_id, step["event"])
            return False
        case "raise_event":
            share = [_bounded(evaluate(step["budget"], env))] if "budget" in step else []
            port.raise_event(step["event"], _bounded(evaluate(step["value"], env)), *share)
        case "assign":
            _bind(plan, instance, step, _bounded(evaluate(step["expr"], env)), port)
    return True


def _bind(plan: WorldPlan, instance: PlanInstance, step: Mapping[str, Any], value: Any, port: PlanPort) -> None:
    name = step["bind"][BOUND[step["op"]]]
    if name in plan.locals:
        value = port.checked(plan.locals[name], value)
    instance.vars[name] = value
    if step["id"] in plan.read_steps:
        instance.results[step["id"]] = value


def _finish(plan: WorldPlan, instance: PlanInstance, step_id: str) -> None:
    instance.done.add(step_id)
    instance.begun.discard(step_id)
    _check_invariants(plan, instance)


def _check_invariants(plan: WorldPlan, instance: PlanInstance) -> None:
    """Raises InvariantViolation if one of the plan's invariants does not hold."""
    for number, (condition, names, steps) in enumerate(plan.invariants):
        is_judged = names <= instance.vars.keys() and steps <= instance.results.keys()
        if is_judged and not _is_true(condition, _environment(instance), f"invariant {number}"):
            raise InvariantViolation(f"invariant {number} does not hold")


def _end(plan: WorldPlan, instance: PlanInstance, step: Mapping[str, Any], port: PlanPort) -> Ended:
    """Ends the plan at the step `step`, or with an empty `step` because no step is left."""
    if plan.output is None:
        return Ended(None)
    if "result" not in step:
        raise ExpressionError("the plan came to its end without a result")
    return Ended(port.checked(plan.output, _bounded(evaluate(step["result"], _environment(instance)))))


_TEXTS = frozenset([str, bytes])
_KEYS = frozenset([str, bytes, int])


def _bounded(value: Any) -> Any:
    """Returns `value`, which a step makes, if a record can hold it. Raises ExpressionError if it is too large or too
    deep, or if a map in it has keys that are no text, whole number or bytes."""
    left = MAX_VALUE
    todo: list[Iterator[Any]] = [iter((value,))]
    while todo:
        part = next(todo[-1], todo)
        if part is todo:
            todo.pop()
            continue
        left -= 1
        if isinstance(part, str | bytes):
            left -= len(part)
        elif isinstance(part, Mapping):
            if not _KEYS.issuperset(map(type, part)):
                raise ExpressionError("a map has a key that is no text, whole number or bytes")
            left -= sum(len(key) for key in part if isinstance(key, str))
            todo.append(iter(part.values()))
        elif isinstance(part, list) and _TEXTS.issuperset(map(type, part)):  # usually many addresses: a shortcut
            left -= len(part) + sum(map(len, part))
        elif isinstance(part, Sequence):
            todo.append(iter(part))
        if left < 0 or len(todo) > MAX_DEPTH:
            raise ExpressionError("a value is too large or nested too deep")
    return value
