"""Events within a unit: which plans and which reducer take an event, and what the reducer makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.fast_constructor import fast_constructor
from demiurge.world.authority.admission import decide_tool
from demiurge.world.cell import apply_step, own_copy
from demiurge.world.kernel.budgets import Overdrawn, check_shares, lend
from demiurge.world.kernel.intents import granted, request_effects
from demiurge.world.kernel.step_context import MESSAGE, Reduce, RunPlan, StepContext
from demiurge.world.kernel.taint import carried, tainted_by
from demiurge.world.plan import PlanInstance
from demiurge.world.reducer import Emit, MissingBlob, ReducerContext
from demiurge.world.routing import routed
from demiurge.world.unit import Unit

__all__ = ["consume", "raise_event", "reduce"]

_Context = fast_constructor(ReducerContext)


def raise_event(
    step: StepContext, emit: Emit, target: tuple[Unit, str, Any] | None, cause: int, run: int | None
) -> None:
    """Records an event that this unit emitted, and takes it or sends it to the unit that it is routed to.

    Its value is already normalised, its route known and its budget checked, so nothing can fail any more.
    """
    step.events += 1
    body = {"value": emit.value, "schema": emit.schema}
    if emit.budget is not None:
        body["budget"] = emit.budget.to_json()
    refs = step.manifest.schemas.validator(emit.schema).refs(emit.value)
    seq = step.record("event", body, cause, refs)
    if target is not None and target[0] != step.state.unit:
        unit, schema, value = target
        sender = {"unit": str(step.state.unit), "seq": seq, "index": len(step.sent), **lend(step, emit, unit, seq, run)}
        sender |= carried(step, run)
        step.send(seq, unit, schema, value, sender)
        return
    schema, value = (target[1], target[2]) if target is not None else (emit.schema, emit.value)
    consume(step, schema, value, seq, run)


def consume(step: StepContext, schema: str, value: Any, seq: int, run: int | None) -> None:
    """Offers the event to waiting plans, starts the plans that it triggers, then queues it for the unit's reducer.

    An event of the module counts under the module's event schema, and an arm of it also under the arm's schema.
    """
    module = step.manifest.modules.get(step.state.unit.module)
    by_schema = {schema: value}
    if module is not None and schema == module.event and module.tags and value["$tag"] in module.tags:
        by_schema[module.tags[value["$tag"]]] = value["$value"]
    for instance in step.state.plans.values():
        if instance.waits:
            _offer(step, instance, by_schema, seq)
    for form, part in by_schema.items():
        for trigger in step.manifest.triggers.get(form, ()):
            _start_plan(step, trigger.plan, trigger.correlate_by, part, seq, run)
    if module is not None and schema == module.event:
        step.tasks.append(Reduce(value, seq, run))


def _offer(step: StepContext, instance: PlanInstance, by_schema: Mapping[str, Any], cause: int) -> None:
    """Queues an offer of this event, under each schema that it counts under, to the steps of a plan that wait for it
    now."""
    offers = [(step_id, by_schema[want]) for step_id, want in instance.waits.items() if want in by_schema]
    if offers:
        step.tasks.append(RunPlan(instance.id, cause, offers))


def _start_plan(
    step: StepContext, name: str, correlate_by: str | None, value: Any, cause: int, run: int | None
) -> None:
    correlation = _field(value, correlate_by) if correlate_by else ""
    plan_id, step.state.next_plan = step.state.next_plan, step.state.next_plan + 1
    variables = {"correlation_id": correlation}
    step.state.plans[plan_id] = PlanInstance(
        plan_id, name, step.manifest.ref, cause, value, str(correlation), variables, run=run
    )
    step.tasks.append(RunPlan(plan_id, cause))


def _field(value: Any, path: str) -> Any:
    """Returns the field that a trigger correlates by; "" if the event has no such field."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if value is not None else ""


def reduce(step: StepContext, value: Any, cause: int, run: int | None) -> None:
    """Runs the unit's reducer on an event, raises the events that it emits, and asks for its effects."""
    module = step.manifest.modules[step.state.unit.module]
    stamp, tainted = step.ingress.stamp, bool(tainted_by(step, run))
    context = _Context(
        stamp=stamp,
        key=step.state.unit.key,
        origin=step.origin_of(cause),
        settings=step.manifest.settings,
        decide_tool=lambda tool: (
            decide_tool(step.manifest, tool, caller=stamp.caller, now_ns=stamp.time_ns, tainted=tainted).verdict
        ),
        blobs=step.blobs,
        cause=cause,
        toolset=step.manifest.toolset,
        schemas=step.manifest.schemas,
        sender=step.sender_of(cause),
    )
    try:
        change = step.manifest.reducers[module.name].reduce(own_copy(step.state.cell), own_copy(value), context)
        cell, emitted, digest = apply_step(step.manifest.schemas, module.state, step.state.cell, change)
        if change.blobs:
            step.check_blobs(change.blobs)
        requested = granted(step, module, change.effects) if change.effects else ()
        sent = _targeted(step, emitted, run)
    except InvalidValue as error:
        code = error.code if isinstance(error, Overdrawn) else "invalid_step"
        _step_failed(step, code, str(error)[:MESSAGE], value, cause, run)
        return
    except (MissingBlob, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - any fault of a reducer is a recorded outcome
        _step_failed(step, "reducer_failed", type(error).__name__, value, cause, run)
        return
    step.state.cell = cell
    refs = [step.keep(blob) for blob in change.blobs] if change.blobs else ()
    seq = step.record("step", {"digest": digest}, cause, refs)
    for emit, target in sent:
        raise_event(step, emit, target, seq, run)
    request_effects(step, module, requested, seq, run)


def _targeted(
    step: StepContext, emitted: Sequence[Emit], run: int | None
) -> list[tuple[Emit, tuple[Unit, str, Any] | None]]:
    """Returns the events of a step, each with its route. Raises InvalidValue if one of them may not be sent."""
    step.check_events(len(emitted))
    sent = [(emit, routed(step.manifest, emit.schema, emit.value)) for emit in emitted]
    check_shares(step, run, sent)
    return sent


def _step_failed(step: StepContext, code: str, message: str, value: Any, cause: int, run: int | None) -> None:
    """Records that a step failed, and tells the module once, so that nothing waits forever for the step."""
    body = {"code": code, "message": message}
    seq = step.record("step", {"error": body}, cause)
    module = step.manifest.modules[step.state.unit.module]
    tag = module.arms.get("sys/StepFailed@1")
    if tag is not None and value.get("$tag") != tag and step.origin_of(cause) != "external":
        step.tasks.append(Reduce({"$tag": tag, "$value": body}, seq, run))
