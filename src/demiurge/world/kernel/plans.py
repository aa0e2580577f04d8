"""The plans of a unit: how the kernel moves them on, and the port through which a running plan calls the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demiurge.errors import DemiurgeError
from demiurge.tools.limits.allowance import Allowance
from demiurge.values import cbor
from demiurge.values.refs import Ref
from demiurge.world.expr import ExpressionError
from demiurge.world.kernel.budgets import Overdrawn, check_shares
from demiurge.world.kernel.events import raise_event
from demiurge.world.kernel.intents import emit_effect
from demiurge.world.kernel.step_context import MESSAGE, Reduce, StepContext
from demiurge.world.manifest import Manifest
from demiurge.world.plan import Ended, PlanInstance, offer_event, run
from demiurge.world.reducer import Emit, MissingBlob
from demiurge.world.routing import routed

__all__ = ["run_plan"]


def run_plan(step: StepContext, plan_id: int, cause: int, offers: Sequence[tuple[str, Any]] | None = None) -> None:
    """Moves a plan on. Any fault in it ends the plan with a record that the unit's reducer can see.

    With `offers` (see `offer_event`) the plan moves only if one of its steps takes an offer.
    """
    instance = step.state.plans.get(plan_id)
    if instance is None:
        return
    instance = step.own(instance)
    manifest = _manifest_of(step, instance.manifest)
    plan, port = manifest.plans[instance.plan], _Port(step, manifest, instance, cause)
    try:
        if offers is not None and not offer_event(plan, instance, offers, port):
            return
        ended = run(plan, instance, port)
    except (ExpressionError, DemiurgeError) as problem:
        code = problem.code if isinstance(problem, ExpressionError | Overdrawn) else "plan_failed"
        _failed(step, instance, code, str(problem)[:MESSAGE], cause)
        return
    except Exception as error:  # noqa: BLE001 - any fault of a user's plan is a recorded outcome
        _failed(step, instance, "plan_failed", type(error).__name__, cause)
        return
    if ended is not None:
        _record_end(step, manifest, instance, ended, cause)


def _record_end(step: StepContext, manifest: Manifest, instance: PlanInstance, ended: Ended, cause: int) -> None:
    del step.state.plans[instance.id]
    output = manifest.plans[instance.plan].output
    result = {"result": ended.result} if output is not None else {}
    refs = manifest.schemas.validator(output).refs(ended.result) if output is not None else ()
    step.record("plan_ended", {"id": instance.id, "plan": instance.plan, "status": "ok", **result}, cause, refs)


def _failed(step: StepContext, instance: PlanInstance, code: str, message: str, cause: int) -> None:
    del step.state.plans[instance.id]
    why = {"code": code, "message": message}
    body = {"id": instance.id, "plan": instance.plan, "status": "error", **why}
    seq = step.record("plan_ended", body, cause)
    module = step.manifest.modules.get(step.state.unit.module)
    if module is not None and "sys/PlanFailed@1" in module.arms:
        value = {"plan": instance.plan, "plan_id": instance.id, "correlation": instance.correlation, **why}
        event = {"$tag": module.arms["sys/PlanFailed@1"], "$value": value}
        step.tasks.append(Reduce(event, seq, instance.run))


def _manifest_of(step: StepContext, ref: Ref) -> Manifest:
    """Returns the manifest that an open plan started under; a newer one does not change the plan (docs/architecture.md,
    rule 7)."""
    if ref == step.manifest.ref:
        return step.manifest
    if ref not in step.blobs:
        raise MissingBlob(ref)
    return Manifest.load(step.blobs[ref], step.manifest.reducers)


class _Port:
    def __init__(self, step: StepContext, manifest: Manifest, instance: PlanInstance, cause: int) -> None:
        self.step, self.manifest, self.instance, self.cause = step, manifest, instance, cause
        self.index = 0

    def emit_effect(self, kind: str, grant: str, params: Any) -> bytes:
        unit = self.step.state
        self.step.check_effects(1)
        self.index += 1
        digest = cbor.digest(params)
        identity = [unit.world, str(unit.unit), self.cause, self.instance.id, self.index, kind, digest, grant]
        intent_id = cbor.digest(identity)
        origin = {"id": self.instance.id, "kind": "plan", "name": self.instance.plan}
        emit_effect(self.step, intent_id, kind, grant, params, origin, self.cause, self.instance.run)
        return intent_id

    def checked(self, schema: str, value: Any) -> Any:
        return self.manifest.schemas.validator(schema).normalise(value)

    def raise_event(self, schema: str, value: Any, budget: Any = None) -> None:
        manifest, run = self.step.manifest, self.instance.run  # the takers of the event run under this manifest
        checked = manifest.schemas.validator(schema).normalise(value)
        emit = Emit(schema, checked, Allowance.from_json(budget) if budget is not None else None)
        target = routed(manifest, schema, checked)
        self.step.check_events(1)
        check_shares(self.step, run, [(emit, target)])
        raise_event(self.step, emit, target, self.cause, run)
