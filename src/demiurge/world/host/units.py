"""`Units`: the units in memory. They are loaded when used, move on by their own consequences, and are evicted when
idle.

Everything about an evicted unit is in the store, as if this process had never loaded it. So no code may keep a
`LiveUnit` across an `await`, except a running effect, which keeps its unit from being idle.

Work that an earlier process left open in a unit is taken up when the unit is awoken. So a process works only on units
that it was asked about: it may lack the tools or the key that others need (docs/architecture.md, rule 3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TypeGuard

from demiurge import faults
from demiurge.errors import DemiurgeError, NotFound
from demiurge.stores.protocol import Store
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref
from demiurge.world.history.replay import Manifests
from demiurge.world.host.commit import Committer
from demiurge.world.host.dispatch import Dispatcher
from demiurge.world.host.live import LiveUnit, read_outgoing
from demiurge.world.host.loader import Loaded, Loader
from demiurge.world.host.timers import Sleep, Timers
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Sent
from demiurge.world.manifest_log import MANIFESTS
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["Units", "decision_id"]

KEPT_IDLE = 128
"""How many idle units stay in memory, those used last. Idle units are evicted whenever this many more were loaded."""

KEPT_OVER = 1000
"""How many states of waits that are over are known: that of a wait which is recorded only after its end."""

GRACE_S = 5.0
"""How many seconds closing waits for running effects that cannot be repeated."""

HOST = "host"
"""The actor that answers a request for approval when its time is over."""

PROCESS_OVER = "The process that asked is over, and the question with it."


class Units:
    """The units in memory. `units[unit]` loads one; without `perform`, intents are left to the next process."""

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
        """The loaded units, the one used last at the end."""
        self._evict_at = 2 * KEPT_IDLE
        self._tied: dict[bytes, Unit] = {}
        """The waits that this process began and that end with it, with their units."""
        self._over: dict[Ref, str] = {}
        """The states that are good no more, with the reason: a wait may be recorded after that."""
        self.asks_changed: Callable[[], None] = _nothing
        """Called when other intents may wait for a person than before."""

    def __iter__(self) -> Iterator[LiveUnit]:
        return iter(list(self._known.values()))

    def __getitem__(self, unit: Unit) -> LiveUnit:
        """Returns the unit. Raises Damaged, Divergence, NotFound (`erased`: its state cannot be known)."""
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
                self._tail_bytes if unit != MANIFESTS else 0,  # a new manifest needs none of its records, which are old
                self._publish,
                self.recover,
                lambda: self.asks_changed(),
                snapshot_bytes=loaded.snapshot_bytes,
            )
            if len(self._known) >= self._evict_at:
                self._evict()
        self._known[unit] = live
        return live

    def _evict(self) -> None:
        """Evicts idle units, except for those used last."""
        idle = [unit for unit, live in self._known.items() if live.is_idle]
        for unit in idle[: len(idle) - KEPT_IDLE]:
            del self._known[unit]
        self._evict_at = len(self._known) + KEPT_IDLE

    def known(self, unit: Unit) -> LiveUnit | None:
        """Returns the unit if it is in memory."""
        return self._known.get(unit)

    def durable(self, unit: Unit) -> UnitState:
        """Returns the state of a unit as of its last durable record, without keeping the unit in memory. Raises as
        `[unit]` does."""
        live = self._known.get(unit)
        if live is not None and not live.is_moving and live.failure is None:
            return live.state
        return self._load(unit).state

    def _load(self, unit: Unit) -> Loaded:
        if str(unit) in self._store.damaged:
            raise self._store.damaged[str(unit)]
        loaded = self._loader.load(unit)
        if loaded.state.world != self._store.world_id:  # its open effects may run in its own world
            raise NotFound(
                f"{unit} came with the fork as records alone, because a blob that it read was erased.", code="erased"
            )
        return loaded

    def awake(self, unit: Unit) -> LiveUnit:
        """Returns the unit, after taking up the work that an earlier process left open in it."""
        live = self[unit]
        if not live.awake:
            if live.failure is None:
                self._take_up(live)
            elif not live.is_moving:  # the state may be older than what is durable
                self.recover(live)
            live.awake = True
        return live

    def unsettled(self) -> Iterator[Unit]:
        """Yields every unit in which something may still happen, loaded. A unit that cannot be read is reported and
        left alone."""
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
            except DemiurgeError:  # its messages are durable, and whole
                self._deliver(read_outgoing(outgoing))
            else:
                yield source

    def go_off(self) -> None:
        """Lets held intents whose time has come go on."""
        self._timers.go_off()

    def decision(
        self,
        intent: OpenIntent,
        verdict: str,
        *,
        by: str,
        caller: Caller,
        reason: str = "",
        **given: Ref,
    ) -> Ingress:
        """Returns the answer to a request for approval as an ingress; the first answer counts. `given` are the blobs
        that the person gave: `call_ref`, the call with changed arguments, or `answer_ref`, the answer to a question."""
        body = {"intent": intent.id, "verdict": verdict, "reason": reason, "by": by, **given}
        refs = tuple(given.values())
        return Ingress("approval", decision_id(intent.id), body, self._stamp(caller), intent.seq, refs)

    def end_tied(self, state: Ref, reason: str) -> None:
        """Ends the wait that this process began with this state. Its call goes on without an answer."""
        self._over[state] = reason
        if len(self._over) > KEPT_OVER:
            del self._over[next(iter(self._over))]
        for intent_id, unit in list(self._tied.items()):
            live = self.awake(unit)
            intent = live.state.intents.get(intent_id)
            if intent is None or not intent.awaits_approval:
                del self._tied[intent_id]
            else:
                self._end_if_over(live, intent)

    def _end_if_over(self, live: LiveUnit, intent: OpenIntent) -> None:
        if intent.leg is not None and intent.leg["state"] in self._over:
            self._end(live, intent, self._over.pop(intent.leg["state"]))

    def recover(self, live: LiveUnit) -> None:
        """Reads a unit again after a failed write, and goes on with it."""
        live.state, live.tail, live.snapshot_bytes = self._loader.load(live.state.unit)
        self._take_up(live)
        live.failure = None
        self.asks_changed()

    async def drain(self, limit_s: float) -> list[tuple[Unit, OpenIntent]]:
        """Lets no further effect begin, and waits until those that run have ended, for `limit_s` seconds at most.
        Returns those that run longer and cannot be repeated; the others may be stopped, and begin again elsewhere."""
        self._dispatcher.pause()
        loop = asyncio.get_running_loop()
        ends = loop.time() + limit_s
        while (running := self._running()) and (left_s := ends - loop.time()) > 0:
            await asyncio.wait([task for task, _, _ in running], timeout=left_s)
        return [(unit, intent) for _, unit, intent in running if self._must_end(intent)]

    def resume(self) -> None:
        """Lets effects begin again after `drain`."""
        self._dispatcher.resume()

    def _running(self) -> list[tuple[asyncio.Task[None], Unit, OpenIntent | None]]:
        """Returns the effects that are being performed, or whose attempt is durable, with their tasks; without the
        intent if its receipt is durable."""
        return [
            (task, live.state.unit, live.state.intents.get(intent_id))
            for live in self
            for intent_id, task in live.effects.items()
            if not task.done() and (self._dispatcher.has_begun(intent_id) or intent_id in live.begun)
        ]

    def _must_end(self, intent: OpenIntent | None) -> TypeGuard[OpenIntent]:
        """Returns whether a running effect would be in doubt if it were stopped."""
        return intent is not None and not self._dispatcher.is_repeatable(intent)

    def in_progress(self) -> set[Unit]:
        """Returns the units in which something goes on, or will at a time that is held."""
        return {live.state.unit for live in self if live.awake and live.state.is_open} | self._timers.units()

    async def close(self) -> None:
        """Stops the units. No further effect begins, those that change something get a moment to end, and everything
        else that is open is taken up by the next process."""
        self._dispatcher.pause()
        changing = [task for task, _, intent in self._running() if self._must_end(intent)]
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
        """Performs open intents that nobody performs, and sends undelivered messages."""
        for outgoing in self._store.outbox(str(live.state.unit)):
            self._deliver(read_outgoing(outgoing))
        ready = [i for i in live.state.intents.values() if not i.awaits_approval and not live.is_doing(i.id)]
        tried = self._store.attempts([intent.id for intent in ready])
        for intent in ready:
            self._perform(live, intent, tried=intent.id in tried and intent.id not in live.begun)
        self._check_waiting(live, live.state.intents.values())

    def _check_waiting(self, live: LiveUnit, intents: Iterable[OpenIntent]) -> None:
        """Checks whether intents that wait for a person need one, and ends requests whose time is over."""
        waiting = [intent for intent in intents if intent.awaits_approval] if self._performs else []
        for intent in waiting:
            if intent.leg is None:
                self._dispatcher.preflight(live, intent)
            elif intent.leg["tied"] and intent.id not in self._tied:
                self._end(live, intent, PROCESS_OVER)
            else:
                self._end_if_over(live, intent)
        if waiting:
            self._expire(live)

    def _expire(self, live: LiveUnit) -> None:
        """Answers the requests for approval whose time is over, and holds a timer for the next one, one for each
        unit."""
        unit = live.state.unit
        waiting = [i for i in live.state.intents.values() if i.awaits_approval and i.approval is not None]
        expiring = [(i.approval["expires_ns"], i) for i in waiting if i.approval and i.approval["expires_ns"]]
        for expires_ns, intent in sorted(expiring, key=itemgetter(0)):
            if self._timers.hold(_expiry_of(unit), expires_ns, lambda: self._expire(self.awake(unit)), unit):
                break
            self._end(live, intent)

    def _end(self, live: LiveUnit, intent: OpenIntent, reason: str = "") -> None:
        """Ends the wait for a person."""
        verdict = "expire" if intent.leg is None else "end"
        live.offer(self.decision(intent, verdict, by=HOST, caller=intent.caller, reason=reason))

    def _perform(self, live: LiveUnit, intent: OpenIntent, *, tried: bool) -> None:
        """Begins an effect, or holds it until its time."""
        if not self._performs:
            return
        due_ns, unit = self._dispatcher.due_ns(intent), live.state.unit
        if due_ns is None or not self._timers.hold(intent.id, due_ns, lambda: self._wake(unit, intent.id, tried), unit):
            self._dispatcher.start(live, intent, tried=tried)

    def _wake(self, unit: Unit, intent_id: bytes, tried: bool) -> None:
        """Starts a held intent at its time, unless it was withdrawn meanwhile."""
        live = self.awake(unit)
        intent = live.state.intents.get(intent_id)
        if intent is not None and not live.is_doing(intent_id):
            self._dispatcher.start(live, intent, tried=tried)

    def _publish(self, live: LiveUnit, outcome: Advance) -> None:
        """Carries out the consequences of a step whose records are durable now."""
        for intent_id, result in outcome.answers:
            self._dispatcher.answer(intent_id, result)
        for sent in outcome.outbox:
            self._deliver(sent)
        for intent in outcome.intents:
            if intent.id in live.state.intents:
                self._perform(live, intent, tried=False)
        self._tied |= {i.id: live.state.unit for i in outcome.asks if i.leg is not None and i.leg["tied"]}
        if not live.state.intents:
            self._timers.release(_expiry_of(live.state.unit))
        self._check_waiting(live, outcome.asks)

    def _deliver(self, sent: Sent) -> None:
        """Puts an event into its target's mailbox; if that fails, the event stays in the outbox."""
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


def _nothing() -> None:
    pass


def _expiry_of(unit: Unit) -> bytes:
    """Returns the timer key of the unit's next request for approval to expire."""
    return b"expiry:" + str(unit).encode()


def decision_id(intent: bytes) -> str:
    """Returns the ingress id of every answer to a request for approval, so that one answer counts."""
    return f"approval:{intent.hex()}"
