"""`tool.call`: runs one proposed call through the tool runner, with capabilities that are bound to the kernel.

The kernel has decided before this runs, and a person if the policy asks for one. The runner decides again and takes the
person's decision once, so a call that changed in between is refused.

A call works on a copy of its unit's session. Its receipt names the events that it folded, and from time to time a
checkpoint of the state before it (`world.sessions`).

With a ledger, a tool that has an `idempotency` runs once for equal calls of its world. The ledger's result is the
answer if an attempt has no receipt, and if a call waits for a person. An attempt that the ledger does not know is in
doubt.

A decision in the journal need not be this user's: `is_ours` tells which are. A call that somebody else approved is not
begun, and is in doubt if it had begun.

The same runner answers a refused call, without running it, so a refused call has a start, a result, a record and a text
for the model like any other.

Before a person is asked, the call has gone through the runner up to that point: a call that would be refused whatever
the person says is answered at once.

The answer to a question (`core__ask_user`) goes through the runner too, and becomes the result of the call. A tool that
asks half-way ends a leg of its call; the answer goes to its next leg (`legs`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from pydantic_core import from_json

from demiurge import faults
from demiurge.errors import DemiurgeError
from demiurge.tools.capabilities import GivenResults, People
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.observers import HeldNotifications, Observers
from demiurge.tools.execution.secret_mask import HideSecret
from demiurge.tools.input_required import Answers, ask_later
from demiurge.tools.ledger.idempotency import IdempotencyStrategy
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.ledger.reconcile import reconciling
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.record import ToolExecResult
from demiurge.tools.runner import ToolRunner
from demiurge.tools.source import StaticToolSource, ToolSource
from demiurge.tools.stages.spill import spilled_ref
from demiurge.values import canonical_json
from demiurge.values.clock import Clock
from demiurge.values.refs import Ref, ref_of
from demiurge.world.authority.admission import decide_tool
from demiurge.world.authority.observing import policy_at
from demiurge.world.authority.refusals import tool_code
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.tool_call import TOOLS
from demiurge.world.effects.binding import WorldParts, capabilities
from demiurge.world.effects.chosen_connection import ChosenConnection
from demiurge.world.effects.edited_answer import answer_text
from demiurge.world.effects.given_results import ChatResults
from demiurge.world.effects.held_blobs import HeldBlobs
from demiurge.world.effects.legs import asked_result, resumed
from demiurge.world.effects.program_objects import ProgramObjects
from demiurge.world.effects.read_only_ledger import ReadOnlyLedger
from demiurge.world.effects.recorded_answer import ANSWERED, QUESTIONS, RecordedAnswer, waiting_policy
from demiurge.world.effects.recorded_approval import NoApprovals, RecordedApproval
from demiurge.world.effects.tool_limits import ToolLimits
from demiurge.world.manifest import Manifest
from demiurge.world.messages import tool_blob
from demiurge.world.sealing import Sealing
from demiurge.world.sessions import Sessions
from demiurge.world.sessions.recorder import Recorder
from demiurge.world.state import OpenIntent

__all__ = ["ToolCalls"]

log = logging.getLogger("demiurge.world")


class ToolCalls:
    """The adapter of `tool.call`. `source` holds every tool that this process can run. Without `sessions` handlers have
    none, without a `ledger` equal calls of different turns are different calls, without `sealing` they cannot put into
    the secret vault. `errors` is where an author reads why a tool failed; `observers` hear of each call that is
    answered here. `objects`: those of the program that opened the world."""

    kinds = TOOLS.names

    def __init__(
        self,
        source: ToolSource,
        clock: Clock,
        sessions: Sessions | None = None,
        ledger: Ledger | None = None,
        sealing: Sealing | None = None,
        is_ours: Callable[[OpenIntent], bool] = lambda _approved: True,
        errors: ToolErrorLog | None = None,
        observers: Observers | None = None,
        credentials: ConnectionTokens | None = None,
        objects: ProgramObjects | None = None,
        resources_of: Callable[[EffectCall], Mapping[Any, Any]] = lambda _call: {},
    ) -> None:
        self._observers = observers if observers is not None else Observers()
        self._source, self._clock, self._sessions, self._ledger = source, clock, sessions, ledger
        self._sealing, self._is_ours, self._errors = sealing, is_ours, errors
        self._credentials, self._objects = credentials, objects if objects is not None else ProgramObjects()
        self._resources_of = resources_of
        self._held: dict[Ref, asyncio.Future[Any]] = {}
        """The `InputRequired.over` of waiting calls, by their state."""

    @classmethod
    def bind(cls, parts: WorldParts) -> ToolCalls:
        return cls(
            parts.source,
            parts.clock,
            parts.sessions,
            parts.ledger,
            parts.sealing,
            parts.is_ours,
            parts.errors,
            parts.observers,
            parts.credentials,
            parts.objects,
            parts.resources_of,
        )

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "retry" for a read, and for a tool that works through capabilities alone, because the records answer
        those; for any other tool "reconcile" if the ledger or the tool itself can find out, else "in_doubt"."""
        spec = manifest.toolset.get(intent.params["tool"])
        if spec is not None and spec.effect is ToolEffect.READ_ONLY:
            return "retry"
        tool = self._source.get(intent.params["tool"])
        if tool is not None and tool.works_through_capabilities:
            return "retry"
        can_find_out = tool is not None and tool.reconcile is not None
        return "reconcile" if can_find_out or self._may_know(intent) else "in_doubt"

    def claims(self, intent: OpenIntent) -> bool:
        """Returns whether a claim in the ledger is made before the tool's handler runs."""
        return self._may_know(intent)

    def _may_know(self, intent: OpenIntent) -> bool:
        """Returns whether the ledger may know the result of an equal call."""
        tool = self._source.get(intent.params["tool"])
        config = tool.idempotency if tool is not None else None
        return self._ledger is not None and config is not None and config.strategy is not IdempotencyStrategy.NONE

    async def preflight(self, call: EffectCall) -> Result | None:
        """Returns the answer to a call that waits for a person, if the ledger has it or the call would be refused
        whatever the person says: then nobody needs to be asked. A call whose tool only another process has is left to
        that process."""
        name = call.intent.params["tool"]
        is_elsewhere = name in call.manifest.toolset and self._source.get(name) is None
        if is_elsewhere or self._is_other(call):
            return None
        held = HeldNotifications()
        ran = await self._run(call, self._recorder(call), held.observers, asks=False)
        if not ran.result.record.replayed and ran.result.error_code not in _FINAL:
            return None
        held.tell(self._observers, ran.result.record)
        return await self._answer(call, ran)

    async def perform(self, call: EffectCall) -> Result:
        if call.intent.leg is not None:
            self._held.pop(call.intent.leg["state"], None)
        if self._is_other(call):
            return failed("unavailable", "This tool has changed since the call was proposed.")
        permitted = call.intent.permitted
        is_foreign = permitted.approved is not None and not self._is_ours(permitted)
        if is_foreign and call.restart is not None:
            return failed("unknown_outcome", SAFE_MESSAGES[ToolErrorCode.UNKNOWN_OUTCOME])
        try:
            recorder = self._recorder(call)
        except DemiurgeError as error:
            log.error("the session of %s can't be had: %s", call.unit, error.message)
            code = "unavailable" if call.restart != "reconcile" else "unknown_outcome"
            return failed(code, f"The session of this chat can't be read: {error.message}")
        ran = await self._run(call, recorder, self._observers, asks=not is_foreign)
        faults.point("tool.ran")
        is_blocked = ran.result.error_code is ToolErrorCode.QUARANTINED
        if call.restart == "reconcile" and (is_blocked or self._is_without_connection(call, ran.result)):
            return failed("unknown_outcome", SAFE_MESSAGES[ToolErrorCode.UNKNOWN_OUTCOME])
        return await self._answer(call, ran)

    async def refuse(self, call: EffectCall, code: str, message: str) -> Result:
        """Returns the answer to a refused call: the runner's words for what is wrong with it, else `message`."""
        if call.intent.leg is not None and (held := self._held.pop(call.intent.leg["state"], None)) is not None:
            held.cancel()  # nobody goes on with it
        if _may_have_acted(call):
            message = f"{message or SAFE_MESSAGES[tool_code(code)]} The server may have acted before it asked."
        proposed, sink, limits = _proposed(call), HeldBlobs(call), ToolLimits(call, self._clock)
        runner = ToolRunner(
            self._source,
            policy=_policy(call, self._clock.now_ns()),
            resources=self._observers.resources,
            approvals=NoApprovals(),
            emit=self._observers.emit_after(call.progress),
            blobs=sink,
            clock=self._clock,
        )
        result = runner.refuse(
            proposed.tool,
            proposed.raw_args,
            tool_code(code),
            message=message or None,
            tool_call_id=proposed.call_id,
            ctx=proposed.ctx,
        )
        return await self._answer(call, _Ran(result, None, sink, limits))

    async def answer(self, call: EffectCall) -> Result:
        """Returns a person's answer as the result of the question."""
        proposed, recorder, sink = _proposed(call), self._recorder(call), HeldBlobs(call)
        runner = ToolRunner(
            QUESTIONS,
            policy=ANSWERED,
            resources={People: RecordedAnswer(call), **self._observers.resources},
            session=recorder.session if recorder is not None else None,
            emit=self._observers.emit_after(call.progress),
            blobs=sink,
            clock=self._clock,
        )
        with recorder.recording() if recorder is not None else nullcontext():
            result = await runner.exec(
                proposed.tool, proposed.raw_args, tool_call_id=proposed.call_id, ctx=proposed.ctx
            )
        return await self._answer(call, _Ran(result, recorder, sink, ToolLimits(call, self._clock)))

    def _is_other(self, call: EffectCall) -> bool:
        """Returns whether the tool at hand differs from the one that the call was proposed for. A quarantined one is
        left to the runner, which answers so."""
        name = call.intent.params["tool"]
        tool, pinned = self._source.get(name), call.manifest.toolset.get(name)
        if tool is None or tool.spec.quarantined:
            return False
        return pinned is None or tool.spec.spec_hash != pinned.spec_hash

    async def _run(self, call: EffectCall, recorder: Recorder | None, observers: Observers, *, asks: bool) -> _Ran:
        """Runs the call through the runner; without `asks` only up to the decision of a person."""
        proposed = _proposed(call)
        sink, limits, connection = HeldBlobs(call), ToolLimits(call, self._clock), await self._connection(call)
        runner = ToolRunner(
            self._tools(call),
            policy=_policy(call, self._clock.now_ns()),
            resources={
                **self._objects.resources,
                **capabilities(call, self._sealing),
                **self._resources_of(call),
                People: RecordedAnswer(call),
                Answers: ask_later,
                GivenResults: ChatResults(call),
                HideSecret: call.injections.hide,
                **limits.resources,
                **observers.resources,
            },
            ledger=self._ledger_for(call, asks),
            approvals=RecordedApproval(call, self._clock, connection) if asks else NoApprovals(),
            connections=connection.access if connection is not None else None,
            session=recorder.session if recorder is not None else None,
            emit=observers.emit_after(call.progress),
            blobs=sink,
            clock=self._clock,
            log_tool_errors=self._errors or False,
        )
        with recorder.recording() if recorder is not None else nullcontext():
            result = await runner.exec(
                proposed.tool,
                proposed.raw_args,
                tool_call_id=proposed.call_id,
                ctx=proposed.ctx,
                connection_id=connection.connection_id if connection is not None else None,
                approval_id=call.intent.id.hex(),
                resumed=resumed(call),
            )
        return _Ran(result, recorder, sink, limits)

    async def _connection(self, call: EffectCall) -> ChosenConnection | None:
        """Returns the connection chosen for a call, as it stands now; None if the call's tool needs none."""
        tool = self._source.get(call.intent.params["tool"])
        if self._credentials is None or tool is None or not tool.requires_connection:
            return None
        return await ChosenConnection.read(call, self._credentials, self._clock, tool.connection_id)

    def _is_without_connection(self, call: EffectCall, result: ToolExecResult) -> bool:
        """Returns whether the call was refused because of its connection. An earlier attempt may have had the
        connection all the same."""
        tool = self._source.get(call.intent.params["tool"])
        refused = result.error_code in (ToolErrorCode.CONNECTION_UNAVAILABLE, ToolErrorCode.POLICY_DENIED)
        return tool is not None and tool.requires_connection and refused

    async def _answer(self, call: EffectCall, ran: _Ran) -> Result:
        """Returns the receipt's result."""
        result = ran.result
        if result.asks is not None:
            if result.asks.over is not None:
                self._held[ref_of(result.asks.state)] = result.asks.over
            return await asked_result(call, result, ran.limits.used().get("usage"), self._clock)
        parts = ran.sink.nodes(result.parts)
        await ran.sink.store(self._objects.blobs)
        faults.point("tool.blobs_held")
        view = canonical_json.encode(result.value) if result.ok else None
        call.untrusted.update(result.untrusted)
        verbatim = None
        if result.verbatim is not None:
            verbatim = await call.put_blob(result.verbatim)
        proposed_id, untrusted = call.intent.params["tool_call_id"], sorted(call.untrusted)
        told = answer_text(call, result)
        text = tool_blob(proposed_id, told, parts, untrusted, verbatim, await _whole(call, told, result))
        return succeeded(
            tool_call_id=result.tool_call_id,
            ok=result.ok,
            error_code=result.error_code.value if result.error_code is not None else None,
            message=result.safe_message or "",
            message_ref=await call.put_blob(text),
            view_ref=await call.put_blob(view) if view is not None else None,
            record_ref=await call.put_blob(canonical_json.encode(result.record.public())),
            **await self._recorded(call, ran.recorder, result.ok),
            **({"replayed": True} if result.record.replayed and _has_field(call, "replayed") else {}),
            **ran.limits.used(),
        )

    def _ledger_for(self, call: EffectCall, asks: bool) -> Ledger | None:
        if self._ledger is None:
            return None
        tool = self._source.get(call.intent.params["tool"])
        finds_out = tool is not None and tool.reconcile is not None
        is_free = asks and (call.restart != "reconcile" or finds_out)
        return self._ledger if is_free else ReadOnlyLedger(self._ledger)

    def _recorder(self, call: EffectCall) -> Recorder | None:
        """Returns a recorder; None if the receipt has no field for events, as under an older manifest."""
        if self._sessions is None or not _has_field(call, "events_ref"):
            return None
        return Recorder(self._sessions.of(call.unit), self._sessions.codec)

    async def _recorded(self, call: EffectCall, recorder: Recorder | None, is_ok: bool) -> dict[str, Ref]:
        """Returns the receipt's fields about the session."""
        if recorder is None or self._sessions is None:
            return {}
        named: dict[str, Ref] = {}
        events = recorder.events if is_ok else None
        if events is not None:
            named["events_ref"] = await call.put_blob(events)
        checkpoint = self._sessions.checkpoint(call.unit)
        if checkpoint is not None:
            for data in checkpoint.blobs:
                await call.put_blob(data)
            call.refs += checkpoint.kept
            named["session_ref"] = await call.put_blob(checkpoint.data)
            self._sessions.stored(call.unit, checkpoint)
        return named

    def _tools(self, call: EffectCall) -> ToolSource:
        tool = self._source.get(call.intent.params["tool"])
        if call.restart == "reconcile" and tool is not None and tool.reconcile is not None:
            return StaticToolSource([reconciling(tool)])
        return self._source


_FINAL = frozenset(
    {
        ToolErrorCode.POLICY_DENIED,
        ToolErrorCode.QUARANTINED,
        ToolErrorCode.UNAVAILABLE,
        ToolErrorCode.INVALID_JSON,
        ToolErrorCode.VALIDATION,
        ToolErrorCode.DEADLINE_EXCEEDED,
        ToolErrorCode.BUDGET_EXCEEDED,
        ToolErrorCode.CONNECTION_UNAVAILABLE,
        ToolErrorCode.UNKNOWN_OUTCOME,
    }
)
"""Codes of refusals that no decision of a person could lift."""


async def _whole(call: EffectCall, told: str, result: ToolExecResult) -> int | Ref | None:
    """Returns where the JSON of the whole value is: its place in the text for the model if it ends that text, else its
    blob. None for no value, for one that is the text, and for one that is stored as a large result."""
    if result.whole is None or spilled_ref(result.content) is not None:
        return None
    value = result.whole.decode()
    if told.endswith(value):
        return len(told) - len(value)
    return None if from_json(value) == result.content else await call.put_blob(result.whole)


def _has_field(call: EffectCall, name: str) -> bool:
    """Returns whether the receipt schema of this call has the field, which an older manifest may lack."""
    return name in call.manifest.schemas.get(call.manifest.effects[call.intent.kind].receipt)["record"]


def _may_have_acted(call: EffectCall) -> bool:
    """Returns whether an earlier leg of this call may have changed something. A leg of the user's own tool takes back
    what it changed; what a server did before it asked is not known."""
    spec = call.manifest.toolset.get(call.intent.params["tool"])
    is_foreign = spec is not None and spec.untrusted and spec.effect is not ToolEffect.READ_ONLY
    return is_foreign and call.intent.leg is not None


_STRICTNESS = ("allow", "require_approval", "deny")


def _policy(call: EffectCall, now_ns: int) -> ToolPolicy:
    """Returns the stricter of two tool policies: the one that the call was admitted under and the one in force now.
    `now_ns` is wall time."""
    manifests = (call.manifest, call.services.manifest)
    tool, tainted = call.intent.params["tool"], bool(call.intent.tainted)
    decided = [decide_tool(each, tool, caller=call.caller, now_ns=now_ns, tainted=tainted) for each in manifests]
    then, now = (_STRICTNESS.index(each.verdict) for each in decided)
    policy = policy_at(manifests[now > then], now_ns)
    return waiting_policy(policy) if call.intent.only_asks else policy


class _Proposed(NamedTuple):
    """A call as the runner takes it. The arguments of a call that was cut off are empty, since they cannot be read."""

    tool: str
    raw_args: str
    call_id: str
    ctx: ToolPolicyContext


def _proposed(call: EffectCall) -> _Proposed:
    params = call.intent.params
    stored = canonical_json.parse_object(call.get_blob(params["call_ref"]))
    raw_args = "" if stored.get("invalid") else stored["arguments_json"]
    ctx = ToolPolicyContext.of(call.caller, run_id=str(call.unit), tainted=bool(call.intent.tainted))
    return _Proposed(params["tool"], raw_args, params["tool_call_id"], ctx)


class _Ran(NamedTuple):
    """A call that has been through the runner."""

    result: ToolExecResult
    recorder: Recorder | None
    sink: HeldBlobs
    limits: ToolLimits
