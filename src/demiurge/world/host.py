"""The embedded host: it runs units and effects in this process, on one store.

Units advance one ingress at a time; what many units have to write at once is one transaction and one fsync (group
commit). Nothing is acknowledged, delivered or dispatched before it is durable (architecture.md 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Attempt, Batch, Outgoing, Row, Store
from demiurge.tools.events import AiEvent
from demiurge.values import cbor
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy
from demiurge.values.refs import Ref, ref_from_digest, ref_of
from demiurge.world.cell import cell_node
from demiurge.world.effect import Adapter, EffectCall, Reading, Restart, Result, failed
from demiurge.world.kernel import Advance, Ingress, Sent, event_digest, routed
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record, Stamp
from demiurge.world.replay import Manifests, decode_row, fold, step
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["Accepted", "Frame", "Host"]


class Accepted(NamedTuple):
    """An event that is durable: where it lies, and its identity."""

    unit: str
    seq: int
    event_hash: Ref


class Frame(NamedTuple):
    """Something that happens while an effect runs. Shown, never stored."""

    unit: Unit
    intent: bytes
    event: AiEvent


@dataclass(slots=True)
class _Waiting:
    """An ingress in a unit's mailbox, and who waits for its record."""

    ingress: Ingress
    taken: asyncio.Future[int | None]
    delivered: str | None = None


@dataclass(slots=True)
class _Live:
    """A unit in memory."""

    state: UnitState
    mailbox: list[_Waiting] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    effects: dict[bytes, asyncio.Task[None]] = field(default_factory=dict)
    pumping: bool = False
    failure: DemiurgeError | None = None


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
    ) -> None:
        self.store = store
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()
        self.manifests = Manifests(manifest, store.get_blob)
        self.watchers: list[Callable[[Frame], None]] = []
        self.notices: list[str] = []
        """Sentences for the user about what was found at start."""
        self._adapters = {kind: adapter for adapter in adapters for kind in adapter.kinds}
        self._live: dict[Unit, _Live] = {}
        self._answers: dict[bytes, asyncio.Future[Result]] = {}
        self._writer = ThreadPoolExecutor(1, "demiurge-store")
        self._commits: list[tuple[Batch, Sequence[bytes], asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._token = self.entropy.token(8).hex()
        self._closing = False

    @property
    def manifest(self) -> Manifest:
        return self.manifests.current

    async def start(self) -> None:
        """Store the manifest, then take up what an earlier process left open (architecture.md 2, rule 3)."""
        sources = [reducer.source for reducer in self.manifest.reducers.values()]
        await self._write(self.store.put_blobs, [self.manifest.node, *sources])
        for head in list(self.store.heads(open_only=True)):
            unit = Unit.parse(head.unit)
            try:
                live = self._unit(unit)
            except DemiurgeError as error:
                self.notices.append(f"{unit} is left alone: {error}")
                continue
            ready = [intent for intent in live.state.intents.values() if not intent.awaits_approval]
            tried = self.store.attempts([intent.id for intent in ready])
            for intent in ready:
                self._dispatch(live, intent, tried=intent.id in tried)
        for outgoing in self.store.outbox():
            self._deliver(_read_outgoing(outgoing))

    async def close(self) -> None:
        """Stop without finishing: what is open is taken up at the next start."""
        self._closing = True
        tasks = [task for live in self._live.values() for task in (*live.tasks, *live.effects.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._committing is not None:
            await self._committing
        self._writer.shutdown()

    # -- taking events ------------------------------------------------------------------------------------------------

    async def submit(
        self,
        schema: str,
        value: Any,
        *,
        key: str | None = None,
        idempotency_key: str | None = None,
        actor: str = "user",
    ) -> Accepted:
        """Take an event in; it is durable when this returns.

        Raises InvalidValue (schema), NotFound (a blob that it names), UsageError (no route, or `key` is not the
        event's), Unavailable (the disk).
        """
        unit, target, value, refs = self.prepare(schema, value, key=key)
        ingress_id = f"key:{idempotency_key}" if idempotency_key else f"new:{self.entropy.token(16).hex()}"
        body = {"schema": target, "value": value}
        seq = await self._offer(unit, Ingress("event", ingress_id, body, self._stamp(actor), None, refs))
        assert seq is not None
        if idempotency_key:
            stored = next(self.records(unit, from_seq=seq, limit=1)).body
            target, value = stored["schema"], stored["value"]
        return Accepted(str(unit), seq, ref_from_digest(event_digest(target, value, unit.key)))

    def prepare(
        self, schema: str, value: Any, *, key: str | None = None
    ) -> tuple[Unit, str, Any, tuple[Ref, ...]]:
        """Check an event without taking it: its unit, its schema and value as the unit will see them, its blobs."""
        manifest = self.manifest
        if schema not in manifest.schemas:
            raise NotFound(f"There is no schema {schema}; `demiurge manifest get` lists them.", code="unknown_schema")
        validator = manifest.schemas.validator(schema)
        value = validator.normalise(value)
        target = routed(manifest, schema, value)
        if target is None:
            raise UsageError(f"No module takes {schema} events.", code="unroutable")
        unit, target_schema, target_value = target
        if key is not None and key != unit.key:
            raise UsageError(f"The event's own key is {unit.key!r}, not {key!r}.", code="wrong_key")
        refs = tuple(validator.refs(value))
        for ref in refs:
            if not self.store.has_blob(ref):
                raise NotFound(f"There is no blob {ref} here; store it first with `demiurge blob put`.")
        return unit, target_schema, target_value, refs

    async def send(self, schema: str, value: Any, *, ingress_id: str, actor: str) -> list[Record]:
        """Submit an event once and return the records of its step, also when it was submitted before."""
        unit, target, value, refs = self.prepare(schema, value)
        ingress = Ingress(
            "event", ingress_id, {"schema": target, "value": value}, self._stamp(actor), None, refs
        )
        seq = await self._offer(unit, ingress)
        assert seq is not None
        records: list[Record] = []
        for record in self.records(unit, from_seq=seq):
            if record.is_ingress and records:
                break
            records.append(record)
        return records

    async def decide(self, intent: bytes, *, approve: bool, reason: str, actor: str) -> None:
        """Answer a request for approval. Raises NotFound when there is none with this id."""
        for unit, open_intent in self.approvals():
            if open_intent.id == intent:
                body = {
                    "intent": intent,
                    "verdict": "approve" if approve else "reject",
                    "reason": reason,
                    "by": actor,
                }
                ingress_id = f"approval:{intent.hex()}"
                await self._offer(
                    unit, Ingress("approval", ingress_id, body, self._stamp(actor), open_intent.seq)
                )
                return
        raise NotFound("Nothing with this id waits for approval; `demiurge approvals ls` lists what does.")

    def approvals(self) -> list[tuple[Unit, OpenIntent]]:
        """Every intent that waits for a person."""
        for head in self.store.heads(open_only=True):
            with suppress(DemiurgeError):
                self._unit(Unit.parse(head.unit))
        return [
            (unit, intent)
            for unit, live in self._live.items()
            for intent in live.state.intents.values()
            if intent.awaits_approval
        ]

    async def cancel(self, unit: Unit, *, reason: str, actor: str) -> None:
        """Stop the effects that run for a unit, and withdraw its requests for approval."""
        live = self._unit(unit)
        for intent in list(live.state.intents.values()):
            if intent.awaits_approval:
                await self.decide(intent.id, approve=False, reason=reason, actor=actor)
        running = list(live.effects.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- reading ------------------------------------------------------------------------------------------------------

    def state(self, unit: Unit) -> UnitState:
        """The unit's state as of its last durable record."""
        return self._unit(unit).state

    async def read_cell(self, unit: Unit) -> Reading:
        """A unit's cell with its digest; nodes of long lists are stored so that the digest can be followed."""
        state = self.state(unit)
        if state.cell is None:
            return Reading(unit, state.seq, None, None)
        node, chunks = cell_node(state.cell)
        await self._write(self.store.put_blobs, [node, *chunks.values()])
        return Reading(unit, state.seq, state.cell, ref_of(node))

    def records(self, unit: Unit, from_seq: int = 0, limit: int | None = None) -> Any:
        return map(decode_row, self.store.read(str(unit), from_seq, limit))

    async def put_blob(self, data: bytes) -> Ref:
        ref: Ref = await self._write(self.store.put_blob, data)
        return ref

    def get_blob(self, ref: Ref) -> bytes:
        return self.store.get_blob(ref)

    async def settle(self, unit: Unit | None = None) -> None:
        """Wait until nothing goes on by itself in `unit` (or anywhere). Raises what kept a unit from going on."""
        while True:
            lives = list(self._live.values()) if unit is None else [self._unit(unit)]
            tasks = [task for live in lives for task in (*live.tasks, *live.effects.values())]
            if not tasks:
                for live in lives:
                    if live.failure is not None:
                        raise live.failure
                return
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def replay(self, progress: Callable[[str, int], None] = lambda _unit, _seq: None) -> tuple[int, int]:
        """Compute every unit again from its ingress: (units, records). Raises Divergence or Damaged."""
        units = records = 0
        for head in list(self.store.heads()):
            unit, seq = Unit.parse(head.unit), 0
            rows = self.store.read(head.unit)
            for state in fold(self.store.world_id, unit, rows, self.manifests, self.store.get_blob):
                seq = state.seq
                progress(head.unit, seq)
            units, records = units + 1, records + seq
        return units, records

    # -- units --------------------------------------------------------------------------------------------------------

    def _unit(self, unit: Unit) -> _Live:
        live = self._live.get(unit)
        if live is None:
            state = UnitState(self.store.world_id, unit)
            rows = self.store.read(str(unit))
            for state in fold(self.store.world_id, unit, rows, self.manifests, self.store.get_blob):
                pass
            live = self._live[unit] = _Live(state)
        return live

    def _stamp(self, actor: str) -> Stamp:
        return Stamp(self.clock.now_ns(), self.entropy.token(16), actor, self.manifest.ref)

    async def _offer(self, unit: Unit, ingress: Ingress) -> int | None:
        """Queue an ingress; the number of its record once durable, None when the kernel had no use for it."""
        return await self._enqueue(self._unit(unit), ingress).taken

    def _enqueue(self, live: _Live, ingress: Ingress, delivered: str | None = None) -> _Waiting:
        waiting = _Waiting(ingress, asyncio.get_running_loop().create_future(), delivered)
        live.mailbox.append(waiting)
        if not live.pumping:
            live.pumping = True
            self._spawn(live, self._pump(live))
        return waiting

    def _spawn(self, live: _Live, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        live.tasks.add(task)
        task.add_done_callback(live.tasks.discard)
        return task

    async def _pump(self, live: _Live) -> None:
        """Advance a unit through its mailbox: one batch of records for all that waits."""
        try:
            while live.mailbox:
                taken, live.mailbox = live.mailbox, []
                try:
                    await self._advance(live, taken)
                except DemiurgeError as error:
                    live.failure = error
                    for waiting in taken:
                        if not waiting.taken.done():
                            waiting.taken.set_exception(error)
                            waiting.taken.exception()
        finally:
            live.pumping = False

    async def _advance(self, live: _Live, taken: Sequence[_Waiting]) -> None:
        state, expected = live.state, live.state.seq
        rows: list[Row] = []
        steps: list[Advance] = []
        numbers: list[int | None] = []
        fresh: set[str] = set()
        for waiting in taken:
            ingress = waiting.ingress
            known = self.store.find_ingress(str(state.unit), ingress.id)
            if known is not None or ingress.id in fresh:
                numbers.append(known)
                continue
            fresh.add(ingress.id)
            outcome = step(self.manifest, state, ingress, self.store.get_blob)
            numbers.append(outcome.records[0].unit_seq if outcome.records else None)
            rows += [_row(r, ingress.id if r is outcome.records[0] else None) for r in outcome.records]
            state = outcome.state
            steps.append(outcome)
        outbox = tuple(_outgoing(sent) for outcome in steps for sent in outcome.outbox)
        delivered = tuple(w.delivered for w in taken if w.delivered is not None)
        if rows or delivered:
            batch = Batch(str(state.unit), expected, tuple(rows), state.is_open, outbox, delivered)
            await self._commit(batch, [blob for outcome in steps for blob in outcome.new_blobs])
        live.state, live.failure = state, None
        for waiting, number in zip(taken, numbers, strict=True):
            if not waiting.taken.done():
                waiting.taken.set_result(number)
        for outcome in steps:
            self._publish(live, outcome)

    def _publish(self, live: _Live, outcome: Advance) -> None:
        """What may happen only now that the records are durable."""
        for intent_id, result in outcome.answers:
            waiting = self._answers.get(intent_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(result)
        for sent in outcome.outbox:
            self._deliver(sent)
        for intent in outcome.intents:
            if intent.id in live.state.intents:
                self._dispatch(live, intent, tried=False)

    def _deliver(self, sent: Sent) -> None:
        live = self._unit(sent.target)
        body = {"schema": sent.schema, "value": sent.value}
        refs = tuple(self.manifest.schemas.validator(sent.schema).refs(sent.value))
        ingress = Ingress("event", f"sent:{sent.id}", body, self._stamp(sent.cause["unit"]), sent.cause, refs)
        self._enqueue(live, ingress, sent.id)

    # -- effects ------------------------------------------------------------------------------------------------------

    def _dispatch(self, live: _Live, intent: OpenIntent, *, tried: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._perform(live, intent, tried))
        live.effects[intent.id] = task
        task.add_done_callback(lambda _task: live.effects.pop(intent.id, None))

    async def _perform(self, live: _Live, intent: OpenIntent, tried: bool) -> None:
        """Try an effect and offer its receipt. The attempt is durable before anything is done."""
        manifest = self.manifests[intent.manifest]
        adapter = self._adapters.get(intent.kind)
        actor = intent.actor
        if adapter is None:
            await self._receipt(live, intent, failed("no_adapter", f"Nothing here performs {intent.kind}."), [], actor)
            return
        restart: Restart | None = adapter.restart(intent, manifest) if tried else None
        if restart == "in_doubt":
            await self._receipt(live, intent, IN_DOUBT, [], actor)
            return
        call = EffectCall(
            unit=live.state.unit,
            intent=intent,
            manifest=manifest,
            actor=actor,
            services=self,
            progress=lambda event: self._show(Frame(live.state.unit, intent.id, event)),
            restart=restart,
        )
        try:
            attempt = Attempt(intent.id, str(live.state.unit), self._token, self.clock.now_ns())
            await self._write(self.store.begin_attempts, [attempt])
            result = await adapter.perform(call)
        except asyncio.CancelledError:
            if self._closing:
                raise
            harmless = adapter.restart(intent, manifest) == "retry"
            result = failed("cancelled", "The call was stopped.") if harmless else IN_DOUBT
        except DemiurgeError as error:
            live.failure = error
            return
        except Exception as error:  # noqa: BLE001 - an adapter's fault is an outcome
            harmless = adapter.restart(intent, manifest) == "retry"
            result = failed("effect_failed", type(error).__name__) if harmless else IN_DOUBT
        await self._receipt(live, intent, IN_DOUBT if call.in_doubt else result, call.refs, actor)

    async def _receipt(
        self, live: _Live, intent: OpenIntent, result: Result, refs: Sequence[Ref], actor: str
    ) -> None:
        manifest = self.manifests[intent.manifest]
        effect = manifest.effects[intent.kind]
        schema = effect.receipt if result["status"] == "ok" else "sys/EffectError@1"
        validator = manifest.schemas.validator(schema)
        try:
            payload = validator.normalise(result["payload"])
        except InvalidValue as error:
            result = failed("receipt_invalid", f"The answer to {intent.kind} was malformed ({error.path}).")
            payload = result["payload"]
        body = {"intent": intent.id, "status": result["status"], "payload": payload}
        exposed = (*validator.refs(payload), *refs) if result["status"] == "ok" else tuple(refs)
        ingress = Ingress(
            "receipt", f"receipt:{intent.id.hex()}", body, self._stamp(actor), intent.seq, exposed
        )
        with suppress(DemiurgeError):  # kept in `live.failure`; the attempt without receipt tells the next start
            await self._enqueue(live, ingress).taken

    async def request(self, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """A capability request of a running tool; a re-run tool is answered from what was recorded."""
        live = self._unit(call.unit)
        ordinal, call.requests = call.requests, call.requests + 1
        parent = live.state.intents.get(call.intent.id)
        digest = cbor.digest(params)
        known = parent.requests.get(ordinal) if parent is not None else None
        if parent is None or (known is not None and (known.kind, known.params_digest) != (kind, digest)):
            call.in_doubt = True
            return failed("unknown_outcome", "The tool asked for something else than it did before.")
        if known is not None and known.answer is not None:
            return known.answer
        intent_id = cbor.digest([parent.id, ordinal, kind, digest])
        answer = self._answers.setdefault(intent_id, asyncio.get_running_loop().create_future())
        if known is None:
            body = {"parent": parent.id, "ordinal": ordinal, "kind": kind, "params": dict(params)}
            ingress_id = f"request:{parent.id.hex()}:{ordinal}"
            stamp = self._stamp(call.actor)
            await self._enqueue(
                live, Ingress("capability_request", ingress_id, body, stamp, parent.seq)
            ).taken
        try:
            return await answer
        finally:
            self._answers.pop(intent_id, None)

    def _show(self, frame: Frame) -> None:
        for watcher in self.watchers:
            watcher(frame)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run a store call on the writer thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    async def _commit(self, batch: Batch, blobs: Sequence[bytes]) -> None:
        """Append a batch together with whatever else is waiting to be appended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._commits.append((batch, blobs, done))
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit_all())
        await asyncio.shield(done)

    async def _commit_all(self) -> None:
        while self._commits:
            taken, self._commits = self._commits, []
            blobs = [blob for _, some, _ in taken for blob in some]
            try:
                await self._write(lambda: self.store.append([b for b, _, _ in taken], blobs=blobs))  # noqa: B023
            except Exception as error:  # noqa: BLE001 - every waiter is told
                for _, _, done in taken:
                    done.set_exception(error)
                    done.exception()
            else:
                for _, _, done in taken:
                    done.set_result(None)


IN_DOUBT = failed("unknown_outcome", "It is not known whether this call took effect.")


def _row(record: Record, ingress_id: str | None) -> Row:
    return Row(record.unit, record.unit_seq, record.kind, record.hash, record.data, ingress_id)


def _outgoing(sent: Sent) -> Outgoing:
    data = cbor.encode({"schema": sent.schema, "value": sent.value, "cause": dict(sent.cause)})
    return Outgoing(sent.id, str(sent.cause["unit"]), str(sent.target), data)


def _read_outgoing(outgoing: Outgoing) -> Sent:
    node = cbor.decode(outgoing.data)
    return Sent(outgoing.id, Unit.parse(outgoing.target), node["schema"], node["value"], node["cause"])


