"""The embedded host: it runs units and effects in this process, on one store.

The kernel decides, a `LiveUnit` makes its decisions durable, and the `Dispatcher` performs them. The host owns them all
and is the interface to the outside.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from demiurge import faults
from demiurge.errors import Conflict, DemiurgeError, NotFound, UsageError
from demiurge.stores.errors import Archived
from demiurge.stores.protocol import Attempt, Store
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_from_digest, ref_of
from demiurge.world.blob_access import granting_records
from demiurge.world.cell import cell_node
from demiurge.world.effect import Adapter, CellReading, EffectCall, Result
from demiurge.world.history.replay import KeptCode, Manifests, no_code
from demiurge.world.host.commit import Committer
from demiurge.world.host.decisions import Decisions
from demiurge.world.host.dispatch import Dispatcher
from demiurge.world.host.live import FRESH, LiveUnit
from demiurge.world.host.loader import Loader
from demiurge.world.host.timers import Sleep
from demiurge.world.host.units import Units
from demiurge.world.host.waiting import WaitingIntents
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.latest_records import latest_records
from demiurge.world.manifest import Manifest
from demiurge.world.manifest_log import MANIFESTS, REPLACED, last_entry, replaced
from demiurge.world.record import Cause, Record, Stamp, decode_row
from demiurge.world.routing import event_digest, routed
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.trees import check_new_name
from demiurge.world.unit import Unit
from demiurge.world.unit_keys import unit_keys
from demiurge.world.watching.broadcast import Broadcast
from demiurge.world.workspace import WORKSPACE

__all__ = ["Accepted", "Host"]

T = TypeVar("T")
_Ingress, _Stamp = fast_constructor(Ingress), fast_constructor(Stamp)

TAIL_BYTES = 1 << 16
"""How large a unit's records since its last snapshot may be before the next one is taken, in bytes."""


class Accepted(NamedTuple):
    """A durable event: its unit and number, and its identity."""

    unit: str
    seq: int
    event_hash: Ref


class Host:
    """Owns a store, which must have no other writer (see `stores.lock`). Use it from one event loop."""

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
        """Without `perform`, events are taken and effects are left to the next process. `tail_bytes`: see `TAIL_BYTES`;
        `sleep` takes seconds. `kept_code` says which code out of the store may run, to compute history that the code at
        hand cannot compute. `broadcast` is where effects are shown."""
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
        self.decisions = Decisions(store, units, self._waiting)

    @property
    def manifest(self) -> Manifest:
        return self._manifests.current

    async def start(self) -> None:
        """Stores the manifest, and notes damaged units."""
        sources = [reducer.source for reducer in self.manifest.reducers.values()]
        await self._committer.write(self.store.put_blobs, [self.manifest.node, *sources])
        self.notices += self.store.notices
        self.notices += [f"{unit} is left alone: {problem}" for unit, problem in self.store.damaged.items()]

    async def replace_manifest(self, manifest: Manifest, how: str, caller: Caller) -> None:
        """Puts a manifest in force. Each ingress from now on is stamped with it, so each unit takes it at its next
        ingress, and its journal says so. Before that the manifest is added to the log of manifests (`manifest_log`),
        unless it is the log's last one. Raises Unavailable, Damaged (the log); then the old one stays in force."""
        sources = [reducer.source for reducer in manifest.reducers.values()]
        await self._committer.write(self.store.put_blobs, [manifest.node, *sources])
        faults.point("manifest.stored")
        old = self._last_manifest()
        if old != manifest.ref:
            self._manifests.add(manifest)
            body = replaced(manifest.ref, old, how)
            stamp = _Stamp(self._clock.now_ns(), self._entropy.token(16), caller, manifest.ref)
            ingress_id = f"{FRESH}{self._entropy.token(16).hex()}"
            await self._units.awake(MANIFESTS).offer(_Ingress(REPLACED, ingress_id, body, stamp, None, (manifest.ref,)))
            faults.point("manifest.recorded")
        self._manifests.replace(manifest)

    def _last_manifest(self) -> Ref | None:
        """Returns the log's last manifest."""
        try:
            last = last_entry(self.store)
            return last.ref if last is not None else None
        except Archived:  # in a file that is not here; the unit has a snapshot
            return self._units[MANIFESTS].state.manifest

    async def drain(self, limit_s: float) -> list[tuple[Unit, OpenIntent]]:
        """Lets no further effect begin, and waits for those that run: see `Units.drain`."""
        return await self._units.drain(limit_s)

    def resume(self) -> None:
        """Lets effects begin again after `drain`."""
        self._units.resume()

    def in_progress(self) -> list[str]:
        """Returns the units in which something goes on, or will at a time that is held."""
        return sorted(map(str, self._units.in_progress()))

    def go_on_with(self, units: Iterable[str]) -> None:
        """Goes on with what is open in these units; one that cannot be read is left alone."""
        for unit in map(Unit.parse, units):
            with suppress(DemiurgeError):
                self._units.awake(unit)

    async def close(self) -> None:
        """Stops the host: see `Units.close`."""
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
        """Takes an event; it is durable on return.

        A repeated `idempotency_key` of the same actor and tenant in the same unit returns the first event. Raises
        InvalidValue (schema, or a workspace's name), NotFound (a blob that it names), UsageError (no route, `key` is
        not the event's, a key that is not a text), Conflict (`key_taken`: the key is another event's), Unavailable.
        """
        if idempotency_key is not None and (not isinstance(idempotency_key, str) or not idempotency_key):
            raise UsageError("An idempotency key must be a text that is not empty, or None.", code="bad_key")
        unit, target, value, refs = self._checked(schema, value, key)
        is_keyed = idempotency_key is not None
        keyed = f"key:{json.dumps([caller.actor, caller.tenant, idempotency_key])}"  # a key belongs to its caller
        ingress_id = keyed if is_keyed else f"{FRESH}{self._entropy.token(16).hex()}"
        body = {"value": value, "schema": target}
        seq = await self._units.awake(unit).offer(_Ingress("event", ingress_id, body, self._stamp(caller), None, refs))
        assert seq is not None
        digest = event_digest(target, value, unit.key)
        if is_keyed:
            first = next(self.records(unit, seq)).body
            if event_digest(first["schema"], first["value"], unit.key) != digest:
                what = f"The idempotency key {idempotency_key!r} belongs to another event, {unit} #{seq}; use another."
                raise Conflict(what, code="key_taken")
        return Accepted(str(unit), seq, ref_from_digest(digest))

    async def send(
        self, schema: str, value: Any, *, ingress_id: str, caller: Caller, cause: Mapping[str, Any]
    ) -> list[Record]:
        """Submits an event once. Returns the records of its step, also if the event was submitted before."""
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
        """Checks an event before it is taken. Returns its unit, its schema and value as the unit will see them, and its
        blobs."""
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
        if unit.module == WORKSPACE:  # checked for new events only: recorded ones stay valid
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
        """Returns every intent that waits for a person, in one unit or in all. Requests whose time is over are left
        out; they are answered when their unit is next used, or by `settle`."""
        return self.waiting(of)[0]

    def waiting(self, of: Unit | None = None) -> tuple[list[tuple[Unit, OpenIntent]], dict[Unit, DemiurgeError]]:
        """Returns `approvals`, and the units that may hold more and cannot be read, each with its error."""
        return self._waiting.find(of, self._clock.now_ns())

    def intent(self, intent_id: bytes) -> tuple[Unit | None, OpenIntent | None]:
        """Returns the unit and the intent under this id (see `Decisions.intent`)."""
        return self.decisions.intent(intent_id)

    def begun(self, of: Unit | None = None) -> list[tuple[Unit, OpenIntent, Attempt]]:
        """Returns every open effect, of one unit or of all, that may change something, that an earlier process began,
        and that nobody performs now. Requests of running tools are left out, since their calls are included."""
        found: list[tuple[Unit, OpenIntent]] = []
        for unit in [Unit.parse(head.unit) for head in self.store.heads(open_only=True)] if of is None else [of]:
            with suppress(DemiurgeError):  # other calls report units that cannot be read
                live = self._units[unit]
                intents = [i for i in live.state.intents.values() if i.origin["kind"] != "tool"]
                found += [(unit, intent) for intent in intents if not live.is_begun_here(intent.id)]
        attempts = self.store.attempts([intent.id for _, intent in found])
        tried = [(unit, intent, attempts[intent.id]) for unit, intent in found if intent.id in attempts]
        return [
            (unit, intent, attempt) for unit, intent, attempt in tried if not self._dispatcher.is_repeatable(intent)
        ]

    def watch_waiting(self, changed: Callable[[], None]) -> None:
        """Has `changed` called whenever other intents may wait for a person than before, once that is durable."""
        self._units.asks_changed = changed

    async def take_up(self, unit: Unit, is_wanted: Callable[[OpenIntent], bool]) -> None:
        """Withdraws the intents of a unit that are not wanted and that nobody performs, then takes up the others."""
        live = self._units[unit]
        unwanted = [intent for intent in _idle(live) if not is_wanted(intent)]
        await asyncio.gather(*(self._dispatcher.withdraw(live, intent) for intent in unwanted))
        self._units.awake(unit)

    async def decide(
        self, intent: bytes, *, approve: bool, reason: str, caller: Caller, call_ref: Ref | None = None
    ) -> None:
        """Answers a request for approval. Repeating the same decision changes nothing, so a caller that lost the answer
        may repeat the call. `call_ref` is a stored call with other arguments, which runs in place of the waiting one.

        Raises NotFound if there is no request with this id, Conflict if it was decided otherwise or has expired
        (`approval_expired`), UsageError if the policy asks for another role (`not_an_approver`) or the call is a
        question (`answer_needed`), InvalidValue for a reason of more than 2000 characters.
        """
        self.decisions.require_approver(intent, caller)
        given = {"call_ref": call_ref} if call_ref is not None else {}
        await self.decisions.take(intent, "approve" if approve else "reject", caller=caller, reason=reason, **given)

    async def answer(self, intent: bytes, answer_ref: Ref, caller: Caller) -> None:
        """Answers a question with a stored answer. Raises as `decide`; UsageError (`no_question`) for a call that asks
        for an approval."""
        self.decisions.require_approver(intent, caller)
        await self.decisions.take(intent, "answer", caller=caller, answer_ref=answer_ref)

    async def cancel(self, unit: Unit, *, reason: str, caller: Caller) -> None:
        """Stops the running effects of a unit, and withdraws its requests for approval, regardless of who may decide on
        them."""
        for intent_id in self._units[unit].state.waiting:
            with suppress(Conflict, NotFound):  # a person decided first
                await self.decisions.take(intent_id, "reject", caller=caller, reason=reason)
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
        """Takes an ingress that a person's decision makes (see `kernel.ingress`); durable on return. An id that was
        taken before changes nothing. Raises Unavailable."""
        await self._units.awake(unit).offer(_Ingress(kind, ingress_id, body, self._stamp(caller), cause, refs))

    def deliver_from(self, unit: Unit) -> None:
        """Sends the unit's messages that an earlier process did not deliver."""
        if self.store.outbox(str(unit)):
            self._units.awake(unit)

    async def at_rest(self, units: Iterable[str]) -> None:
        """Waits until these units have taken all messages that were sent to them; their effects may still run."""
        for unit in map(Unit.parse, units):
            live = self._units.known(unit)
            if live is not None:
                await live.at_rest()

    # -- reading ------------------------------------------------------------------------------------------------------

    def state(self, unit: Unit) -> UnitState:
        """Returns the unit's state as of its last durable record. Raises Damaged, Divergence."""
        return self._units[unit].state

    async def read_cell(self, unit: Unit) -> CellReading:
        """Returns a unit's cell with its digest, and stores its nodes, so that the digest can be followed."""
        live = self._units[unit]
        if live.failure is not None and not live.is_moving:  # a failed step may have left chunks that are not stored
            self._units.recover(live)
        state = live.state
        if state.cell is None:
            return CellReading(unit, state.seq, None, None, state.head, state.manifest)
        node, chunks = cell_node(state.cell)
        await self._committer.write(self.store.put_blobs, [node, *chunks.values()])
        return CellReading(unit, state.seq, state.cell, ref_of(node), state.head, state.manifest)

    def keys(self, module: str, *, latest_first: bool = False) -> Iterator[str]:
        return unit_keys(self.store, module, latest_first=latest_first)

    async def granting_record(
        self, unit: Unit, ref: Ref, accept: Callable[[Record], bool] = lambda _record: True
    ) -> Record | None:
        """Returns a record that gave `unit` access to the blob `ref` (`effect.Services`)."""
        return await asyncio.to_thread(lambda: next(filter(accept, granting_records(self.store, unit, ref)), None))

    def records(self, unit: Unit, from_seq: int = 0) -> Iterator[Record]:
        return map(decode_row, self.store.read(str(unit), from_seq))

    def latest(self, kind: str, most: int) -> Iterator[Record]:
        return latest_records(self.store, kind, most)

    async def hold_blob(self, data: bytes) -> Ref:
        """Stores a blob with the next records (`Committer.hold`)."""
        return await self._committer.hold(data)

    async def put_blob(self, data: bytes) -> Ref:
        return await self._committer.write(self.store.put_blob, data)

    def get_blob(self, ref: Ref) -> bytes:
        return self._committer.get_blob(ref)

    async def erasing(self, work: Callable[[], T]) -> T:
        """Runs `work`, which erases blobs in the store, while no unit takes a step: no unit may read a blob after
        `work` has looked up its readers."""
        try:
            return await self._committer.alone(work)
        finally:
            self._committer.forget_all()

    def loaded(self) -> list[Unit]:
        """Returns the units that are in memory."""
        return [live.state.unit for live in self._units]

    async def settle(self, unit: Unit | None = None) -> None:
        """Waits until nothing goes on by itself in `unit` (or in any unit): only a person, or a time still to come, can
        move it on. Writes that the store refused before are tried once more. Raises the error that keeps a unit from
        going on."""
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
        """Computes every unit again from its ingress. Yields its state after each ingress. `unchecked` counts the
        records of each unit that could not be computed (see `Loader.replay`). Raises Divergence, Damaged."""
        for problem in self.store.damaged.values():
            raise problem
        for head in list(self.store.heads()):
            yield from self._loader.replay(Unit.parse(head.unit), unchecked)

    async def request(self, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """Answers a running tool's request for an effect (`effect.Services`)."""
        return await self._dispatcher.request(self._units[call.unit], call, kind, params)

    def _stamp(self, caller: Caller) -> Stamp:
        return _Stamp(self._clock.now_ns(), self._entropy.token(16), caller, self.manifest.ref)


def _idle(live: LiveUnit) -> list[OpenIntent]:
    """Returns the open intents that nobody performs: no task was started, or it was stopped before it began."""
    return [i for i in live.state.intents.values() if not i.awaits_approval and not live.is_doing(i.id)]
