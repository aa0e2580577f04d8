"""`timer.set`: its parameters. A grant of type `timer` has no parameters and covers every time."""

from __future__ import annotations

from typing import Final

from demiurge.tools.capabilities import Timer
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind
from demiurge.world.effect_kinds.types import NAT, TEXT, option, record

__all__ = ["TIMER"]

TIMER: Final = EffectFamily(
    cap_type="timer",
    kinds=(
        EffectKind(
            name="timer.set",
            params=record(deliver_at_ns=NAT, key=option(TEXT)),
            receipt=record(delivered_at_ns=NAT, key=option(TEXT)),
            origins=("plan", "reducer", "tool"),
            typed_receipt="sys/TimerFired@1",
        ),
    ),
    grant=record(),
    adapter="demiurge.world.effects.timer:TimerEffects",
    restart="performed again, with the same key",
    capability=Capability(Timer, "demiurge.world.effects.timer:WorldTimer", "`wait_until(time_ns)`"),
)
