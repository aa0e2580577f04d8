"""No handler starts without time and budget, and the time that is left goes down with the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demiurge import (
    Budget,
    Budgets,
    BudgetTracker,
    Deadline,
    DeadlineExceededError,
    InMemoryApprovals,
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
)
from demiurge.sessions import Session
from demiurge.tools import SAFE_MESSAGES, ApprovalDecision, ApprovalRequest, TokenUsage, ToolCallResult, ToolCallStart
from demiurge.tools.context import NullSession
from demiurge.values.clock import FixedClock

READ = ToolEffect.READ_ONLY
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = 1_000_000
HOUR = 3_600_000 * MS


class Setting:
    """A clock that stands still, a tool that notes its contexts, and the runner's events."""

    def __init__(self) -> None:
        self.clock = FixedClock(0)
        self.seen: list[ToolContext] = []
        self.events: list[Any] = []

    def deadline(self, left_ms: int) -> Deadline:
        """A deadline with so much time left, made an hour ago: a new one has at least a second."""
        expires_at = EPOCH + timedelta(milliseconds=self.clock.now_ns() // MS + left_ms)
        self.clock.advance(-HOUR)
        deadline = Deadline(expires_at, clock=self.clock)
        self.clock.advance(HOUR)
        return deadline

    def tool(self, act: Callable[[ToolContext], Any] = lambda context: None, **options: Any) -> Tool[None, None]:
        def look(params: None, *, context: ToolContext) -> ToolResult[None]:
            self.seen.append(context)
            act(context)
            return ToolResult("done")

        return Tool[None, None](name="look", description="Look.", handler=look, **{"effect": READ, **options})

    def runner(self, tool: Tool[None, None] | None = None, **options: Any) -> ToolRunner:
        options.setdefault("policy", ToolPolicy(("look",)))
        tool = tool if tool is not None else self.tool()
        return ToolRunner([tool], clock=self.clock, emit=self.events.append, **options)

    def code(self, runner: ToolRunner, ctx: ToolContext | None = None) -> str | None:
        """The error code of one call, which has its start and its result."""
        self.events.clear()
        result = runner.exec_sync("look", "{}", ctx=ctx)
        assert [type(event) for event in self.events] == [ToolCallStart, ToolCallResult]
        if result.error_code is not None:
            assert result.safe_message == SAFE_MESSAGES[result.error_code]
        return result.error_code


@pytest.fixture
def setting() -> Setting:
    return Setting()


def spent() -> BudgetTracker:
    tracker = BudgetTracker(Budget(max_total_tokens=10))
    tracker.record_cumulative("e", TokenUsage(11))
    return tracker


def test_deadline_and_budget_are_found_in_the_context_and_among_the_resources(setting: Setting) -> None:
    deadline, tracker = setting.deadline(5000), BudgetTracker(Budget(max_total_tokens=10))
    bound = {Deadline: deadline, BudgetTracker: tracker}
    plain = setting.runner()
    assert setting.code(setting.runner(resources=bound)) is None
    assert setting.code(setting.runner(resources=bound), ToolContext()) is None
    assert setting.code(plain, ToolContext(deadline=deadline, budget_tracker=tracker)) is None
    assert setting.code(plain, ToolContext(resources=ResourceRegistry.build(bound))) is None
    for context in setting.seen:
        assert context.deadline is context.resources.get(Deadline) is deadline
        assert context.budget_tracker is context.resources.get(BudgetTracker) is tracker
    assert len(setting.seen) == 4


def test_the_callers_own_come_before_the_runners(setting: Setting) -> None:
    mine, bound = setting.deadline(5000), setting.deadline(-1)
    tracker = BudgetTracker(Budget(max_total_tokens=10))
    runner = setting.runner(resources={Deadline: bound, BudgetTracker: spent()})
    registry = ResourceRegistry.build({Deadline: bound, BudgetTracker: spent()})
    own = ToolContext(deadline=mine, budget_tracker=tracker, resources=registry)
    assert setting.code(runner, own) is None
    (context,) = setting.seen
    assert context.deadline is context.resources.get(Deadline) is mine
    assert context.budget_tracker is context.resources.get(BudgetTracker) is tracker


def test_a_call_without_limits_has_no_deadline_and_no_budget(setting: Setting) -> None:
    assert setting.code(setting.runner()) is None
    (context,) = setting.seen
    assert (context.deadline, context.budget_tracker) == (None, None)


@pytest.mark.parametrize("template", [False, True])
def test_the_handler_learns_which_call_it_is_and_for_whom(setting: Setting, template: bool) -> None:
    caller, session = ToolPolicyContext(run_id="r", actor="user:ada"), Session()
    runner = setting.runner(session=session)
    ctx = ToolContext(caller=caller) if template else caller
    runner.exec_sync("look", "{}", tool_call_id="c1", ctx=ctx, connection_id="conn_1")
    (context,) = setting.seen
    assert (context.tool_call_id, context.caller, context.connection_id) == ("c1", caller, "conn_1")
    assert context.session is session


def test_the_times_of_a_record_are_whole_milliseconds(setting: Setting) -> None:
    setting.clock.advance(1_999_999)
    tool = setting.tool(lambda context: setting.clock.advance(1_000_000))
    record = setting.runner(tool).exec_sync("look", "{}").record
    assert (record.started_at_ms, record.ended_at_ms) == (1, 2)


def test_a_callers_session_comes_before_the_runners(setting: Setting) -> None:
    mine = Session()
    assert setting.code(setting.runner(session=Session()), ToolContext(session=mine)) is None
    assert setting.code(setting.runner(), ToolContext()) is None
    assert [type(context.session) for context in setting.seen] == [Session, NullSession]
    assert setting.seen[0].session is mine


@pytest.mark.parametrize(("left_ms", "code"), [(1, None), (0, "deadline_exceeded"), (-1, "deadline_exceeded")])
def test_no_handler_starts_after_the_deadline(setting: Setting, left_ms: int, code: str | None) -> None:
    assert setting.code(setting.runner(), ToolContext(deadline=setting.deadline(left_ms))) == code
    assert len(setting.seen) == (code is None)


@pytest.mark.parametrize(("tokens", "code"), [(10, None), (11, "budget_exceeded")])
def test_no_handler_starts_beyond_the_budget(setting: Setting, tokens: int, code: str | None) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=10))
    tracker.record_cumulative("e", TokenUsage(tokens))
    assert setting.code(setting.runner(), ToolContext(budget_tracker=tracker)) == code
    assert len(setting.seen) == (code is None)


def test_a_budgets_deadline_is_part_of_the_budget(setting: Setting) -> None:
    tracker = BudgetTracker(Budget(deadline=setting.deadline(0)))
    assert setting.code(setting.runner(), ToolContext(budget_tracker=tracker)) == "budget_exceeded"


class Broken(BudgetTracker):
    def check(self) -> None:
        raise RuntimeError("canary")


def test_a_budget_that_can_not_be_checked_is_used_up(setting: Setting) -> None:
    broken = Broken(Budget(max_total_tokens=10))
    assert setting.code(setting.runner(), ToolContext(budget_tracker=broken)) == "budget_exceeded"
    assert setting.seen == []


LIMITS = {"policy": 900, "tool": 900, "deadline": 900, "budget": 900}


@pytest.mark.parametrize("shortest", LIMITS)
@pytest.mark.parametrize(("effect", "code"), [(READ, "timeout"), (ToolEffect.EXTERNAL_SIDE_EFFECT, "unknown_outcome")])
def test_the_shortest_limit_binds_the_handler(setting: Setting, shortest: str, effect: ToolEffect, code: str) -> None:
    limits = {**LIMITS, shortest: 300}
    for took_ms, expected in ((300, None), (301, code)):
        context = ToolContext(
            deadline=setting.deadline(limits["deadline"]),
            budget_tracker=BudgetTracker(Budget(deadline=setting.deadline(limits["budget"]))),
        )
        tool = setting.tool(
            lambda context, ms=took_ms: setting.clock.advance(ms * MS),  # type: ignore[misc]
            effect=effect,
            timeout=limits["tool"] / 1000,
        )
        policy = ToolPolicy(("look",), budgets=Budgets(max_runtime_ms=limits["policy"]))
        assert setting.code(setting.runner(tool, policy=policy), context) == expected


@pytest.mark.parametrize(("left_us", "limit_ms"), [(1, 1), (999, 1), (1000, 1), (1999, 1), (2000, 2)])
@pytest.mark.parametrize("over", [False, True])
def test_the_time_left_counts_in_whole_milliseconds_and_is_at_least_one(
    setting: Setting, left_us: int, limit_ms: int, over: bool
) -> None:
    deadline = Deadline.handed_on(left_us * 1000, clock=setting.clock)
    tool = setting.tool(lambda context: setting.clock.advance(limit_ms * MS + over))
    code = setting.code(setting.runner(tool), ToolContext(deadline=deadline))
    assert code == ("timeout" if over else None)


async def test_an_async_handler_is_stopped_when_the_time_is_over(setting: Setting) -> None:
    stopped: list[timedelta] = []

    async def waits(params: None, *, context: ToolContext) -> ToolResult[None]:
        assert context.deadline is not None
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(context.deadline.remaining())
        raise AssertionError

    tool = Tool[None, None](name="look", description="Look.", handler=waits, effect=READ)
    result = await setting.runner(tool).exec("look", "{}", ctx=ToolContext(deadline=setting.deadline(20)))
    assert result.error_code == "timeout"
    assert stopped == [timedelta(milliseconds=20)]


def test_nobody_is_asked_to_approve_what_can_not_run(setting: Setting) -> None:
    store = InMemoryApprovals(setting.clock)
    policy = ToolPolicy(("look",), require_approval_for_tools=("look",))
    runner = setting.runner(policy=policy, approvals=store)
    assert setting.code(runner, ToolContext(deadline=setting.deadline(0))) == "deadline_exceeded"
    assert setting.code(runner, ToolContext(budget_tracker=spent())) == "budget_exceeded"
    assert store.pending() == ()


class Slow:
    """An approval store that says yes, but takes its time."""

    def __init__(self, setting: Setting, ms: int, tracker: BudgetTracker) -> None:
        self.setting, self.ms, self.tracker = setting, ms, tracker

    def take(self, request: ApprovalRequest) -> ApprovalDecision:
        self.setting.clock.advance(self.ms * MS)
        self.tracker.record_cumulative("meanwhile", TokenUsage(self.ms))
        return ApprovalDecision("a", "approved", "user:1", "", 0, 1 << 60)


@pytest.mark.parametrize(("ms", "code"), [(99, None), (100, "deadline_exceeded")])
def test_time_is_looked_at_again_right_before_the_handler(setting: Setting, ms: int, code: str | None) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=1000))
    policy = ToolPolicy(("look",), require_approval_for_tools=("look",))
    runner = setting.runner(policy=policy, approvals=Slow(setting, ms, tracker))
    context = ToolContext(deadline=setting.deadline(100), budget_tracker=tracker)
    assert setting.code(runner, context) == code
    assert len(setting.seen) == (code is None)


def test_the_budget_is_looked_at_again_right_before_the_handler(setting: Setting) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=10))
    policy = ToolPolicy(("look",), require_approval_for_tools=("look",))
    runner = setting.runner(policy=policy, approvals=Slow(setting, 11, tracker))
    assert setting.code(runner, ToolContext(budget_tracker=tracker)) == "budget_exceeded"
    assert setting.seen == []


def late(context: ToolContext) -> None:
    raise DeadlineExceededError("canary")


def costly(context: ToolContext) -> None:
    assert context.budget_tracker is not None
    context.budget_tracker.record_cumulative("inner", TokenUsage(11))
    context.budget_tracker.check()


@pytest.mark.parametrize("effect", [READ, ToolEffect.STATE_CHANGE])
@pytest.mark.parametrize(("act", "code"), [(late, "deadline_exceeded"), (costly, "budget_exceeded")])
def test_a_limit_error_that_a_handler_raises_keeps_its_code(
    setting: Setting, act: Callable[[ToolContext], None], code: str, effect: ToolEffect
) -> None:
    context = ToolContext(budget_tracker=BudgetTracker(Budget(max_total_tokens=10)))
    assert setting.code(setting.runner(setting.tool(act, effect=effect)), context) == code


def test_the_log_names_the_capability_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    class Lamp:
        pass

    def look(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise AssertionError

    tool = Tool[None, None](name="look", description="Look.", handler=look, capabilities=(Lamp,))
    result = ToolRunner([tool], policy=ToolPolicy(("look",))).exec_sync("look", "{}")
    assert result.error_code == "unavailable"
    assert "look needs a Lamp in resources" in caplog.text
