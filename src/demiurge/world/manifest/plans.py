"""Checks of a world plan before it runs: its graph, its references, and whether each value is set before it is read.

A mistake hides only checks that it makes meaningless. If a step cannot be read, or edges lead nowhere, the order of the
steps is unknown; then every reference is still looked up, but not checked for coming too early.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from demiurge.world.manifest.expressions import Scope, Type, bool_problems, expression_problems
from demiurge.world.manifest.fitting import fit_problems
from demiurge.world.manifest.known import Known
from demiurge.world.manifest.parts import origins_of
from demiurge.world.manifest.plan_forms import (
    Step,
    by_id,
    form_problems,
    is_edge,
    is_unnamed,
    listed,
    op_of,
    variable_of,
)
from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import did_you_mean
from demiurge.world.manifest.system import NOT_FROM_PLANS

__all__ = ["plan_problems"]

RECEIPT: Mapping[str, Any] = {"record": {"status": {"text": {}}, "payload": None}}
"""The type that `await_receipt` binds; the payload's type depends on the status."""


def plan_problems(definition: Mapping[str, Any], place: ManifestPlace, known: Known) -> Iterator[Problem]:
    """Yields the problems inside a world plan. Problems of the form of its own fields are reported elsewhere, and
    missing fields are skipped here."""
    yield from known.missing("schema", definition.get("input"), place.at("input"))
    yield from known.missing("schema", definition.get("output"), place.at("output"))
    steps = listed(definition, "steps")
    wrong: set[int] = set()
    for index, problem in form_problems(steps, place.at("steps")) if isinstance(definition.get("steps"), list) else ():
        wrong.add(index)
        yield problem
    graph = _Graph(definition, place, known, wrong)
    yield from graph.edge_problems()
    yield from graph.dead_steps()
    yield from graph.names()
    for index, step in enumerate(steps):
        if index not in wrong:
            yield from graph.step(step, place.at("steps", index))
    for index, edge in graph.edges:
        if edge.get("when", True) is not True and edge["to"] in graph.steps:
            yield from bool_problems(edge["when"], place.at("edges", index, "when"), graph.scope(edge["to"]))
    for index, condition in enumerate(listed(definition, "invariants")):
        yield from bool_problems(condition, place.at("invariants", index), graph.everything())
    yield from graph.derived()


class _Any(dict[str, Type]):
    """A set of names that cannot be known: it contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


class _Graph:
    """A world plan's steps and edges, and which steps come before which."""

    def __init__(
        self, definition: Mapping[str, Any], place: ManifestPlace, known: Known, wrong: Container[int]
    ) -> None:
        """`wrong` holds the indices of steps that cannot be read."""
        self.definition, self.place, self.known = definition, place, known
        self.name = str(definition.get("name"))
        self.input: Type = known.schemas.get(str(definition.get("input")))
        declared = definition.get("locals")
        self.locals: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {}
        steps, edges = listed(definition, "steps"), listed(definition, "edges")
        unread = [step for index, step in enumerate(steps) if index in wrong]
        self.all: list[Step] = [step for step in steps if isinstance(step, Mapping)]
        self.steps = by_id(self.all)
        self.types: dict[str, Type] = {step_id: self._type(step) for step_id, step in self.steps.items()}
        self.edges = [(index, edge) for index, edge in enumerate(edges) if is_edge(edge)]
        self.sources = self._sources()
        self.order = self._order()
        self.before = self._before()
        self.unread = bool(unread)
        leads_nowhere = any(edge[end] not in self.steps for _, edge in self.edges for end in ("from", "to"))
        has_circle = len(self.order) < len(self.steps)
        self.unordered = self.unread or len(self.edges) < len(edges) or leads_nowhere or has_circle
        """True if the order of the steps cannot be known."""
        self.unnamed = any(is_unnamed(step) for step in unread)
        """True if the names of the variables cannot be known."""

    def _sources(self) -> dict[str, list[str]]:
        """Returns, for each step, the steps from which an edge leads to it."""
        sources: dict[str, list[str]] = {step_id: [] for step_id in self.steps}
        for _, edge in self.edges:
            if edge["to"] in self.steps and edge["from"] in self.steps:
                sources[edge["to"]].append(edge["from"])
        return sources

    def _order(self) -> list[str]:
        """Returns the steps in an order in which each follows its sources; steps in a circle are left out."""
        order: list[str] = []
        done: set[str] = set()
        while free := [s for s in self.steps if s not in done and all(b in done for b in self.sources[s])]:
            order += free
            done.update(free)
        return order

    def _before(self) -> dict[str, set[str]]:
        """Returns, for each step in the order, all steps that come before it."""
        before: dict[str, set[str]] = {}
        for step_id in self.order:
            before[step_id] = {s for source in self.sources[step_id] for s in (source, *before[source])}
        return before

    def _circle(self) -> list[str]:
        """Returns the steps that run in circles: of the steps outside the order, those that lead to each other."""
        left = [step_id for step_id in self.steps if step_id not in self.order]
        while ends := [s for s in left if not any(s in self.sources[after] for after in left)]:
            left = [step_id for step_id in left if step_id not in ends]
        return left

    def _type(self, step: Step) -> Type:
        """Returns the type of the value that a step binds."""
        local = self.locals.get(variable_of(step) or "")
        if op_of(step) == "await_receipt":
            return RECEIPT
        schema = local if local is not None else step.get("event") if op_of(step) == "await_event" else None
        return {"ref": schema} if isinstance(schema, str) and schema in self.known.schemas else None

    # -- edges --------------------------------------------------------------------------------------------------------

    def edge_problems(self) -> Iterator[Problem]:
        seen: set[tuple[str, str]] = set()
        for index, edge in self.edges:
            at, ends = self.place.at("edges", index), (edge["from"], edge["to"])
            for name, step_id in zip(("from", "to"), ends, strict=True):
                if step_id not in self.steps:
                    fix = did_you_mean(step_id, self.steps, "name a step of this plan")
                    yield at.at(name).wrong(f"there is no step {step_id}", fix)
            if ends in seen:
                yield at.wrong(f"two edges lead from {ends[0]} to {ends[1]}", "join their guards with or")
            seen.add(ends)
            if edge.get("when") is False:
                yield at.at("when").wrong("this edge never opens", "leave the edge out")
            if op_of(self.steps.get(edge["from"], {})) == "end":
                yield at.wrong("an end has nothing after it", "leave the edge out")
        circle = self._circle()
        if circle:
            yield self.place.at("edges").wrong(f"{', '.join(circle)} run in a circle", "repeat work in the reducer")

    def dead_steps(self) -> Iterator[Problem]:
        """Yields a problem for each `end` that no edge leads to: it runs first, so steps that wait for others never
        run."""
        for index, step in enumerate(() if self.unordered else self.all):
            if step["op"] == "end" and not self.sources[step["id"]]:
                others = [s for s in self.steps if self.sources[s]]
                if others:
                    what = f"it ends the plan at once, so {', '.join(others)} can't be reached"
                    yield self.place.at("steps", index).wrong(what, "add edges that lead to it")

    # -- names --------------------------------------------------------------------------------------------------------

    def names(self) -> Iterator[Problem]:
        """Yields a problem for each handle that is bound twice, and for each local that no step sets."""
        handles: set[str] = set()
        for index, step in enumerate(listed(self.definition, "steps")):
            if not isinstance(step, Mapping):
                continue
            name = variable_of(step)
            at = self.place.at("steps", index, "bind")
            if name == "correlation_id":
                yield at.wrong("correlation_id is set by the trigger", "choose another name")
            if name in handles or (name and op_of(step) == "emit_effect" and name in self._set_by_others(step)):
                yield at.wrong(f"the handle {name} is bound twice", "give each effect its own handle")
            if op_of(step) == "emit_effect" and name is not None:
                handles.add(name)
        settable = {variable_of(s) for s in self.all if op_of(s) in ("assign", "await_event", "")}
        for name, schema in self.locals.items():
            at = self.place.at("locals", name)
            yield from self.known.missing("schema", schema, at)
            if name not in settable and not self.unnamed:
                yield at.wrong(f"no assign or await_event sets {name}", "leave it out")

    def _set_by_others(self, step: Step) -> set[str | None]:
        return {variable_of(other) for other in self.all if other is not step}

    def scope(self, step_id: str, event: Type = None, *, has_event: bool = False) -> Scope:
        """Returns the scope of expressions at the moment when `step_id` is about to begin."""
        before = self.all if self.unordered else [self.steps[s] for s in self.order if s in self.before[step_id]]
        all_names = frozenset(name for step in self.all if (name := variable_of(step)) is not None)
        return Scope(
            self.known.schemas,
            self.input,
            self._vars(before),
            self._bound(before),
            all_names,
            event,
            has_event,
        )

    def everything(self) -> Scope:
        """Returns the scope of an invariant."""
        return Scope(self.known.schemas, self.input, self._vars(self.all), self._bound(self.all))

    def _bound(self, steps: Sequence[Step]) -> dict[str, Type]:
        """Returns the ids of those of these steps that bind a value, with its type."""
        ids = (str(step.get("id")) for step in steps if variable_of(step) is not None)
        found = {step_id: self.types.get(step_id) for step_id in ids}
        return _Any(found) if self.unnamed else found

    def _vars(self, steps: Sequence[Step]) -> dict[str, Type]:
        """Returns the variables that these steps set, with their types if all agree."""
        found: dict[str, Type] = {"correlation_id": None}
        for step in steps:
            name = variable_of(step)
            if name is not None:
                made = self.types.get(str(step.get("id")))
                found[name] = made if found.get(name, made) == made else None
        return _Any(found) if self.unnamed else found

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, step: Step, place: ManifestPlace) -> Iterator[Problem]:
        scope = self.scope(step["id"])
        match step["op"]:
            case "emit_effect":
                yield from expression_problems(step["params"], place.at("params"), scope)
                yield from self._effect(step, place)
                yield from self._fits(step["params"], self._params(step), place.at("params"), scope)
                yield from self._secrets(step["params"], step, place.at("params"))
            case "await_receipt":
                yield from self._awaited(step, place.at("for"))
            case "await_event":
                yield from self.known.missing("schema", step["event"], place.at("event"))
                yield from self.known.never_comes(step["event"], place.at("event"))
                if "where" in step:
                    event = {"ref": step["event"]} if step["event"] in self.known.schemas else None
                    inside = self.scope(step["id"], event, has_event=True)
                    yield from bool_problems(step["where"], place.at("where"), inside)
                elif self.name in self.known.correlated:
                    fix = 'add a where, such as {"op": "eq", "args": [{"ref": "@event.FIELD"}, ...]}'
                    yield place.wrong("a plan that is correlated would take any event here", fix)
            case "raise_event":
                yield from self.known.missing("schema", step["event"], place.at("event"))
                if step["event"] in NOT_FROM_PLANS:
                    why, fix = NOT_FROM_PLANS[step["event"]]
                    yield place.at("event").wrong(f"{step['event']} {why}", fix)
                yield from expression_problems(step["value"], place.at("value"), scope)
                yield from self._fits(step["value"], step["event"], place.at("value"), scope)
                if "budget" in step:
                    yield from expression_problems(step["budget"], place.at("budget"), scope)
            case "assign":
                yield from expression_problems(step["expr"], place.at("expr"), scope)
            case "end":
                if ("result" in step) != (self.definition.get("output") is not None):
                    fix = "leave it out or declare output" if "result" in step else "add it, or leave out output"
                    yield place.wrong("an end has a result exactly when the plan has an output", fix)
                yield from expression_problems(step.get("result"), place.at("result"), scope)

    def _params(self, step: Step) -> Any:
        """Returns the name of the schema of an effect's parameters."""
        effect = self.known.effects.get(step["kind"])
        return effect.get("params_schema") if effect is not None else None

    def _fits(self, expression: Any, schema: Any, place: ManifestPlace, scope: Scope) -> Iterator[Problem]:
        """Yields the parts of an expression that cannot be of the schema. An unknown schema and a malformed expression
        are reported elsewhere."""
        if (
            isinstance(schema, str)
            and schema in self.known.schemas
            and not any(expression_problems(expression, place, scope))
        ):
            yield from fit_problems(expression, {"ref": schema}, place, scope)

    def _effect(self, step: Step, place: ManifestPlace) -> Iterator[Problem]:
        effect = self.known.effects.get(step["kind"])
        if effect is None:
            fix = did_you_mean(step["kind"], self.known.effects, "define it")
            yield place.at("kind").wrong(f"there is no effect {step['kind']}", fix)
        elif (origins := origins_of(effect.get("origin_scope"))) and "plan" not in origins:
            who = " and ".join(f"{origin}s" for origin in sorted(origins))
            yield place.at("kind").wrong(f"{step['kind']} is for {who}", "let one of these ask for it")
        if step["cap"] not in self.known.grants:
            fix = did_you_mean(step["cap"], self.known.grants, "add it to defaults.cap_grants")
            yield place.at("cap").wrong(f"there is no grant {step['cap']}", fix)
        elif effect is not None:
            granted, wanted = self.known.grants[step["cap"]], effect.get("cap_type")
            if granted is not None and granted != wanted:
                what = f"the grant {step['cap']} is of type {granted}, and {step['kind']} needs {wanted}"
                yield place.at("cap").wrong(what, f"name a grant of type {wanted}")

    def _awaited(self, step: Step, place: ManifestPlace) -> Iterator[Problem]:
        effects = {i: s for i, s in self.steps.items() if op_of(s) in ("emit_effect", "")}
        handles = {f"@var:{variable_of(effect)}": step_id for step_id, effect in effects.items()}
        awaited = step["for"]
        name = awaited.get("ref") if isinstance(awaited, Mapping) and set(awaited) == {"ref"} else None
        if not isinstance(name, str) or (name not in handles and not self.unnamed):
            yield place.wrong("it awaits no effect of this plan", 'write {"ref": "@var:HANDLE"}')
        elif not self.unordered and handles[name] not in self.before[step["id"]]:
            yield place.wrong(
                "it awaits an effect that is not asked for before it", f"add an edge from {handles[name]}"
            )

    def _secrets(self, params: Any, step: Step, place: ManifestPlace) -> Iterator[Problem]:
        """Checks the secrets that the parameters of an effect name literally."""
        for alias, version in _named_secrets(params):
            name = f"{alias}@{version}"
            declared = self.known.names("defsecret")
            secret = declared.get(name) or declared.get(f"{alias}@*")
            if secret is None:
                fix = did_you_mean(name, declared, "define it with defsecret")
                yield place.wrong(f"there is no secret {name}", fix)
                continue
            for field, mine in (("allowed_caps", step["cap"]), ("allowed_plans", self.name)):
                allowed = secret.get(field)
                is_known = field == "allowed_plans" or mine in self.known.grants
                if isinstance(allowed, list) and is_known and mine not in allowed:
                    yield place.wrong(f"{mine} may not have the secret {name}", f"add it to the secret's {field}")

    def derived(self) -> Iterator[Problem]:
        """Compares `required_caps` and `allowed_effects` with the steps. Both follow from the steps, so an author who
        writes them wants to be told of a difference."""
        if self.unread:
            return
        emitting = [step for step in self.all if step["op"] == "emit_effect"]
        for field, own in (("required_caps", "cap"), ("allowed_effects", "kind")):
            used = sorted({step[own] for step in emitting})
            declared = self.definition.get(field)
            if (
                isinstance(declared, list)
                and all(isinstance(name, str) for name in declared)
                and sorted(set(declared)) != used
            ):
                yield self.place.at(field).wrong(
                    f"the steps say {', '.join(used) or 'none'}", "write these, or leave it out"
                )


def _named_secrets(expression: Any) -> Iterator[tuple[Any, Any]]:
    """Yields `(alias, version)` of each secret that an expression names literally."""
    if isinstance(expression, list):
        for part in expression:
            yield from _named_secrets(part)
    if not isinstance(expression, Mapping):
        return
    variant = expression.get("variant")
    if isinstance(variant, Mapping) and variant.get("tag") == "secret":
        value = variant.get("value")
        record = value.get("record") if isinstance(value, Mapping) else None
        if isinstance(record, Mapping):
            alias, version = _constant(record.get("alias")), _constant(record.get("version"))
            if isinstance(alias, str) and type(version) is int:
                yield alias, version
            return
    for part in expression.values():
        yield from _named_secrets(part)


def _constant(expression: Any) -> Any:
    if isinstance(expression, Mapping) and len(expression) == 1:
        return next((body for form, body in expression.items() if form in ("text", "nat", "int")), None)
    return expression
