"""A tool call in which every place that can hold a value holds one of its own, in each way in which a call can end.

The one place that may quote an exception is where an author asked for it, which all these calls do.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer, field_validator
from tests.canaries.search import Traces

from demiurge import (
    Budget,
    Budgets,
    BudgetTracker,
    Deadline,
    DeadlineExceededError,
    InMemoryApprovals,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools import LoopSignal, RunSummary, SpanSink, TokenUsage, ToolFailure, ToolSpan, event_to_json
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.ledger.ledger import EffectLedger
from demiurge.values.clock import FixedClock
from demiurge.values.refs import ref_of

NUMBER = 7318006291
PLACES = """
arg.key arg.query arg.tag arg.unknown arg.value
value.number value.open value.shut value.nested.open value.nested.shut
value.rows.open value.rows.shut value.table.key value.table.value
cause error message note raw reason rendering told
"""
PLANTED = {place: f"canary<{place}>" for place in PLACES.split()} | {"value.number": str(NUMBER)}
"""What is planted where."""

READ, CHANGE = ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE
ALLOW = ToolPolicy(("look",))
ASK = ToolPolicy(("look",), require_approval_for_tools=("look",))


def canary(place: str) -> str:
    """Returns the value that is planted at a place."""
    return PLANTED[place]


@dataclass(frozen=True)
class Row:
    open: str
    shut: str


@dataclass(frozen=True)
class Found:
    open: str = canary("value.open")
    shut: str = canary("value.shut")
    nested: Row = Row(canary("value.nested.open"), canary("value.nested.shut"))
    rows: list[Row] = field(default_factory=lambda: [Row(canary("value.rows.open"), canary("value.rows.shut"))] * 2)
    table: dict[str, str] = field(default_factory=lambda: {canary("value.table.key"): canary("value.table.value")})
    number: int = NUMBER

    def render(self) -> str:
        return f"{canary('rendering')} {canary('value.shut')}"


class Quoting(BaseModel):
    """A result whose JSON is an error that quotes it."""

    open: str = canary("value.open")
    shut: str = canary("value.shut")
    nested: Row | None = None
    rows: list[Row] | None = None

    @field_serializer("open")
    def _quoted(self, value: str) -> str:
        raise ValueError(f"{value} {self!r}")


class Asked(BaseModel):
    query: str
    tags: list[str] = []
    table: dict[str, str] = {}

    @field_validator("tags")
    @classmethod
    def _at_most_one(cls, tags: list[str]) -> list[str]:
        if len(tags) > 1:
            raise ValueError(f"{tags} {canary('error')}")
        return tags


ARGS: Mapping[str, Any] = {
    "query": canary("arg.query"),
    "tags": [canary("arg.tag")],
    "table": {canary("arg.key"): canary("arg.value")},
}

MODES: Mapping[str, tuple[Redaction, set[str]]] = {
    "top_level": (Redaction.allow("open"), {"value.open"}),
    "paths": (Redaction.paths("nested.open", "rows.open"), {"value.nested.open", "value.rows.open"}),
    "message_only": (Redaction.message_only(), {"message"}),
    "drop_all": (Redaction.drop_all(), set()),
}


class BrokenRedaction(Redaction):
    def apply(self, message: str, value: Any) -> Any:
        raise RuntimeError(f"{message} {value}")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(canary("error"))


def pydantic_error() -> Exception:
    try:
        Asked.model_validate({"query": [canary("arg.query")], canary("arg.unknown"): 1})
    except ValueError as error:
        return error
    raise AssertionError


def foreign_user_error() -> Exception:
    """Only our own ToolUserError is deliberate text for the model."""
    words = {
        "message": canary("told"),
        "safe_message": canary("told"),
        "fields": (canary("told"),),
        "error_code": canary("told"),
    }
    made: Exception = type("ToolUserError", (Exception,), words)(canary("error"))
    return made


def chained_error() -> Exception:
    error = ValueError(canary("error"), Found(), {canary("error"): [canary("error")]})
    error.add_note(canary("note"))
    error.__cause__ = ToolUserError(canary("cause"))
    return error


EXCEPTIONS: tuple[Callable[[], BaseException], ...] = (
    chained_error,
    pydantic_error,
    foreign_user_error,
    lambda: RuntimeError(Found()),
    lambda: KeyError(canary("error")),
    lambda: FileNotFoundError(2, canary("error"), canary("value.shut")),
    lambda: UnicodeDecodeError("utf-8", canary("error").encode(), 0, 1, canary("error")),
    lambda: ExceptionGroup(canary("error"), [ValueError(canary("cause"))]),
    lambda: Unprintable(canary("error")),
    lambda: SystemExit(canary("error")),
    lambda: KeyboardInterrupt(canary("error")),
)


def succeeds(context: ToolContext) -> Any:
    return ToolResult(canary("message"), Found())


def handler_that_returns(value: Any) -> Callable[[ToolContext], Any]:
    return lambda context: value


def handler_that_raises(make: Callable[[], BaseException]) -> Callable[[ToolContext], Any]:
    def act(context: ToolContext) -> Any:
        raise make() from chained_error()

    return act


async def waits(context: ToolContext) -> Any:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError(canary("error")) from chained_error()


def context_past_deadline() -> ToolContext:
    return ToolContext(deadline=Deadline(datetime(1970, 1, 2, tzinfo=UTC), clock=FixedClock(0, step_ns=86_400 * 10**9)))


def context_past_budget() -> ToolContext:
    tracker = BudgetTracker(Budget(max_total_tokens=1))
    tracker.record_cumulative(canary("arg.query"), TokenUsage(2))
    return ToolContext(budget_tracker=tracker)


class Blobs:
    def put(self, data: bytes, /) -> str:
        return ref_of(data)


class Spans:
    def __init__(self) -> None:
        self.kept: list[ToolSpan] = []

    def put(self, span: ToolSpan, /) -> None:
        self.kept.append(span)


@dataclass(frozen=True)
class Scene:
    """One way for a call to end: its code (None is success), what the handler does, what else is so. `told`: what the
    handler means to be public, whatever the redaction. `model_only`: what the model's text alone has. `reports`: it
    says itself that it failed."""

    code: str | None
    act: Callable[[ToolContext], Any] = succeeds
    args: Any = field(default_factory=lambda: dict(ARGS))
    policy: ToolPolicy = ALLOW
    told: frozenset[str] = frozenset()
    model_only: frozenset[str] = frozenset()
    ctx: ToolContext | None = None
    approval: str | None = None
    blobs: Blobs | None = None
    tool: Mapping[str, Any] = field(default_factory=dict)
    broken_redaction: bool = False
    replayed: bool = False
    reports: bool = False


def policy_with_budget(**limits: Any) -> ToolPolicy:
    return ToolPolicy(("look",), budgets=Budgets(**limits))


def arguments_json(**changes: Any) -> str:
    return json.dumps({**ARGS, **changes})


SCENES: tuple[Scene, ...] = (
    Scene(None),
    Scene(None, handler_that_returns(ToolResult(canary("message"), Found(), exclude_value_from_context=True))),
    Scene(None, policy=policy_with_budget(max_result_bytes=8), blobs=Blobs()),
    Scene(None, replayed=True, tool={"idempotency": IdempotencyConfig(scope="")}),
    Scene("policy_denied", policy=ToolPolicy()),
    Scene("policy_denied", policy=ASK),
    *(Scene(f"approval_{outcome}", policy=ASK, approval=outcome) for outcome in ("required", "rejected", "expired")),
    Scene("unavailable", tool={"capabilities": (Blobs,)}),
    Scene("connection_unavailable", tool={"requires_connection": True}),
    Scene("invalid_json", args=arguments_json()[:-1]),
    Scene("invalid_json", args=arguments_json()[:-1] + f', "query": "{canary("arg.query")}"}}'),
    Scene("invalid_json", args=json.dumps([canary("arg.query")])),
    Scene("invalid_json", args={"query": {canary("arg.query")}}),
    Scene("validation", args=arguments_json(query=[canary("arg.query")])),
    Scene("validation", args=arguments_json(table={canary("arg.key"): [canary("arg.value")]})),
    Scene("validation", args=arguments_json(tags=[canary("arg.tag")] * 2)),
    Scene(
        "validation",
        args=arguments_json(**{canary("arg.unknown"): canary("arg.value")}),
        model_only=frozenset({"arg.unknown"}),
    ),
    Scene("validation", handler_that_raises(lambda: ToolValidationError(canary("told"))), told=frozenset({"told"})),
    Scene("deadline_exceeded", ctx=context_past_deadline()),
    Scene("deadline_exceeded", handler_that_raises(lambda: DeadlineExceededError(canary("error")))),
    Scene("budget_exceeded", ctx=context_past_budget()),
    Scene("budget_exceeded", lambda context: context_past_budget().budget_tracker.check()),  # type: ignore[union-attr]
    Scene("timeout", waits, policy=policy_with_budget(max_runtime_ms=5)),
    Scene("unknown_outcome", waits, policy=policy_with_budget(max_runtime_ms=5), tool={"effect": CHANGE}),
    Scene("unknown_outcome", handler_that_raises(lambda: SystemExit(canary("error"))), tool={"effect": CHANGE}),
    Scene("result_too_large", policy=policy_with_budget(max_result_bytes=8)),
    Scene("redaction_failed", broken_redaction=True),
    Scene("output_validation", handler_that_returns(Found())),
    Scene("output_validation", handler_that_returns(None)),
    Scene(
        "output_validation",
        handler_that_returns(ToolResult(canary("message"), {canary("value.table.key"): canary("value.shut")})),
    ),
    Scene("output_validation", handler_that_returns(ToolResult([canary("message")], Found()))),  # type: ignore[arg-type]
    Scene("output_validation", handler_that_returns(ToolResult(canary("message") + "\ud800", Found()))),
    Scene(
        "output_validation",
        handler_that_returns(ToolResult(canary("message"), Quoting())),
        tool={"result_type": Quoting},
    ),
    *(Scene("execution", handler_that_raises(make)) for make in EXCEPTIONS),
    Scene("execution", handler_that_returns(ToolResult(canary("message"), Found(), success=False)), reports=True),
    Scene("execution", handler_that_raises(lambda: ToolUserError(canary("told"))), told=frozenset({"told"})),
    Scene("cancelled", handler_that_raises(lambda: LoopSignal(canary("error")))),
    *(
        Scene(code, handler_that_raises(lambda code=code: ToolFailure(ToolErrorCode(code))))  # type: ignore[misc]
        for code in (
            "quarantined",
            "not_offered",
            "approval_edited",
            "rounds_exceeded",
            "repeated_call",
            "authz_denied",
            "authz_unavailable",
        )
    ),
)


class Observed:
    """One call of a scene, and every surface on which others see it."""

    def __init__(self, scene: Scene, redaction: Redaction) -> None:
        self.scene = scene
        self.events: list[Any] = []
        self.explained: list[str] = []
        self.spans = Spans()
        self.clock = FixedClock(0)
        self.approvals = InMemoryApprovals(self.clock, ttl_ms=1000) if scene.approval is not None else None
        if scene.broken_redaction:
            redaction = BrokenRedaction(redaction.mode, redaction.fields)
        self.runner = ToolRunner(
            [self._tool(redaction)],
            policy=scene.policy,
            resources={SpanSink: self.spans},
            approvals=self.approvals,
            emit=self.events.append,
            blobs=scene.blobs,
            ledger=EffectLedger() if scene.replayed else None,
            log_tool_errors=ToolErrorLog(self.explained.append),
        )

    def _tool(self, redaction: Redaction) -> Tool[Any, Any]:
        act = self.scene.act

        def look(params: Asked, *, context: ToolContext):  # type: ignore[no-untyped-def]
            return act(context)

        async def look_later(params: Asked, *, context: ToolContext):  # type: ignore[no-untyped-def]
            return await act(context)

        options = {"params_type": Asked, "result_type": Found, "effect": READ, **self.scene.tool}
        handler = look_later if inspect.iscoroutinefunction(act) else look
        return Tool(name="look", description="Look.", handler=handler, redaction=redaction, **options)

    async def run(self) -> ToolExecResult | None:
        """The answer, with a provider's payload in its record; None for a call that goes up."""
        if self.approvals is not None and self.scene.approval != "required":
            await self._call()
            decide = self.approvals.reject if self.scene.approval == "rejected" else self.approvals.approve
            decide(self.approvals.pending()[0].approval_id or "", by="user:1", reason=canary("reason"))
            self.clock.advance(10**9 if self.scene.approval == "expired" else 0)
        if self.scene.replayed:
            await self._call()
        try:
            result = await self._call()
        except LoopSignal:
            return None
        return replace(result, record=replace(result.record, raw={"content": [canary("raw")]}))

    async def _call(self) -> ToolExecResult:
        return await self.runner.exec("look", self.scene.args, tool_call_id="c", ctx=self.scene.ctx)

    def surfaces(self, result: ToolExecResult | None) -> dict[str, str]:
        summary = RunSummary()
        shown = {
            "events": json.dumps([event_to_json(event) for event in self.events], ensure_ascii=False),
            "spans": repr(self.spans.kept),
            "summary": json.dumps(self.runner.summary.to_json(), ensure_ascii=False),
        }
        if result is not None:
            summary.add(result.record)
            shown |= {
                "record": json.dumps(result.record.public(), ensure_ascii=False),
                "value": json.dumps(result.value, ensure_ascii=False),
                "safe message": str(result.safe_message),
                "printed": repr(result),
                "summed up": json.dumps(summary.to_json(), ensure_ascii=False),
            }
        return shown


def logged_text(caplog: pytest.LogCaptureFixture) -> str:
    """All that any handler could write: texts, arguments, exceptions with their tracebacks, extra fields."""
    formatter = logging.Formatter()
    return "\n".join(f"{formatter.format(record)} {record.__dict__!r}" for record in caplog.records)


async def run_journey(
    scene: Scene, mode: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Traces:
    """Makes the call of a scene under a redaction, and checks that it ends as the scene says."""
    caplog.set_level(logging.DEBUG)
    redaction, allowlisted = MODES[mode]
    observed = Observed(scene, redaction)
    result = await observed.run()
    last = observed.events[-1]
    assert (last.result["error_code"] if last.is_error else None) == scene.code
    assert result is None or result.record.replayed is scene.replayed
    public = scene.told
    if scene.code is None or scene.reports:
        public |= allowlisted if scene.code is None else allowlisted & {"message"}
    private = logged_text(caplog) + "".join(capfd.readouterr())
    assert not places_shown_in(private), "nothing of a call is logged or printed, not even what is public"
    if scene.code is not None and result is not None and not scene.reports:
        assert places_shown_in(result.content) == scene.told | scene.model_only
    surfaces = {surface: [words] for surface, words in observed.surfaces(result).items()}
    return Traces(PLANTED, {**surfaces, "logs and terminal": [private]}, public)


def places_shown_in(text: str) -> set[str]:
    """Returns the places whose value is in the text."""
    return {place for place, planted in PLANTED.items() if planted in text}
