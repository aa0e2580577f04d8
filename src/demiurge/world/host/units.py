"""The units that are in memory: loaded when somebody turns to them, moved on by what they bring forth, and evicted when
they are idle and others are turned to.

An evicted unit is as one that this process never loaded: all of it is in the store. So nobody may keep a `LiveUnit`
across an `await`, except an effect that runs, which keeps its unit from being idle.

What an earlier process left open in a unit is taken up when the unit is awoken, so a process only works on what it was
asked about: it may lack the tools or the key that others need (docs/architecture.md, rule 3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from demiurge import faults
from demiurge.errors import DemiurgeError, NotFound
from demiurge.stores.protocol import Store
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.world.history.replay import Manifests
from demiurge.world.host.commit import Committer
from demiurge.world.host.dispatch import Dispatcher
from demiurge.world.host.live import LiveUnit, read_outgoing
from demiurge.world.host.loader import Loaded, Loader
from demiurge.world.host.timers import Sleep, Timers
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Sent
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["Units", "decision_id"]

KEPT_IDLE = 128
"""So many idle units stay in memory, those that were turned to last. They are counted when so many more were loaded."""

GRACE_S = 5.0
"""How long closing waits for a running effect that could not be repeated."""

HOST = "host"
"""Who answers a request for approval when its time is over."""


class Units:
    """`units[unit]` loads one; without `perform` intents are left to whoever starts next."""

    def __init__(
        self,
        store: Store,
        manifests: Manifests,
        committer: Committer,
        loader: Loader,
        dispatcher: Dispatcher,
        clock: Clock,
        stamp: Callable[[Caller], Stamp],
        notices: list[str],
        *,
        perform: bool,
        tail_bytes: int,
        sleep: Sleep,
    ) -> None:
        self._store, self._manifests, self._committer, self._loader = store, manifests, committer, loader
        self._dispatcher, self._stamp, self._notices = dispatcher, stamp, notices
        self._performs, self._tail_bytes = perform, tail_bytes
        self._timers = Timers(clock, sleep)
        self._known: dict[Unit, LiveUnit] = {}
        """Those that somebody turned to last come last."""
        self._evict_at = 2 * KEPT_IDLE

    def __iter__(self) -> Iterator[LiveUnit]:
        return iter(list(self._known.values()))

    def __getitem__(self, unit: Unit) -> LiveUnit:
        """The unit. Raises Damaged, Divergence, NotFound (`erased`: what it is can't be known)."""
        live = self._known.pop(unit, None)
        if live is None:
            loaded = self._load(unit)
            live = LiveUnit(
                loaded.state,
                loaded.tail,
                self._manifests,
                self._store,
                self._committer,
                self._loader,
                self._tail_bytes,
                self._publish,
                self.recover,
                snapshot_bytes=loaded.snapshot_bytes,
            )
            if len(self._known) >= self._evict_at:
                self._evict()
        self._known[unit] = live
        return live

    def _evict(self) -> None:
        """Lets go of idle units but for the last ones."""
        idle = [unit for unit, live in self._known.items() if live.is_idle]
        for unit in idle[: len(idle) - KEPT_IDLE]:
            del self._known[unit]
        self._evict_at = len(self._known) + KEPT_IDLE

    def known(self, unit: Unit) -> LiveUnit | None:
        """The unit, if it is in memory."""
        return self._known.get(unit)

    def durable(self, unit: Unit) -> UnitState:
        """The state of a unit as of its last durable record, without keeping it in memory. Raises as `[unit]` does."""
        live = self._known.get(unit)
        if live is not None and not live.is_moving and live.failure is None:
            return live.state
        return self._load(unit).state

    def _load(self, unit: Unit) -> Loaded:
        if str(unit) in self._store.damaged:
            raise self._store.damaged[str(unit)]
        loaded = self._loader.load(unit)
        if loaded.state.world != self._store.world_id:  # what is open in it may be done in its own
            raise NotFound(f"{unit} came with the fork as records alone: a blob was erased.", code="erased")
        return loaded

    def awake(self, unit: Unit) -> LiveUnit:
        """The unit, with what an earlier process left open in it taken up."""
        live = self[unit]
        if not live.awake:
            if live.failure is None:
                self._take_up(live)
            elif not live.is_moving:  # it may be older than what is durable
                self.recover(live)
            live.awake = True
        return live

    def unsettled(self) -> Iterator[Unit]:
        """Every unit in which something may still happen, in memory when it comes out; one that can't be read is told
        and left alone."""
        yield from list(self._known)
        for head in list(self._store.heads(open_only=True)):
            unit = Unit.parse(head.unit)
            try:
                self[unit]
            except DemiurgeError as error:
                self._notices.append(f"{unit} is left alone: {error}")
            else:
                yield unit
        for outgoing in self._store.outbox():
            source = Unit.parse(outgoing.source)
            try:
                self[source]
            except DemiurgeError:  # what it has sent is durable, and whole
                self._deliver(read_outgoing(outgoing))
            else:
                yield source

    def go_off(self) -> None:
        """Let what was held until now go on."""
        self._timers.go_off()

    def decision(self, intent: OpenIntent, verdict: str, *, by: str, caller: Caller, reason: str = "") -> Ingress:
        """The answer to a request for approval; the first one is taken."""
        body = {"intent": intent.id, "verdict": verdict, "reason": reason, "by": by}
        return Ingress("approval", decision_id(intent.id), body, self._stamp(caller), intent.seq)

    def recover(self, live: LiveUnit) -> None:
        """Read a unit again after a write that failed, and go on with it."""
        live.state, live.tail, live.snapshot_bytes = self._loader.load(live.state.unit)
        self._take_up(live)
        live.failure = None

    async def close(self) -> None:
        """Stop: what changes something gets a moment to end, all else that is open is taken up another time."""
        changing = [
            task
            for live in self
            for intent_id, task in live.effects.items()
            if intent_id in live.state.intents and not self._dispatcher.is_repeatable(live.state.intents[intent_id])
        ]
        if changing:
            await asyncio.wait(changing, timeout=GRACE_S)
        self._dispatcher.closing = True
        await self._timers.close()
        tasks = [task for live in self for task in live.effects.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for live in self:
            live.close()

    def _take_up(self, live: LiveUnit) -> None:
        """Perform what is open and not being performed, and send what was not delivered."""
        for outgoing in self._store.outbox(str(live.state.unit)):
            self._deliver(read_outgoing(outgoing))
        ready = [i for i in live.state.intents.values() if not i.awaits_approval and not live.is_doing(i.id)]
        tried = self._store.attempts([intent.id for intent in ready])
        for intent in ready:
            self._perform(live, intent, tried=intent.id in tried and intent.id not in live.begun)
        self._recall(live, live.state.intents.values())

    def _recall(self, live: LiveUnit, intents: Iterable[OpenIntent]) -> None:
        """See whether those that wait for a person need one, and that none waits for ever."""
        waiting = [intent for intent in intents if intent.awaits_approval] if self._performs else []
        for intent in waiting:
            self._dispatcher.recall(live, intent)
        if waiting:
            self._expire(live)

    def _expire(self, live: LiveUnit) -> None:
        """Answer the requests for approval whose time is over; the next one to come is held, one for each unit."""
        unit = live.state.unit
        waiting = [intent for intent in live.state.intents.values() if intent.awaits_approval]
        asked = [(intent.approval["expires_ns"], intent) for intent in waiting if intent.approval]
        for expires_ns, intent in sorted(asked, key=itemgetter(0)):
            if self._timers.hold(_expiry_of(unit), expires_ns, lambda: self._expire(self.awake(unit))):
                break
            live.offer(self.decision(intent, "expire", by=HOST, caller=intent.caller))

    def _perform(self, live: LiveUnit, intent: OpenIntent, *, tried: bool) -> None:
        """Begin an effect, or hold it until its time."""
        if not self._performs:
            return
        due_ns, unit = self._dispatcher.due_ns(intent), live.state.unit
        if due_ns is None or not self._timers.hold(intent.id, due_ns, lambda: self._wake(unit, intent.id, tried)):
            self._dispatcher.start(live, intent, tried=tried)

    def _wake(self, unit: Unit, intent_id: bytes, tried: bool) -> None:
        """The time of a held intent has come; one that was withdrawn meanwhile is left alone."""
        live = self.awake(unit)
        intent = live.state.intents.get(intent_id)
        if intent is not None and not live.is_doing(intent_id):
            self._dispatcher.start(live, intent, tried=tried)

    def _publish(self, live: LiveUnit, outcome: Advance) -> None:
        """What may happen only now that the records are durable."""
        for intent_id, result in outcome.answers:
            self._dispatcher.answer(intent_id, result)
        for sent in outcome.outbox:
            self._deliver(sent)
        for intent in outcome.intents:
            if intent.id in live.state.intents:
                self._perform(live, intent, tried=False)
        if not live.state.intents:
            self._timers.release(_expiry_of(live.state.unit))
        self._recall(live, outcome.asks)

    def _deliver(self, sent: Sent) -> None:
        """Put an event into its target's mailbox; one that can't be stays in the outbox."""
        faults.point("outbox.before_delivery")
        try:
            target = self[sent.target]
            refs = tuple(self._manifests.current.schemas.validator(sent.schema).refs(sent.value))
        except DemiurgeError as error:
            self._notices.append(f"An event for {sent.target} waits: {error}")
            return
        body = {"value": sent.value, "schema": sent.schema}
        stamp = self._stamp(sent.caller)
        target.offer(Ingress("event", f"sent:{sent.id}", body, stamp, sent.cause, refs), delivers=sent.id)


def _expiry_of(unit: Unit) -> bytes:
    """The key of the time at which the unit's next request for approval is over."""
    return b"expiry:" + str(unit).encode()


def decision_id(intent: bytes) -> str:
    """Of whatever answers a request for approval, so that one answer counts."""
    return f"approval:{intent.hex()}"
