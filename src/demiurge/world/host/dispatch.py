"""Dispatch: performs intents as effects, and turns their results into receipts.

An attempt is durable before anything is done outside. So a crash leaves one of three traces: no attempt (nothing was
done), an attempt without a receipt (the adapter decides what to do), or a receipt (docs/architecture.md, rule 3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

from demiurge import faults
from demiurge.capabilities.injection import Injections
from demiurge.errors import DemiurgeError, InvalidValue, Unavailable
from demiurge.stores.protocol import Attempt, Store
from demiurge.tools.events import AiEvent
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref
from demiurge.world.authority.admission import uncovered
from demiurge.world.effect import (
    Adapter,
    Answering,
    Claiming,
    Deferring,
    EffectCall,
    Preflight,
    Refusing,
    Restart,
    Result,
    Services,
    failed,
)
from demiurge.world.effect_kinds import TOOL
from demiurge.world.history.replay import Manifests
from demiurge.world.host.commit import Committer
from demiurge.world.host.live import LiveUnit
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.record import Stamp
from demiurge.world.state import OpenIntent
from demiurge.world.watching.broadcast import Broadcast, Strip
from demiurge.world.watching.masking import Masking

__all__ = ["Dispatcher", "attempt_key"]

log = logging.getLogger("demiurge.world")

MAX_ATTEMPTS = 8
"""The most attempts of an effect. An effect that ends its process each time is then given up, so that the world stays
usable."""

MAX_REQUESTS = 1000

STOPPED = failed("cancelled", "The call was stopped.")
GAVE_UP = failed("gave_up", f"The process ended {MAX_ATTEMPTS} times while this effect was running.")
IN_DOUBT = failed("unknown_outcome", "It is not known whether this call took effect.")
UNWORDED = failed("effect_failed", "A person answered, and the answer can't be read.")
OVER = failed("deadline_exceeded", "The time of this run is over.")


class Dispatcher:
    """Performs the intents of a host's units, and shows watchers the progress. The end of an effect is shown once its
    receipt is durable."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        adapters: Sequence[Adapter],
        manifests: Manifests,
        services: Services,
        clock: Clock,
        token: str,
        stamp: Callable[[Caller], Stamp],
        broadcast: Broadcast,
    ) -> None:
        self._broadcast = broadcast
        self._store, self._committer, self._manifests = store, committer, manifests
        self._services, self._clock, self._token, self._stamp = services, clock, token, stamp
        self._adapters = {kind: adapter for adapter in adapters for kind in adapter.kinds}
        self._deferring = {kind: a for kind, a in self._adapters.items() if isinstance(a, Deferring)}
        self._claiming = {kind: a for kind, a in self._adapters.items() if isinstance(a, Claiming)}
        self._preflights = {kind: a for kind, a in self._adapters.items() if isinstance(a, Preflight)}
        self._refusing = {kind: a for kind, a in self._adapters.items() if isinstance(a, Refusing)}
        self._answering = {kind: a for kind, a in self._adapters.items() if isinstance(a, Answering)}
        self._answers: dict[bytes, asyncio.Future[Result]] = {}
        self._unstored: dict[bytes, Ingress] = {}
        self._begun: set[bytes] = set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self.closing = False

    def pause(self) -> None:
        """Lets no further effect begin, except those that a running tool requests."""
        self._resumed.clear()

    def resume(self) -> None:
        """Lets effects begin again."""
        self._resumed.set()

    def has_begun(self, intent: bytes) -> bool:
        """Returns whether an intent is being performed, and does not wait for its turn or for `resume`."""
        return intent in self._begun

    def start(self, live: LiveUnit, intent: OpenIntent, *, tried: bool) -> None:
        """Performs an intent in the background. `tried` says that an earlier process made an attempt."""
        self._run(live, intent.id, self._perform(live, intent, tried))

    def _run(self, live: LiveUnit, key: bytes, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        def forget(ended: asyncio.Task[None]) -> None:
            if live.effects.get(key) is ended:
                del live.effects[key]

        task = asyncio.create_task(work)
        live.effects[key] = task
        task.add_done_callback(forget)
        return task

    def preflight(self, live: LiveUnit, intent: OpenIntent) -> None:
        """Checks in the background whether an intent that waits for a person has its answer already."""
        adapter, key = self._preflights.get(intent.kind), b"preflight:" + intent.id
        if adapter is not None and not live.is_doing(key):
            self._run(live, key, self._preflight(adapter, live, intent))

    def answer(self, intent: bytes, result: Result) -> None:
        """Gives a durable receipt to the running tool that waits for it."""
        waiting = self._answers.get(intent)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)

    def is_repeatable(self, intent: OpenIntent) -> bool:
        """Returns whether the effect may be tried again without reconciling."""
        adapter = self._adapters.get(intent.kind)
        return adapter is None or adapter.restart(intent, self._manifests[intent.manifest]) == "retry"

    def due_ns(self, intent: OpenIntent) -> int | None:
        """Returns when the effect may begin, or when its run is over if that is earlier, in nanoseconds since 1970;
        None if it may begin at once."""
        adapter, ends_ns = self._deferring.get(intent.kind), intent.deadline_ns
        if adapter is None:
            return None
        due_ns = adapter.due_ns(intent)
        return due_ns if ends_ns is None else min(due_ns, ends_ns)

    def withdraw(self, live: LiveUnit, intent: OpenIntent) -> asyncio.Task[None]:
        """Answers an intent that nobody performs; nobody can begin to perform it meanwhile."""
        return self._run(live, intent.id, self._withdraw(live, intent))

    async def _withdraw(self, live: LiveUnit, intent: OpenIntent) -> None:
        harmless = self.is_repeatable(intent)
        tried = intent.id not in live.begun and bool(self._store.attempts([intent.id]))
        live.begun.discard(intent.id)
        stopped = IN_DOUBT if tried and not harmless else STOPPED
        result, call = await self._answered(live, intent, failed(**intent.refused) if intent.refused else stopped)
        await self._settle(live, intent, self._receipt(intent, result, call))

    async def request(self, live: LiveUnit, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """Answers a running tool's request for an effect. A tool that runs again gets the recorded answers, in
        order."""
        ordinal, call.requests = call.requests, call.requests + 1
        parent = live.state.intents.get(call.intent.id)
        digest = cbor.digest(params)
        known = parent.requests.get(ordinal) if parent is not None else None
        if ordinal >= MAX_REQUESTS:
            return failed("too_many_requests", f"One call may ask for at most {MAX_REQUESTS} effects.")
        if parent is None or (known is not None and (known.kind, known.params_digest) != (kind, digest)):
            call.in_doubt = True
            return failed("unknown_outcome", "The tool asked for something else than in its first run.")
        if known is not None and known.answer is not None:
            return known.answer
        intent_id = cbor.digest([parent.id, ordinal, kind, digest])
        answer = self._answers.setdefault(intent_id, asyncio.get_running_loop().create_future())
        body = {"parent": parent.id, "ordinal": ordinal, "kind": kind, "params": dict(params)}
        ingress_id = f"request:{parent.id.hex()}:{ordinal}"
        ingress = Ingress("capability_request", ingress_id, body, self._stamp(call.caller), parent.seq)
        try:
            if known is None and await live.offer(ingress) is None:
                return failed("cancelled", "The call that asked is over.")
            faults.point("request.taken")
            answered = await answer
            faults.point("request.answered")
            return answered
        finally:
            self._answers.pop(intent_id, None)

    async def _perform(self, live: LiveUnit, intent: OpenIntent, tried: bool) -> None:
        """Brings an intent to its durable receipt. If the store refuses the receipt, it is kept until the intent is
        taken up again, and no other tool of the unit runs before that: the next call sees the effects of the last one
        through its receipt."""
        is_tool = intent.kind == TOOL
        try:
            async with self._alone_in_unit(live, intent, tried) if is_tool else nullcontext():
                await self._may_begin(live, intent)
                if is_tool and live.failure is not None:
                    raise live.failure
                if intent.id not in self._unstored:
                    result, call = await self._result(live, intent, tried)
                    self._unstored[intent.id] = self._receipt(intent, result, call)
                    faults.point("effect.performed")
                await self._settle(live, intent, self._unstored[intent.id])
                del self._unstored[intent.id]
                faults.point("effect.received")
        except Exception as fault:  # noqa: BLE001 - the waiting tool gets the error
            error = live.fail(fault)
            waiting = self._answers.get(intent.id)
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
        finally:
            self._begun.discard(intent.id)

    async def _may_begin(self, live: LiveUnit, intent: OpenIntent) -> None:
        """Waits while effects are paused. An effect whose attempt or result is there already, or that a running tool
        waits for, goes on."""
        goes_on = intent.id in live.begun or intent.id in self._unstored or intent.origin["kind"] == "tool"
        if not goes_on:
            await self._resumed.wait()
        self._begun.add(intent.id)

    @asynccontextmanager
    async def _alone_in_unit(self, live: LiveUnit, intent: OpenIntent, tried: bool) -> AsyncIterator[None]:
        """The context in which no other tool of the unit runs."""
        is_begun = not tried and intent.refused is None and not intent.only_asks
        live.calls[intent.id] = intent if is_begun else None
        try:
            await live.one_call.acquire()
        finally:
            del live.calls[intent.id]
        try:
            yield
        finally:
            live.one_call.release()

    async def _preflight(self, adapter: Preflight, live: LiveUnit, intent: OpenIntent) -> None:
        """Answers the intent if its adapter has an answer. If the adapter fails, the person is asked as before."""
        unit = live.state.unit
        shown: list[AiEvent] = []
        call = EffectCall(unit, intent, self._manifests[intent.manifest], intent.caller, self._services, shown.append)
        try:
            async with live.one_call:
                result = await adapter.preflight(call) if live.failure is None else None
                if result is None or intent.id not in live.state.intents:
                    return
                strip = self._strip(live, intent, 0)
                for event in shown:
                    strip.show(event)
                await self._settle(live, intent, self._receipt(intent, result, call))
        except Exception as fault:  # noqa: BLE001 - nothing was done outside
            log.warning("the preflight of %s failed: %s", intent.kind, type(fault).__name__)

    async def _settle(self, live: LiveUnit, intent: OpenIntent, receipt: Ingress) -> None:
        """Makes a receipt durable, and in the same transaction the attempt of the unit's next call; then tells watchers
        that the effect has ended."""
        following = next(iter(live.calls.values()), None) if intent.kind == TOOL else None
        if following is not None and (following.id in self._unstored or not self._resumed.is_set()):
            following = None
        begins = self._attempt(live, following, 0) if following is not None else None
        self._broadcast.close(live.state.unit, intent.id, await live.offer(receipt, begins=begins))

    async def _result(self, live: LiveUnit, intent: OpenIntent, tried: bool) -> tuple[Result, EffectCall | None]:
        """Returns the result of an intent, and its performance if there was one. Raises Unavailable: there is no result
        yet."""
        manifest = self._manifests[intent.manifest]
        adapter = self._adapters.get(intent.kind)
        if intent.refused is not None:
            return await self._answered(live, intent, failed(**intent.refused))
        if intent.only_asks and intent.answer_ref is not None and intent.kind in self._answering:
            return await self._worded(live, intent, self._answering[intent.kind].answer, UNWORDED)
        if adapter is None:
            return failed("no_adapter", f"This process has no adapter for {intent.kind}."), None
        restart: Restart | None = adapter.restart(intent, manifest) if tried else None
        attempts = self._attempts(intent) if tried else 0
        if restart == "in_doubt" or attempts == MAX_ATTEMPTS:
            return await self._answered(live, intent, GAVE_UP if restart == "retry" else IN_DOUBT)
        refused = self._refused(intent)
        if refused is not None:
            return refused, None
        left_s = self._left_s(intent)
        if left_s is not None and left_s <= 0 and restart != "reconcile":
            return await self._answered(live, intent, IN_DOUBT if intent.requests else OVER)
        unit = live.state.unit
        faults.point("effect.before_attempt")
        try:
            if intent.id not in live.begun:
                await self._committer.begin(self._attempt(live, intent, attempts))
        except asyncio.CancelledError:
            if self.closing:
                raise
            return await self._answered(live, intent, STOPPED)
        live.begun.discard(intent.id)
        faults.point("effect.attempted")
        strip = self._strip(live, intent, attempts)
        injections = Injections()
        masking = Masking(injections, strip.show)
        call = EffectCall(
            unit=unit,
            intent=intent,
            manifest=manifest,
            caller=intent.caller,
            services=self._services,
            progress=masking.see,
            restart=restart,
            injections=injections,
            requests=len(intent.requests) if restart == "reconcile" else 0,
        )
        return await self._outcome(adapter, call, strip, masking), call

    async def _answered(self, live: LiveUnit, intent: OpenIntent, result: Result) -> tuple[Result, EffectCall | None]:
        """Returns the answer to an intent that is not performed: the adapter's, if it words such answers, else
        `result`."""
        adapter = self._refusing.get(intent.kind)
        if adapter is None:
            return result, None
        return await self._worded(live, intent, lambda call: adapter.refuse(call, **result["payload"]), result)

    async def _worded(
        self,
        live: LiveUnit,
        intent: OpenIntent,
        word: Callable[[EffectCall], Coroutine[Any, Any, Result]],
        otherwise: Result,
    ) -> tuple[Result, EffectCall | None]:
        """Returns the result that an adapter words, or `otherwise` if the adapter fails. Watchers see it like any
        other. It needs no attempt, because nothing is done outside."""
        unit, strip = live.state.unit, self._strip(live, intent, 0)
        call = EffectCall(unit, intent, self._manifests[intent.manifest], intent.caller, self._services, strip.show)
        try:
            return await word(call), call
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the other result stands if the adapter fails
            log.error("the adapter of %s failed: %s", intent.kind, type(error).__name__)
            return otherwise, None

    def _strip(self, live: LiveUnit, intent: OpenIntent, attempt: int) -> Strip:
        """Returns the new strip of an attempt."""
        state = live.state
        return self._broadcast.begin(state.unit, intent.id, attempt, intent.kind, state.request_of(intent))

    def _attempt(self, live: LiveUnit, intent: OpenIntent, number: int) -> Attempt:
        key, claiming = attempt_key(intent, number), self._claiming.get(intent.kind)
        changes = not self.is_repeatable(intent)
        claims = changes and claiming is not None and claiming.claims(intent)
        return Attempt(key, str(live.state.unit), self._token, self._clock.now_ns(), changes, claims)

    def _refused(self, intent: OpenIntent) -> Result | None:
        """Returns why the grants in force do not cover an effect that was admitted under another manifest; None if they
        do. So an effect whose grant was withdrawn does not begin, and a world from elsewhere brings no permission. For
        a tool's call, its runner decides again."""
        manifest = self._manifests.current
        if intent.manifest == manifest.ref or intent.kind == TOOL:
            return None
        effect = manifest.effects.get(intent.kind)
        if effect is None:
            return failed("unknown_effect", f"There is no effect {intent.kind}.")
        try:
            params = manifest.schemas.validator(effect.params).normalise(intent.params)
        except InvalidValue as error:
            return failed("effect_params_invalid", str(error))
        denied = uncovered(manifest, effect, params, intent.grant, intent.origin, self._clock.now_ns())
        return failed(denied.code, denied.message) if denied is not None else None

    def _attempts(self, intent: OpenIntent) -> int:
        """Returns how many attempts have been made."""
        return len(self._store.attempts([attempt_key(intent, number) for number in range(MAX_ATTEMPTS)]))

    async def _outcome(self, adapter: Adapter, call: EffectCall, strip: Strip, masking: Masking) -> Result:
        """Returns the adapter's answer. If it fails to answer, the outcome is what is known: nothing happened, or
        nobody knows. The effect is stopped when its run is over; a tool is stopped by its runner, which knows more
        about it."""
        harmless = adapter.restart(call.intent, call.manifest) == "retry"
        limit = asyncio.timeout(None if call.intent.kind == TOOL else self._left_s(call.intent))
        try:
            async with limit:
                with masking:
                    result = await adapter.perform(call)
        except asyncio.CancelledError:
            if self.closing:
                raise
            await self._keep_shown(call, strip)
            return STOPPED if harmless else IN_DOUBT
        except DemiurgeError as error:
            result = failed(error.code, error.message) if harmless else IN_DOUBT
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any fault of an adapter is an outcome
            if limit.expired():
                result = OVER if harmless else IN_DOUBT
            else:
                log.error("the adapter of %s failed: %s", call.intent.kind, type(error).__name__)
                result = failed("effect_failed", type(error).__name__) if harmless else IN_DOUBT
        if call.stalled is not None:  # also if the adapter handled it
            raise call.stalled
        if result["status"] == "error":
            await self._keep_shown(call, strip)
        return IN_DOUBT if call.in_doubt else {**result, "payload": call.injections.masked(result["payload"])}

    def _left_s(self, intent: OpenIntent) -> float | None:
        """Returns how many seconds the intent's run has left; None if it has no deadline."""
        return None if intent.deadline_ns is None else (intent.deadline_ns - self._clock.now_ns()) / 1e9

    async def _keep_shown(self, call: EffectCall, strip: Strip) -> None:
        """Stores the text that was shown of an answer that then failed. It is no answer, but the receipt names it, so
        it is not lost."""
        if text := strip.text:
            with suppress(Unavailable):
                call.refs.append(await self._committer.hold(text.encode("utf-8", "replace")))

    def _receipt(self, intent: OpenIntent, result: Result, call: EffectCall | None = None) -> Ingress:
        """Returns the receipt of a result, with the blobs that it exposes and the secrets that were handed out for
        it."""
        manifest = self._manifests[intent.manifest]
        schema = manifest.effects[intent.kind].receipt if result["status"] == "ok" else "sys/EffectError@1"
        validator = manifest.schemas.validator(schema)
        exposed = call.refs if call is not None else ()
        refs: tuple[Ref, ...] = tuple(exposed)
        try:
            payload = validator.normalise(result["payload"])
            refs = (*validator.refs(payload), *refs)
            missing = [ref for ref in refs if not self._committer.has_blob(ref)]
            if missing:
                raise InvalidValue("names a blob that is not stored", path=missing[0])
        except InvalidValue as error:
            result, refs = failed("receipt_invalid", f"The answer to {intent.kind} was malformed ({error.path})."), ()
            payload = result["payload"]
        body = {"intent": intent.id, "status": result["status"], "payload": payload}
        if call is not None and call.injections.journaled:
            body["secrets"] = call.injections.journaled
        if call is not None and call.connection is not None:
            body["connection"] = call.connection
        if call is not None and call.untrusted:
            body["untrusted"] = sorted(call.untrusted)
        if "asks" in result:
            body["asks"] = result["asks"]
        return Ingress("receipt", f"receipt:{intent.id.hex()}", body, self._stamp(intent.caller), intent.seq, refs)


def attempt_key(intent: OpenIntent, number: int) -> bytes:
    """Returns the key under which attempt `number` of an intent is stored; each attempt has its own."""
    return intent.id if number == 0 else cbor.digest([intent.id, number])
