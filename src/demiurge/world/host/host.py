"""The embedded host: it runs units and effects in this process, on one store.

The kernel decides, a `LiveUnit` makes its decisions durable, the `Dispatcher` performs them; the host is who they all
belong to, and what the outside talks to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from demiurge import faults
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Attempt, Store
from demiurge.tools.approvals import require_approver
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_from_digest, ref_of
from demiurge.world.authority.approval import approvers_of
from demiurge.world.blob_access import granting_records
from demiurge.world.cell import cell_node
from demiurge.world.effect import Adapter, CellReading, EffectCall, Result
from demiurge.world.history.replay import KeptCode, Manifests, no_code
from demiurge.world.host.commit import Committer
from demiurge.world.host.dispatch import Dispatcher
from demiurge.world.host.live import FRESH, LiveUnit
from demiurge.world.host.loader import Loader
from demiurge.world.host.timers import Sleep
from demiurge.world.host.units import Units, decision_id
from demiurge.world.host.waiting import WaitingIntents
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.manifest import Manifest
from demiurge.world.manifest_log import MANIFESTS, REPLACED, last_entry, replaced
from demiurge.world.record import Cause, Record, Stamp, decode_row
from demiurge.world.routing import event_digest, routed
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.trees import check_new_name
from demiurge.world.unit import Unit
from demiurge.world.watching.broadcast import Broadcast
from demiurge.world.workspace import WORKSPACE

__all__ = ["Accepted", "Host"]

T = TypeVar("T")

_Ingress, _Stamp = fast_constructor(Ingress), fast_constructor(Stamp)


MAX_REASON = 2000
TAIL_BYTES = 1 << 16
"""A unit's records since its last snapshot may reach this size before the next one is taken."""


class Accepted(NamedTuple):
    """An event that is durable: where it lies, and its identity."""

    unit: str
    seq: int
    event_hash: Ref


class Host:
    """Owns a store: there must be no other writer (see `stores.lock`). Use it from one event loop."""

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        adapters: Sequence[Adapter],
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        perform: bool = True,
        tail_bytes: int = TAIL_BYTES,
        sleep: Sleep = asyncio.sleep,
        kept_code: KeptCode = no_code,
        broadcast: Broadcast | None = None,
    ) -> None:
        """Without `perform` events are taken in and effects are left to whoever starts next. `tail_bytes`: see
        `TAIL_BYTES`; `sleep` takes seconds. What the code at hand can't compute is computed with the code that it ran
        on, a program out of the store, where `kept_code` lets it. `broadcast`: where effects are shown."""
        self.store = store
        self.broadcast = broadcast if broadcast is not None else Broadcast(store.find_ingress)
        self.notices: list[str] = []
        """Sentences for the user about what was found at start."""
        self._clock: Clock = clock or SystemClock()
        self._entropy: Entropy = entropy or SystemEntropy()
        self._manifests = Manifests(manifest, store.get_blob, kept_code)
        self._loader = loader = Loader(store, self._manifests, self.notices)
        self._committer = Committer(store)
        self._dispatcher = Dispatcher(
            store,
            self._committer,
            adapters,
            self._manifests,
            self,
            self._clock,
            self._entropy.token(8).hex(),
            self._stamp,
            self.broadcast,
        )
        self._units = units = Units(
            store,
            self._manifests,
            self._committer,
            loader,
            self._dispatcher,
            self._clock,
            self._stamp,
            self.notices,
            perform=perform,
            tail_bytes=tail_bytes,
            sleep=sleep,
        )
        self._waiting = WaitingIntents(store, units)

    @property
    def manifest(self) -> Manifest:
        return self._manifests.current

    async def start(self) -> None:
        """Store the manifest, and note what is damaged."""
        sources = [reducer.source for reducer in self.manifest.reducers.values()]
        await self._committer.write(self.store.put_blobs, [self.manifest.node, *sources])
        self.notices += self.store.notices
        self.notices += [f"{unit} is left alone: {problem}" for unit, problem in self.store.damaged.items()]

    async def replace_manifest(self, manifest: Manifest, how: str, caller: Caller) -> None:
        """Puts a manifest in force: what comes in from now on is stamped with it, so each unit takes it at its next
        ingress, and its journal says so. Before that the log of manifests has it (`manifest_log`), unless it is the
        log's last one. Raises Unavailable, Damaged (the log); then the old one stays in force."""
        sources = [reducer.source for reducer in manifest.reducers.values()]
        await self._committer.write(self.store.put_blobs, [manifest.node, *sources])
        faults.point("manifest.stored")
        last = last_entry(self.store)
        if last is None or last.ref != manifest.ref:
            self._manifests.add(manifest)
            body = replaced(manifest.ref, last.ref if last is not None else None, how)
            stamp = _Stamp(self._clock.now_ns(), self._entropy.token(16), caller, manifest.ref)
            ingress_id = f"{FRESH}{self._entropy.token(16).hex()}"
            await self._units.awake(MANIFESTS).offer(_Ingress(REPLACED, ingress_id, body, stamp, None, (manifest.ref,)))
            faults.point("manifest.recorded")
        self._manifests.replace(manifest)

    async def close(self) -> None:
        """Stop: see `Units.close`."""
        await self._units.close()
        await self._committer.close()

    # -- taking events in ---------------------------------------------------------------------------------------------

    async def submit(
        self,
        schema: str,
        value: Any,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
        caller: Caller = USER,
    ) -> Accepted:
        """Take an event in; it is durable when this returns.

        The same `idempotency_key`, a text, again in the same unit answers with the first event. Raises InvalidValue
        (schema, or a workspace's name), NotFound (a blob that it names), UsageError (no route, `key` is not the
        event's, no key for idempotency), Conflict (`key_taken`: that one is another event's), Unavailable (the disk).
        """
        if idempotency_key is not None and (not isinstance(idempotency_key, str) or not idempotency_key):
            raise UsageError("An idempotency key is a text that is not empty; None is for none.", code="bad_key")
        unit, target, value, refs = self._checked(schema, value, key)
        is_keyed = idempotency_key is not None
        ingress_id = f"key:{idempotency_key}" if is_keyed else f"{FRESH}{self._entropy.token(16).hex()}"
        body = {"value": value, "schema": target}
        seq = await self._units.awake(unit).offer(_Ingress("event", ingress_id, body, self._stamp(caller), None, refs))
        assert seq is not None
        digest = event_digest(target, value, unit.key)
        if is_keyed:
            first = next(self.records(unit, seq)).body
            if event_digest(first["schema"], first["value"], unit.key) != digest:
                message = f"The idempotency key {idempotency_key!r} is another event's, {unit} #{seq}; use another."
                raise Conflict(message, code="key_taken")
        return Accepted(str(unit), seq, ref_from_digest(digest))

    async def send(
        self, schema: str, value: Any, *, ingress_id: str, caller: Caller, cause: Mapping[str, Any]
    ) -> list[Record]:
        """Submit an event once and return the records of its step, also when it was submitted before."""
        unit, target, value, refs = self._checked(schema, value, None)
        body = {"value": value, "schema": target}
        seq = await self._units[unit].offer(_Ingress("event", ingress_id, body, self._stamp(caller), cause, refs))
        assert seq is not None
        step: list[Record] = []
        for record in self.records(unit, seq):
            if record.is_ingress and step:
                break
            step.append(record)
        return step

    def _checked(self, schema: str, value: Any, key: str | None) -> tuple[Unit, str, Any, tuple[Ref, ...]]:
        """An event before it is taken: its unit, its schema and value as the unit will see them, its blobs."""
        manifest = self.manifest
        if schema not in manifest.schemas:
            raise NotFound(
                f"There is no schema {schema}; `demiurge defs ls --kind schema` lists them.", code="unknown_schema"
            )
        validator = manifest.schemas.validator(schema)
        value = validator.normalise(value)
        target = routed(manifest, schema, value)
        if target is None:
            raise UsageError(f"No module takes {schema} events.", code="unroutable")
        unit, target_schema, target_value = target
        if unit.module == WORKSPACE:  # at the door: what was taken in before stays as it was
            check_new_name(unit.key)
        if key is not None and key != unit.key:
            raise UsageError(f"The event's own key is {unit.key!r}, not {key!r}.", code="wrong_key")
        refs = tuple(validator.refs(value))
        for ref in refs:
            if not self._committer.has_blob(ref):
                raise NotFound(f"There is no blob {ref} here; store it first with `demiurge blob put`.")
        return unit, target_schema, target_value, refs

    # -- people -------------------------------------------------------------------------------------------------------

    def approvals(self, of: Unit | None = None) -> list[tuple[Unit, OpenIntent]]:
        """Every intent that waits for a person, of one unit or of all, but for those that waited too long: they are
        answered when somebody turns to their unit, or settles."""
        return self.waiting(of)[0]

    def waiting(self, of: Unit | None = None) -> tuple[list[tuple[Unit, OpenIntent]], dict[Unit, DemiurgeError]]:
        """The same; and the units that may hold more and can't be read, with what is wrong with each."""
        return self._waiting.look(of, self._clock.now_ns())

    def intent(self, intent_id: bytes) -> tuple[Unit | None, OpenIntent | None]:
        """The unit in which an intent waits for a person, or in which it was decided; and the intent, if it is open and
        the unit can be read."""
        unit = self._waiting.unit_of(intent_id)
        try:
            return unit, self._units[unit].state.intents.get(intent_id) if unit is not None else None
        except DemiurgeError:
            return unit, None

    def begun(self, of: Unit | None = None) -> list[tuple[Unit, OpenIntent, Attempt]]:
        """Every open effect, of one unit or of all, that may change something, that an earlier process began, and that
        nobody performs now. What a running tool asked for is left out: its call is among them."""
        found: list[tuple[Unit, OpenIntent]] = []
        for unit in [Unit.parse(head.unit) for head in self.store.heads(open_only=True)] if of is None else [of]:
            with suppress(DemiurgeError):  # a unit that can't be read: what is wrong with it is told by other calls
                live = self._units[unit]
                intents = [i for i in live.state.intents.values() if i.origin["kind"] != "tool"]
                found += [(unit, intent) for intent in intents if not live.is_begun_here(intent.id)]
        attempts = self.store.attempts([intent.id for _, intent in found])
        tried = [(unit, intent, attempts[intent.id]) for unit, intent in found if intent.id in attempts]
        return [
            (unit, intent, attempt) for unit, intent, attempt in tried if not self._dispatcher.is_repeatable(intent)
        ]

    async def decide(self, intent: bytes, *, approve: bool, reason: str, caller: Caller) -> None:
        """Answer a request for approval; the same decision again changes nothing, so whoever lost the answer may ask.

        Raises NotFound when there is no request with this id, Conflict when it was decided otherwise or has expired
        (`approval_expired`), UsageError (`not_an_approver`) when the policy wants another role for it, InvalidValue for
        a reason of more than 2000 characters.
        """
        self.require_approver(intent, caller)
        await self._decide(intent, approve=approve, reason=reason, caller=caller)

    def require_approver(self, intent: bytes, caller: Caller) -> None:
        """Raises UsageError (`not_an_approver`) when `caller` may not decide on the call that waits under this id."""
        _, waiting = self.intent(intent)
        if waiting is not None:
            require_approver(caller.roles, approvers_of(waiting), intent.hex())

    async def _decide(self, intent: bytes, *, approve: bool, reason: str, caller: Caller) -> None:
        if len(reason) > MAX_REASON:
            raise InvalidValue(f"a reason has at most {MAX_REASON} characters", path="reason")
        verdict = "approve" if approve else "reject"
        unit, waiting = self.intent(intent)
        if unit is not None and waiting is not None and waiting.awaits_approval:
            given = self._units.decision(waiting, verdict, by=caller.actor, caller=caller, reason=reason)
            await self._units.awake(unit).offer(given)
        seq = self.store.find_ingress(str(unit), decision_id(intent)) if unit is not None else None
        if unit is None or seq is None:
            raise NotFound("Nothing with this id waits for approval; `demiurge approvals ls` lists what does.")
        taken = next(self.records(unit, seq)).body
        if taken["verdict"] == "expire":
            why = "Nobody decided on this call in time; have it proposed again, and you are asked anew."
            raise Conflict(why, code="approval_expired")
        if (taken["verdict"], taken["by"]) != (verdict, caller.actor):
            raise Conflict("This call has been decided otherwise.", code="decided")

    async def cancel(self, unit: Unit, *, reason: str, caller: Caller) -> None:
        """Stop the effects that run for a unit, and withdraw its requests for approval, whoever may decide on them."""
        for intent_id in self._units[unit].state.waiting:
            with suppress(Conflict, NotFound):  # a person was quicker
                await self._decide(intent_id, approve=False, reason=reason, caller=caller)
        live = self._units[unit]
        running = dict(live.effects)
        for task in running.values():
            task.cancel()
        withdrawn = [self._dispatcher.withdraw(live, intent) for intent in _idle(live)]
        await asyncio.gather(*running.values(), return_exceptions=True)
        live = self._units[unit]
        withdrawn += [self._dispatcher.withdraw(live, intent) for intent in _idle(live) if intent.id in running]
        await asyncio.gather(*withdrawn)

    async def note(
        self,
        unit: Unit,
        kind: str,
        ingress_id: str,
        body: Mapping[str, Any],
        *,
        caller: Caller,
        cause: Cause = None,
        refs: tuple[Ref, ...] = (),
    ) -> None:
        """Take in an ingress that a person's decision makes (see `kernel.ingress`); durable on return. One with an id
        that was taken in before changes nothing. Raises Unavailable."""
        await self._units.awake(unit).offer(_Ingress(kind, ingress_id, body, self._stamp(caller), cause, refs))

    def deliver_from(self, unit: Unit) -> None:
        """Send on what an earlier process did not deliver of the unit's messages."""
        if self.store.outbox(str(unit)):
            self._units.awake(unit)

    async def at_rest(self, units: Iterable[str]) -> None:
        """Wait until these units have taken what they were sent; their effects may go on."""
        for unit in map(Unit.parse, units):
            live = self._units.known(unit)
            if live is not None:
                await live.at_rest()

    # -- reading ------------------------------------------------------------------------------------------------------

    def state(self, unit: Unit) -> UnitState:
        """The unit's state as of its last durable record. Raises Damaged, Divergence."""
        return self._units[unit].state

    async def read_cell(self, unit: Unit) -> CellReading:
        """A unit's cell with its digest, whose nodes are stored so that it can be followed."""
        live = self._units[unit]
        if live.failure is not None and not live.is_moving:  # chunks that were not stored with a step that failed
            self._units.recover(live)
        state = live.state
        if state.cell is None:
            return CellReading(unit, state.seq, None, None, state.head, state.manifest)
        node, chunks = cell_node(state.cell)
        await self._committer.write(self.store.put_blobs, [node, *chunks.values()])
        return CellReading(unit, state.seq, state.cell, ref_of(node), state.head, state.manifest)

    def keys(self, module: str) -> Iterator[str]:
        return (Unit.parse(head.unit).key for head in self.store.heads(f"{module}/"))

    async def granting_record(
        self, unit: Unit, ref: Ref, accept: Callable[[Record], bool] = lambda _record: True
    ) -> Record | None:
        """A record that gave `unit` the blob `ref` (`effect.Services`)."""
        return await asyncio.to_thread(lambda: next(filter(accept, granting_records(self.store, unit, ref)), None))

    def records(self, unit: Unit, from_seq: int = 0) -> Iterator[Record]:
        return map(decode_row, self.store.read(str(unit), from_seq))

    async def hold_blob(self, data: bytes) -> Ref:
        """Store a blob with the next records (`Committer.hold`)."""
        return await self._committer.hold(data)

    async def put_blob(self, data: bytes) -> Ref:
        return await self._committer.write(self.store.put_blob, data)

    def get_blob(self, ref: Ref) -> bytes:
        return self._committer.get_blob(ref)

    async def erasing(self, work: Callable[[], T]) -> T:
        """Run what erases blobs in the store while no unit takes a step: none may read one after `work` has looked
        which ones did."""
        try:
            return await self._committer.alone(work)
        finally:
            self._committer.forget_all()

    def loaded(self) -> list[Unit]:
        """The units that are in memory."""
        return [live.state.unit for live in self._units]

    async def settle(self, unit: Unit | None = None) -> None:
        """Wait until nothing goes on by itself in `unit` (or anywhere): only a person, or a time that has not come yet,
        can move it on. Raises what kept a unit from going on.

        What the store refused before is tried once more.
        """
        self._units.go_off()
        for name in self._units.unsettled() if unit is None else [unit]:
            live = self._units.awake(name)
            if live.failure is not None and not live.is_moving:
                self._units.recover(live)
        while True:
            units = list(self._units) if unit is None else [self._units[unit]]
            going_on = [task for live in units for task in live.going_on]
            if not going_on:
                break
            await asyncio.wait(going_on)
        for live in units:
            if live.failure is not None:
                raise live.failure

    def replay(self, unchecked: Counter[Unit] | None = None) -> Iterator[UnitState]:
        """Compute every unit again from its ingress: its state after each. `unchecked` is told how many records of a
        unit could not be (see `Loader.replay`). Raises Divergence, Damaged."""
        for problem in self.store.damaged.values():
            raise problem
        for head in list(self.store.heads()):
            yield from self._loader.replay(Unit.parse(head.unit), unchecked)

    async def request(self, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """A running tool's capability request (`effect.Services`)."""
        return await self._dispatcher.request(self._units[call.unit], call, kind, params)

    def _stamp(self, caller: Caller) -> Stamp:
        return _Stamp(self._clock.now_ns(), self._entropy.token(16), caller, self.manifest.ref)


def _idle(live: LiveUnit) -> list[OpenIntent]:
    """Open intents that nobody performs: no task was begun for them, or it was stopped before it had begun."""
    return [i for i in live.state.intents.values() if not i.awaits_approval and not live.is_doing(i.id)]
