"""A person settles an effect whose outcome is unknown: the decision is recorded, then the units concerned are told.

Two ingresses of the unit `sys/World@1/doubts`, because the ledger, which is no part of the journal, changes between
them. `doubt_decided` says what the person found out, before the ledger changes. `doubt_settled` says that the ledger
agrees, and sends `sys/DoubtSettled@1` to every unit whose call was in doubt and whose module has an arm for that event.
No effect is asked for, so nothing runs.
"""

from __future__ import annotations

from demiurge.world.kernel.step_context import StepContext
from demiurge.world.manifest.system import DOUBT_SETTLED
from demiurge.world.unit import Unit

__all__ = ["on_doubt_decided", "on_doubt_settled"]


def on_doubt_decided(step: StepContext) -> None:
    """Record what the person found out; nothing is computed from it."""
    step.record_ingress()


def on_doubt_settled(step: StepContext) -> None:
    """Record that the doubt is over, and tell the units that asked for the effect."""
    seq, name = step.record_ingress(), str(step.state.unit)
    for told in step.ingress.body["told"]:
        unit = Unit.parse(told["unit"])
        module = step.manifest.modules.get(unit.module)
        tag = module.arms.get(DOUBT_SETTLED) if module is not None else None
        if module is not None and tag is not None:
            value = {"$tag": tag, "$value": told["value"]}
            step.send(seq, unit, module.event, value, {"unit": name, "seq": seq, "index": len(step.sent)})
