"""The runner: the one way to run a tool, as a list of stages, for every tool and every executor.

Each call passes the same stages and gets exactly one answer. A stage that refuses ends the call with its own code. A
stage that raises something else ends it with the code beside the stage in `STAGES`, which is always the cautious
one. Nothing that a policy, a redactor or a handler raises leaves `exec`, except LoopSignal and interruptions that
the tool did not cause: the caller's cancellation, a person's Ctrl-C (`demiurge.tools.execution.interrupt`). Such a
call is answered in events and record too, and then the exception is raised again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.approvals import ApprovalStore
from demiurge.tools.authoring.signature import is_async_callable
from demiurge.tools.authorization import Authorizer
from demiurge.tools.bound import BoundTool
from demiurge.tools.capabilities import Clock
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.connections.access import ConnectionAccess
from demiurge.tools.context import ResourceRegistry, ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import LoopSignal, ToolErrorCode, ToolFailure
from demiurge.tools.events import AiEvent
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.changes import supports_rollback
from demiurge.tools.execution.drive import step_through, together
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.explain import normalized
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.execution.own_loop import in_own_loop
from demiurge.tools.execution.ports import BlobSink, Ports
from demiurge.tools.ids import canonical_id
from demiurge.tools.input_required import Resumed
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.ledger.waiting import blocking_its_loop
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.proposed_call import ProposedCall, RawArgs, call_parts
from demiurge.tools.record import ToolExecResult
from demiurge.tools.source import Tools, as_source
from demiurge.tools.stages.announce import announce
from demiurge.tools.stages.approve import approve
from demiurge.tools.stages.ask import asks_in_loop
from demiurge.tools.stages.authorize import authorize
from demiurge.tools.stages.check import check
from demiurge.tools.stages.claim import claim
from demiurge.tools.stages.connect import connect
from demiurge.tools.stages.decide import decide
from demiurge.tools.stages.decode import decode
from demiurge.tools.stages.fault import fault_of
from demiurge.tools.stages.identify import identify
from demiurge.tools.stages.limits import in_time, limits, resources_of
from demiurge.tools.stages.open_transaction import open_transaction
from demiurge.tools.stages.publish import publish
from demiurge.tools.stages.recall import recall
from demiurge.tools.stages.record import record
from demiurge.tools.stages.record_effect import end_claim, record_effect
from demiurge.tools.stages.redact import redact
from demiurge.tools.stages.run import run
from demiurge.tools.stages.spill import spill
from demiurge.tools.stages.validate import validate
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.run_summary import RunSummary
from demiurge.tools.telemetry.spans import SpanSink
from demiurge.values.clock import Entropy, SystemClock, SystemEntropy

__all__ = ["STAGES", "ProposedCall", "RawArgs", "Stage", "ToolRunner"]

Stage: TypeAlias = Callable[[Ports, Call], Awaitable[None] | None]
_NONE: Mapping[int, ToolErrorCode] = MappingProxyType({})


STAGES: tuple[tuple[Stage, ToolErrorCode], ...] = (
    (decide, ToolErrorCode.POLICY_DENIED),
    (announce, ToolErrorCode.EXECUTION),
    (authorize, ToolErrorCode.AUTHZ_UNAVAILABLE),
    (decode, ToolErrorCode.INVALID_JSON),
    (validate, ToolErrorCode.VALIDATION),
    (limits, ToolErrorCode.BUDGET_EXCEEDED),
    (connect, ToolErrorCode.CONNECTION_UNAVAILABLE),
    (recall, ToolErrorCode.EXECUTION),
    (approve, ToolErrorCode.APPROVAL_REQUIRED),
    (claim, ToolErrorCode.EXECUTION),
    (in_time, ToolErrorCode.BUDGET_EXCEEDED),
    (open_transaction, ToolErrorCode.EXECUTION),
    (run, ToolErrorCode.EXECUTION),
    (check, ToolErrorCode.OUTPUT_VALIDATION),
    (record_effect, ToolErrorCode.UNKNOWN_OUTCOME),
    (redact, ToolErrorCode.REDACTION_FAILED),
    (spill, ToolErrorCode.RESULT_TOO_LARGE),
)
"""The stages between `identify` and `publish`, `record`, which always run. Beside each is the code of a call in
which the stage raises anything but ToolFailure."""


class ToolRunner:
    """Runs tools under a policy; without a policy it denies all.

    `tools`: tools, or a ToolSource. `resources`: capabilities by type (a Clock is bound if there is none); a
    Deadline, a BudgetTracker, an Authorizer and a SpanSink bound here serve all calls, a RunSummary or GraphRun
    counts them. `emit` is called with each event, in order. `max_parallel`: how many `read_only` calls of one
    `exec_many` may overlap; 1 means none. `ledger`: where results of tools with an `idempotency` are stored, for
    example an EffectLedger; without one these tools always run. `connections`: those that calls may use; None: none.
    `log_tool_errors`: why a tool failed (type, message and traceback of what its handler raised, secrets masked) is
    written to stderr, or to the given ToolErrorLog, and nowhere else.

    Raises PromptValidationError for tools that have the same id or no redaction, InvalidValue for the other
    arguments."""

    def __init__(
        self,
        tools: Tools,
        *,
        policy: ToolPolicy | None = None,
        resources: ResourceRegistry | Mapping[Any, Any] | None = None,
        ledger: Ledger | None = None,
        approvals: ApprovalStore | None = None,
        connections: ConnectionAccess | None = None,
        session: Any = None,
        emit: Callable[[AiEvent], object] | None = None,
        blobs: BlobSink | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        max_parallel: int = 1,
        log_tool_errors: bool | ToolErrorLog = False,
    ) -> None:
        if not (policy is None or isinstance(policy, ToolPolicy)):
            raise InvalidValue("must be a ToolPolicy; ToolPolicy.load reads one from a file", path="policy")
        if not (connections is None or isinstance(connections, ConnectionAccess)):
            raise InvalidValue("must be a ConnectionAccess, as ConnectionBroker.access returns", path="connections")
        if max_parallel < 1:
            raise InvalidValue("must be at least 1", path="max_parallel")
        for name, function in (("emit", emit), ("blobs", getattr(blobs, "put", None))):
            if function is not None and is_async_callable(function):
                raise InvalidValue("must not be async: it is not awaited", path=name)
        if ledger is not None and session is not None and not getattr(session, "session_id", None):
            raise InvalidValue("needs a session_id, so that the ledger can tell sessions apart", path="session")
        bound_policy = policy if policy is not None else ToolPolicy()
        bound_clock = clock if clock is not None else SystemClock()
        registry = resources if isinstance(resources, ResourceRegistry) else ResourceRegistry.build(resources or {})
        self._max_parallel = max_parallel
        self._ports = Ports(
            source=as_source(tools),
            policy=bound_policy,
            policy_digest=bound_policy.digest,
            resources=registry.with_clock(bound_clock),
            approvals=approvals,
            blobs=blobs,
            session=session,
            emit=emit,
            clock=bound_clock,
            entropy=entropy if entropy is not None else SystemEntropy(),
            summary=registry.get(RunSummary, RunSummary(registry.get(GraphRun))),
            spans=registry.get(SpanSink),
            connections=connections,
            ledger=ledger,
            reversible=tuple(filter(supports_rollback, (session, *registry.entries.values()))),
            authorizer=registry.get(Authorizer),
            errors=ToolErrorLog() if log_tool_errors is True else log_tool_errors or None,
        )

    def __repr__(self) -> str:
        tools = ", ".join(self._ports.policy.allowed_to_some)
        return f"<ToolRunner that allows {tools or 'nothing'}: {self.summary!r}>"

    @property
    def summary(self) -> RunSummary:
        """The totals of the calls so far: the RunSummary among the resources, or this runner's own."""
        return self._ports.summary

    def catalog(self, ctx: ToolPolicyContext | ToolContext | None = None) -> ToolCatalog:
        """Returns the tools that a model may see when `ctx` asks: those that this runner would not deny."""
        ports, caller = self._ports, ctx.caller if isinstance(ctx, ToolContext) else ctx
        return ToolCatalog.compile(ports.source, ports.policy, ports.approvals is not None, caller)

    def resources(self, ctx: ToolPolicyContext | ToolContext | None = None) -> ResourceRegistry:
        """Returns what the calls of `ctx` find by type, including its deadline and budget."""
        return resources_of(self._ports, ctx if isinstance(ctx, ToolContext) else None)

    def heard_by(self, listener: Callable[[AiEvent], object]) -> ToolRunner:
        """Returns a copy of this runner that passes its events to `listener` before `emit`."""
        before = self._ports.emit

        def emit(event: AiEvent) -> None:
            listener(event)
            if before is not None:
                before(event)

        runner = copy.copy(self)
        runner._ports = replace(self._ports, emit=emit)
        return runner

    async def exec(
        self,
        tool_id: str,
        raw_args: str | bytes | Mapping[str, Any],
        *,
        tool_call_id: str | None = None,
        ctx: ToolPolicyContext | ToolContext | None = None,
        connection_id: str | None = None,
        approval_id: str | None = None,
        resumed: Resumed | None = None,
    ) -> ToolExecResult:
        """Runs one call and returns its answer; raises nothing for a fault of the tool or the model.

        `ctx` names the caller. A ToolContext serves as the template of the handler's context, with its `caller`.
        `connection_id` (or else the template's) names the connection for a tool that needs one. `resumed`: the answers
        to the questions that an earlier leg of this call ended with (`ToolExecResult.asks`)."""
        call = _call(tool_id, raw_args, tool_call_id, ctx, connection_id, approval_id, threads=True)
        call.resumed = resumed
        return await self._run(call)

    def exec_sync(
        self,
        tool_id: str,
        raw_args: str | bytes | Mapping[str, Any],
        *,
        tool_call_id: str | None = None,
        ctx: ToolPolicyContext | ToolContext | None = None,
        connection_id: str | None = None,
        approval_id: str | None = None,
    ) -> ToolExecResult:
        """Runs one call without an event loop: a `def` handler runs in this thread, an async one in a new loop."""
        return self._run_sync(_call(tool_id, raw_args, tool_call_id, ctx, connection_id, approval_id, threads=False))

    def _run_sync(self, call: Call) -> ToolExecResult:
        coroutine, tool = self._run(call), self._peek(call.requested_id)
        waits = (tool is not None and tool.is_async) or asks_in_loop(self._ports, call)
        drive = in_own_loop if waits else step_through
        if self._ports.ledger is None:
            return drive(coroutine)
        with blocking_its_loop():
            return drive(coroutine)

    async def exec_many(
        self,
        calls: Sequence[ProposedCall | tuple[str, str, RawArgs]],
        *,
        ctx: ToolPolicyContext | ToolContext | None = None,
        refused: Mapping[int, ToolErrorCode] = _NONE,
        answered: Callable[[ToolExecResult], object] | None = None,
    ) -> tuple[ToolExecResult, ...]:
        """Runs the calls of one turn, as ProposedCalls or as `(tool_call_id, tool_id, raw_args)`, and returns all
        answers, in order.

        The calls run one after the other; with `max_parallel` above 1, neighbouring calls that only read overlap. If
        a LoopSignal or a cancellation ends the turn, the calls that had not begun are answered as `cancelled`.
        `refused`: by position, the code of a call that must not run. `answered` is called with each answer as soon
        as it is final, also if the turn ends early."""
        proposed = [call_parts(call) for call in calls]
        answers: list[ToolExecResult] = []
        begun: set[int] = set()
        gate = asyncio.Semaphore(self._max_parallel)

        def call_at(index: int) -> Call:
            tool_call_id, tool_id, raw_args, payload = proposed[index]
            return _call(tool_id, raw_args, tool_call_id, ctx, None, None, payload, threads=True)

        def report(call: Call) -> None:
            if answered is not None and call.answer is not None:
                answered(call.answer)

        async def one(index: int) -> ToolExecResult:
            async with gate:
                begun.add(index)
                call = call_at(index)
                try:
                    return self._answer_unrun(call, refused[index]) if index in refused else await self._run(call)
                finally:
                    report(call)

        task = asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        try:
            for batch in self._batches([tool_id for _, tool_id, _, _ in proposed]):
                if task is not None and task.cancelling() > cancelled:  # a handler ignored the cancellation
                    raise asyncio.CancelledError
                answers.extend(await together([one(index) for index in batch]))
        except BaseException:
            for index in range(len(proposed)):
                if index not in begun:
                    call = call_at(index)
                    self._answer_unrun(call)
                    report(call)
            raise
        return tuple(answers)

    def exec_many_sync(
        self,
        calls: Sequence[ProposedCall | tuple[str, str, RawArgs]],
        *,
        ctx: ToolPolicyContext | ToolContext | None = None,
        answered: Callable[[ToolExecResult], object] | None = None,
    ) -> tuple[ToolExecResult, ...]:
        """Does the same as `exec_many` without an event loop, always one call after the other."""
        proposed = [call_parts(call) for call in calls]
        answers: list[ToolExecResult] = []
        begun: list[Call] = []

        def call_at(index: int) -> Call:
            tool_call_id, tool_id, raw_args, payload = proposed[index]
            begun.append(_call(tool_id, raw_args, tool_call_id, ctx, None, None, payload, threads=False))
            return begun[-1]

        def report() -> None:
            answer = begun[-1].answer
            if answered is not None and answer is not None:
                answered(answer)

        try:
            for index in range(len(proposed)):
                try:
                    answers.append(self._run_sync(call_at(index)))
                finally:
                    report()
        except BaseException:
            for index in range(len(begun), len(proposed)):
                self._answer_unrun(call_at(index))
                report()
            raise
        return tuple(answers)

    def refuse(
        self,
        tool_id: str,
        raw_args: str | bytes | Mapping[str, Any],
        code: ToolErrorCode,
        *,
        message: str | None = None,
        tool_call_id: str | None = None,
        ctx: ToolPolicyContext | ToolContext | None = None,
    ) -> ToolExecResult:
        """Answers a call that the caller of this method decided not to run, with the events and the record of any
        other call; no handler is called. `message` replaces the fixed sentence of `code`."""
        call = _call(tool_id, raw_args, tool_call_id, ctx, None, None, threads=False)
        return self._answer_unrun(call, code, message)

    def _batches(self, tool_ids: list[str]) -> Iterator[range]:
        """Yields ranges of positions; the calls of one range may overlap."""
        start = 0
        for end in range(1, len(tool_ids) + 1):
            last = end == len(tool_ids) or self._max_parallel == 1
            if last or not (self._reads(tool_ids[end - 1]) and self._reads(tool_ids[end])):
                yield range(start, end)
                start = end

    def _reads(self, tool_id: str) -> bool:
        tool = self._peek(tool_id)
        return tool is not None and tool.spec.effect is ToolEffect.READ_ONLY

    def _answer_unrun(
        self, call: Call, code: ToolErrorCode = ToolErrorCode.CANCELLED, message: str | None = None
    ) -> ToolExecResult:
        """Answers a call that will not run. If the call itself is at fault, the message is that of the stage that
        detects the fault."""
        identify(self._ports, call)
        call.failure = fault_of(self._ports, call, code) or ToolFailure(code, safe_message=message)
        _close(self._ports, call)
        assert call.answer is not None
        return call.answer

    def _peek(self, tool_id: object) -> BoundTool | None:
        """Returns the tool, to choose how to run a call; the stages look it up again and decide."""
        try:
            tool = self._ports.source.get(canonical_id(tool_id))
        except Exception:  # noqa: BLE001  (`decide` gets the same error and answers the call)
            return None
        return tool if isinstance(tool, BoundTool) else None

    async def _run(self, call: Call) -> ToolExecResult:
        ports = self._ports
        identify(ports, call)
        broken_code = ToolErrorCode.EXECUTION
        try:
            for stage, code in STAGES:
                broken_code = code
                pending = stage(ports, call)
                if pending is not None:
                    await pending
        except ToolFailure as failure:
            call.failure = normalized(failure, broken_code)
        except LoopSignal:
            call.failure = ToolFailure(ToolErrorCode.CANCELLED)
            await _end(ports, call)
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and is_from_outside(error):
                is_unknown = call.tool is not None and call.may_have_changed
                call.failure = ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME if is_unknown else ToolErrorCode.CANCELLED)
                call.threads = call.threads and isinstance(error, asyncio.CancelledError)
                await _end(ports, call)
                raise
            ports.explain_error(call, broken_code.value, error)
            call.failure = ToolFailure(broken_code)
        await _end(ports, call)
        assert call.answer is not None
        return call.answer


async def _end(ports: Ports, call: Call) -> None:
    """Ends the claim of a failed call, then publishes and records the call, even if it is cancelled in between."""
    try:
        if call.failure is not None:
            await end_claim(ports, call)
    finally:
        _close(ports, call)


def _close(ports: Ports, call: Call) -> None:
    try:
        announce(ports, call)
        publish(ports, call)
    except Exception as error:  # noqa: BLE001
        log_cause("session", error)
        call.failure = call.failure or ToolFailure(ToolErrorCode.EXECUTION)
    finally:
        record(ports, call)


def _call(
    tool_id: object,
    raw_args: object,
    tool_call_id: str | None,
    ctx: ToolPolicyContext | ToolContext | None,
    connection_id: str | None,
    approval_id: str | None,
    payload: Any = None,
    *,
    threads: bool,
) -> Call:
    if not (ctx is None or isinstance(ctx, ToolPolicyContext | ToolContext)):
        raise InvalidValue("must be a ToolPolicyContext or a ToolContext", path="ctx")
    template = ctx if isinstance(ctx, ToolContext) else None
    if connection_id is None and template is not None:
        connection_id = template.connection_id
    caller = template.caller if template is not None else ctx if isinstance(ctx, ToolPolicyContext) else _NOBODY
    return Call(
        tool_id, raw_args, caller, template, connection_id, approval_id, threads, tool_call_id or "", payload=payload
    )


_NOBODY = ToolPolicyContext()
