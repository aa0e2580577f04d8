"""Settling doubts: a person's decision on an effect with an unknown outcome is recorded, then the units concerned are
told.

Settling takes two ingresses of the unit `sys/World@1/doubts`, because the ledger, which is not part of the journal,
changes between them. `doubt_decided` records what the person found out, before the ledger changes. `doubt_settled`
records that the ledger agrees, and sends `sys/DoubtSettled@1` to every unit whose call was in doubt and whose module
has an arm for that event. No effect is asked for, so nothing runs.
"""

from __future__ import annotations

from demiurge.world.kernel.step_context import StepContext
from demiurge.world.manifest.system import DOUBT_SETTLED
from demiurge.world.unit import Unit

__all__ = ["on_doubt_decided", "on_doubt_settled"]


def on_doubt_decided(step: StepContext) -> None:
    """Records what the person found out. Nothing is computed from the record."""
    step.record_ingress()


def on_doubt_settled(step: StepContext) -> None:
    """Records that the doubt is over, and tells the units that asked for the effect."""
    seq, name = step.record_ingress(), str(step.state.unit)
    for recipient in step.ingress.body["told"]:
        unit = Unit.parse(recipient["unit"])
        module = step.manifest.modules.get(unit.module)
        tag = module.arms.get(DOUBT_SETTLED) if module is not None else None
        if module is not None and tag is not None:
            value = {"$tag": tag, "$value": recipient["value"]}
            step.send(seq, unit, module.event, value, {"unit": name, "seq": seq, "index": len(step.sent)})
