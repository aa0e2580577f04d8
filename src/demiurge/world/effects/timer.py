"""`timer.set`: a receipt at a given time, which holds only the time.

The host holds the intent until then (`world.host.timers`), so no attempt begins earlier, a restart changes nothing, and
`settle` does not wait for it.
"""

from __future__ import annotations

from demiurge.values.clock import Clock
from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.effect_kinds.timer import TIMER
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent

__all__ = ["TimerEffects", "WorldTimer"]


class TimerEffects:
    """The adapter of `timer.set`."""

    kinds = TIMER.names

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @classmethod
    def bind(cls, parts: WorldParts) -> TimerEffects:
        return cls(parts.clock)

    def due_ns(self, intent: OpenIntent) -> int:
        due: int = intent.params["deliver_at_ns"]
        return due

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        return succeeded(delivered_at_ns=self._clock.now_ns(), key=call.intent.params["key"])


class WorldTimer:
    """The `Timer` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def wait_until(self, time_ns: int) -> int:
        found = await ask(self._call, "timer.set", deliver_at_ns=time_ns, key=None)
        return int(found["delivered_at_ns"])
