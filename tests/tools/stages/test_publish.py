"""The session hears of every call once, and what a failed one changed is gone, also among calls that overlap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from demiurge.sessions import InProcessEventBus, Session
from demiurge.tools import (
    Budgets,
    EffectLedger,
    IdempotencyConfig,
    InMemoryApprovals,
    Redaction,
    RejectedToolParams,
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolEffect,
    ToolErrorLog,
    ToolInvoked,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolUserError,
)
from demiurge.values.clock import FixedClock


@dataclass(frozen=True)
class N:
    n: int


@dataclass(frozen=True)
class Trace:
    n: int


class Meeting:
    """Calls that wait for one another inside the handler, each leaving a trace; the odd ones fail."""

    def __init__(self, size: int) -> None:
        self.size, self.here, self.all_here = size, 0, asyncio.Event()

    async def attend(self, params: N, *, context: ToolContext) -> ToolResult[N]:
        context.session[Trace].append(Trace(params.n))
        self.here += 1
        if self.here == self.size:
            self.all_here.set()
        await self.all_here.wait()
        context.session[Trace].append(Trace(-params.n))
        if params.n % 2:
            raise ToolUserError("I am odd.")
        return ToolResult("came", N(params.n))


def tool_of(handler: Callable[..., Any], effect: ToolEffect = ToolEffect.READ_ONLY) -> Tool[N, N]:
    return Tool[N, N](name="t", description="Works.", handler=handler, effect=effect, redaction=Redaction.allow("n"))


POLICY = ToolPolicy(("t",))


async def test_of_calls_that_overlap_only_the_failed_ones_are_taken_back() -> None:
    meeting, session = Meeting(4), Session()
    runner = ToolRunner([tool_of(meeting.attend)], policy=POLICY, session=session, max_parallel=4)
    await runner.exec_many([(f"c{n}", "t", {"n": n}) for n in (1, 2, 3, 4)])
    assert sorted(trace.n for trace in session[Trace].all()) == [-4, -2, 2, 4]
    assert {n.n for n in session[N].all()} == {2, 4}
    assert len(session[ToolInvoked].all()) == 4
    assert {event.call_id: event.result.success for event in session[ToolInvoked].all()} == {
        "c1": False,
        "c2": True,
        "c3": False,
        "c4": True,
    }


async def test_a_call_within_a_call_goes_back_with_it() -> None:
    session = Session()

    async def inner(params: N, *, context: ToolContext) -> ToolResult[N]:
        context.session[Trace].append(Trace(params.n))
        return ToolResult("inner", N(params.n))

    within = ToolRunner([tool_of(inner)], policy=POLICY, session=session)

    async def outer(params: N, *, context: ToolContext) -> ToolResult[N]:
        assert (await within.exec("t", {"n": params.n})).ok
        assert session[Trace].all() == (Trace(params.n),)
        if params.n == 1:
            raise ToolUserError("no")
        return ToolResult("outer", N(-params.n))

    runner = ToolRunner([tool_of(outer)], policy=POLICY, session=session)
    assert not (await runner.exec("t", {"n": 1})).ok
    assert session[Trace].all() == ()
    assert session[N].all() == ()
    assert (await runner.exec("t", {"n": 2})).ok
    assert session[Trace].all() == (Trace(2),)
    assert session[N].all() == (N(2), N(-2))


async def test_the_callers_context_brings_its_own_session() -> None:
    ours, theirs = Session(), Session()
    runner = ToolRunner([tool_of(lambda params, *, context: ToolResult("ok", params))], policy=POLICY, session=ours)
    await runner.exec("t", {"n": 1}, ctx=ToolContext(session=theirs))
    await runner.exec("t", {"n": 2}, ctx=ToolContext())
    await runner.exec("t", {"n": 3}, ctx=ToolPolicyContext())
    await runner.exec("t", "nonsense", ctx=ToolContext(session=theirs))
    assert theirs[N].all() == (N(1),)
    assert ours[N].all() == (N(2), N(3))
    assert [event.error_code for event in theirs[ToolInvoked].all()] == [None, "invalid_json"]


class OwnBus:
    """A session of somebody's own make: a bus, and nothing that can go back."""

    session_id = "mine"

    def __init__(self, fails: bool = False) -> None:
        self.heard: list[ToolInvoked] = []
        self.fails, self.event_bus = fails, self

    def publish(self, event: ToolInvoked) -> None:
        self.heard.append(event)
        if self.fails:
            raise OSError("no room")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_session_of_ones_own_make_hears_of_calls(fails: bool) -> None:
    session = OwnBus(fails)
    runner = ToolRunner([tool_of(lambda params, *, context: ToolResult("ok", params))], policy=POLICY, session=session)
    answer = await runner.exec("t", {"n": 1})
    assert answer.ok is not fails
    assert not (await runner.exec("t", "{")).ok
    assert [event.session_id for event in session.heard] == ["mine", "mine"]


async def test_ctrl_c_in_a_subscriber_takes_the_call_back() -> None:
    bus = InProcessEventBus()
    session = Session(bus=bus)
    kept: list[Any] = []

    def interrupted(event: ToolInvoked) -> None:
        raise asyncio.CancelledError

    bus.subscribe(ToolInvoked, interrupted)
    tool = tool_of(lambda params, *, context: ToolResult("ok", params), ToolEffect.STATE_CHANGE)
    runner = ToolRunner([tool], policy=POLICY, session=session, emit=kept.append)
    with pytest.raises(asyncio.CancelledError):
        await runner.exec("t", {"n": 1})
    assert session[N].all() == ()
    assert kept[-1].is_error
    assert [event.error_code for event in session[ToolInvoked].all()] == ["unknown_outcome"]


async def test_ctrl_c_before_the_session_has_heard_is_in_its_log_all_the_same() -> None:
    bus = InProcessEventBus()

    def interrupted(event: ToolInvoked) -> None:
        raise asyncio.CancelledError

    bus.subscribe(ToolInvoked, interrupted)
    session = Session(bus=bus)
    tool = tool_of(lambda params, *, context: ToolResult("ok", params))
    runner = ToolRunner([tool], policy=POLICY, session=session)
    for name in ("t", "unknown"):
        with pytest.raises(asyncio.CancelledError):
            await runner.exec(name, {"n": 1})
    assert [event.error_code for event in session[ToolInvoked].all()] == ["unknown_outcome", "policy_denied"]
    assert session[N].all() == ()


class NoView(Redaction):
    def apply(self, message: str, value: Any) -> Any:
        raise RuntimeError("no view")


class Deaf(EffectLedger):
    def claim(self, *args: Any, **options: Any) -> Any:
        raise OSError("no disk")


ASKS = ToolPolicy(("t",), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
OUTCOMES: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "ok": ({}, {}, {"n": 1}),
    "nobody listens": ({}, {"emit": lambda event: 1 / 0}, {"n": 1}),
    "policy_denied": ({}, {"policy": ToolPolicy()}, {"n": 1}),
    "approval_required": ({}, {"policy": ASKS, "approvals": InMemoryApprovals()}, {"n": 1}),
    "invalid_json": ({}, {}, "{"),
    "validation": ({}, {}, {"m": 1}),
    "connection_unavailable": ({"requires_connection": True}, {}, {"n": 1}),
    "execution": ({"idempotency": IdempotencyConfig()}, {"ledger": Deaf()}, {"n": 1}),
    "output_validation": ({}, {}, {"n": -1}),
    "redaction_failed": ({"redaction": NoView()}, {}, {"n": 1}),
    "result_too_large": ({}, {"policy": ToolPolicy(("t",), budgets=Budgets(max_result_bytes=2))}, {"n": 1}),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_one_event_for_each_outcome_that_says_what_the_answer_says(outcome: str) -> None:
    def handler(params: N, *, context: ToolContext) -> ToolResult[N]:
        context.session[Trace].append(Trace(params.n))
        value: Any = params if params.n > 0 else Trace(params.n)
        return ToolResult("ok", value)

    of_tool, of_runner, raw_args = OUTCOMES[outcome]
    given = {"redaction": Redaction.allow("n"), **of_tool}
    tool = Tool[N, N](name="t", description="Works.", handler=handler, **given)
    session = Session(session_id="s")
    heard: list[ToolInvoked] = []
    session.event_bus.subscribe(ToolInvoked, heard.append)
    runner = ToolRunner([tool], session=session, **{"policy": POLICY, **of_runner})
    answer = runner.exec_sync("t", raw_args)
    assert answer.error_code == (None if answer.ok else outcome)
    (event,) = session[ToolInvoked].all()
    assert heard == [event]
    assert (event.error_code, event.rendered_output) == (answer.error_code, answer.content)
    assert event.result.success is answer.ok
    assert bool(session[N].all()) is bool(session[Trace].all()) is answer.ok


async def test_without_a_session_nothing_is_published() -> None:
    runner = ToolRunner([tool_of(lambda params, *, context: ToolResult("ok", params))], policy=POLICY)
    assert (await runner.exec("t", {"n": 1})).ok


class Counting:
    """Randomness that counts, so that two ids are never the same."""

    def __init__(self) -> None:
        self.given = 0

    def token(self, n: int) -> bytes:
        self.given += 1
        return self.given.to_bytes(n, "big")


PROMPT_NAMES: list[tuple[Any, str]] = [
    (SimpleNamespace(name="desk", key="desk/1"), "desk"),
    (SimpleNamespace(name="", key="desk/1"), "desk/1"),
    (SimpleNamespace(key="desk/1"), "desk/1"),
    (SimpleNamespace(), ""),
    (None, ""),
]


@pytest.mark.parametrize(("prompt", "name"), PROMPT_NAMES)
@pytest.mark.parametrize(("adapter", "adapter_name"), [(SimpleNamespace(name="cli"), "cli"), (None, "")])
def test_the_event_has_all_of_the_call(prompt: Any, name: str, adapter: Any, adapter_name: str) -> None:
    session = Session(session_id="s")
    tool = tool_of(lambda params, *, context: ToolResult("ok", params))
    runner = ToolRunner([tool], policy=POLICY, clock=FixedClock(1_600_000_000_123_456_789), entropy=Counting())
    answer = runner.exec_sync(
        "t", {"n": 1}, tool_call_id="c", ctx=ToolContext(session=session, prompt=prompt, adapter=adapter)
    )
    assert session[ToolInvoked].all() == (
        ToolInvoked(
            prompt_name=name,
            adapter=adapter_name,
            name="t",
            params=N(1),
            result=ToolResult("ok", N(1)),
            session_id="s",
            created_at=datetime(2020, 9, 13, 12, 26, 40, 123_456, tzinfo=UTC),
            rendered_output=answer.content,
            call_id="c",
            event_id=UUID(int=1, version=4),
        ),
    )


def test_the_event_of_a_failed_call_has_the_safe_message_and_the_arguments_as_they_came() -> None:
    session = Session(session_id="s")

    def fail(params: N, *, context: ToolContext) -> ToolResult[N]:
        raise RuntimeError("canary")

    def report(params: N, *, context: ToolContext) -> ToolResult[N]:
        return ToolResult("sold out", params, success=False)

    answers = []
    for handler, args in ((fail, '{"n": "x"}'), (fail, '{"n": 1}'), (report, '{"n": 1}')):
        runner = ToolRunner([tool_of(handler)], policy=POLICY, session=session)
        answers.append(runner.exec_sync("t", args))
    refused, failed, reported = session[ToolInvoked].all()
    said = [answer.safe_message for answer in answers]
    assert refused.params == RejectedToolParams('{"n": "x"}', str(said[0]))
    assert refused.result == ToolResult(str(said[0]), None, success=False)
    assert (failed.params, failed.result) == (N(1), ToolResult(str(said[1]), None, success=False))
    assert (reported.params, reported.result) == (N(1), ToolResult("sold out", N(1), success=False))
    assert [event.rendered_output for event in (refused, failed, reported)] == [answer.content for answer in answers]
    assert [event.error_code for event in (refused, failed, reported)] == ["validation", "execution", "execution"]
    assert [event.prompt_name + event.adapter for event in (refused, failed, reported)] == ["", "", ""]


class Stuck:
    """A resource that cannot go back to how it was."""

    def snapshot(self) -> None:
        return None

    def restore(self, snapshot: None) -> None:
        raise OSError("canary")


NOT_BACK = "The tool failed, and what it had changed here could not be taken back."
NOT_KEPT = "The tool ran, but its result could not be recorded here."


def test_changes_that_can_not_be_taken_back_leave_the_outcome_open() -> None:
    def fail(params: N, *, context: ToolContext) -> ToolResult[N]:
        raise ToolUserError("no")

    session = Session()
    runner = ToolRunner([tool_of(fail)], policy=POLICY, session=session, resources={Stuck: Stuck()})
    answer = runner.exec_sync("t", {"n": 1})
    assert (answer.error_code, answer.safe_message) == ("unknown_outcome", NOT_BACK)
    (event,) = session[ToolInvoked].all()
    assert (event.error_code, event.result.message) == ("unknown_outcome", NOT_BACK)


class Deafened(RuntimeError):
    pass


def raise_deafened(event: ToolInvoked) -> None:
    raise Deafened("canary")


@pytest.mark.parametrize("effect", [ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE])
def test_a_result_that_a_subscriber_does_not_take_is_not_kept(
    effect: ToolEffect, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session(session_id="s")
    heard: list[ToolInvoked] = []
    session.event_bus.subscribe(ToolInvoked, heard.append)
    session.event_bus.subscribe(ToolInvoked, raise_deafened)

    def handler(params: N, *, context: ToolContext) -> ToolResult[N]:
        context.session[Trace].append(Trace(params.n))
        return ToolResult("ok", params)

    answer = ToolRunner([tool_of(handler, effect)], policy=POLICY, session=session).exec_sync("t", {"n": 1})
    assert (answer.error_code, answer.safe_message) == ("execution", NOT_KEPT)
    (event,) = session[ToolInvoked].all()
    assert (event.error_code, event.result) == ("execution", ToolResult(NOT_KEPT, None, success=False))
    assert (event.event_id, event.session_id, event.rendered_output) == (heard[0].event_id, "s", answer.content)
    assert (session[N].all(), session[Trace].all()) == ((), ())
    lines = [line.partition(" at ")[0] for line in caplog.messages]
    assert "tool call: session raised Deafened" in lines
    assert "canary" not in answer.content + caplog.text


class Corrected:
    """A session of somebody's own make that takes corrections, or fails to."""

    def __init__(self, fails: bool = False) -> None:
        self.session_id, self.event_bus, self.fails = "mine", self, fails
        self.corrections: list[ToolInvoked] = []

    def publish(self, event: ToolInvoked) -> None:
        raise Deafened("canary")

    def correct(self, event: ToolInvoked) -> None:
        self.corrections.append(event)
        if self.fails:
            raise OSError("canary")


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_of_ones_own_make_is_corrected(fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    session = Corrected(fails)
    tool = tool_of(lambda params, *, context: ToolResult("ok", params))
    answer = ToolRunner([tool], policy=POLICY, session=session).exec_sync("t", {"n": 1})
    assert (answer.error_code, answer.safe_message) == ("execution", NOT_KEPT)
    (event,) = session.corrections
    assert (event.session_id, event.error_code, event.rendered_output) == ("mine", "execution", answer.content)
    lines = [line.partition(" at ")[0] for line in caplog.messages]
    assert lines == ["tool call: session raised Deafened", "tool call: session raised OSError"][: 1 + fails]
    assert "canary" not in caplog.text


def test_a_session_of_ones_own_make_needs_no_id() -> None:
    heard: list[ToolInvoked] = []
    session = SimpleNamespace(event_bus=SimpleNamespace(publish=heard.append))
    tool = tool_of(lambda params, *, context: ToolResult("ok", params))
    context = ToolContext(session=session, adapter=SimpleNamespace())
    assert ToolRunner([tool], policy=POLICY).exec_sync("t", {"n": 1}, ctx=context).ok
    assert [(event.session_id, event.adapter) for event in heard] == [(None, "")]


def test_a_subscriber_that_raises_changes_nothing_of_a_call_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    session = Session()
    session.event_bus.subscribe(ToolInvoked, raise_deafened)
    tool = tool_of(lambda params, *, context: ToolResult("no", None, success=False))
    runner = ToolRunner([tool], policy=POLICY, session=session, log_tool_errors=ToolErrorLog(told.append))
    answers = [runner.exec_sync("t", {"n": 1}, tool_call_id=call_id) for call_id in ("c1", "c2")]
    assert [(answer.error_code, answer.safe_message) for answer in answers] == [("execution", "The tool failed.")] * 2
    first, second = session[ToolInvoked].all()
    assert isinstance(first.event_id, UUID)
    assert first.event_id != second.event_id
    assert ["session (call c1) raised" in told[0], "session (call c2) raised" in told[1]] == [True, True]
    lines = [line.partition(" at ")[0] for line in caplog.messages]
    assert lines.count("tool call: session raised Deafened") == 2


class Shelf:
    """A resource that can go back to how it was."""

    def __init__(self) -> None:
        self.books: list[int] = []

    def snapshot(self) -> list[int]:
        return list(self.books)

    def restore(self, snapshot: list[int]) -> None:
        self.books = snapshot


@pytest.mark.parametrize("in_context", [False, True])
def test_a_resource_goes_back_without_a_session_too(in_context: bool) -> None:
    shelf = Shelf()

    def put(params: N, *, context: ToolContext) -> ToolResult[N]:
        context.resources.get(Shelf).books.append(params.n)  # type: ignore[union-attr]
        return ToolResult("put", params, success=params.n % 2 == 0)

    given: dict[Any, Any] = {Shelf: shelf}
    runner = ToolRunner([tool_of(put)], policy=POLICY, resources={} if in_context else given)
    ctx = ToolContext(resources=ResourceRegistry.build(given)) if in_context else None
    for n in range(4):
        runner.exec_sync("t", {"n": n}, ctx=ctx)
    assert shelf.books == [0, 2]


def test_an_author_can_read_which_calls_result_was_not_taken() -> None:
    told: list[str] = []
    session = Session()
    session.event_bus.subscribe(ToolInvoked, raise_deafened)
    for effect in (ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE):
        tool = tool_of(lambda params, *, context: ToolResult("ok", params), effect)
        runner = ToolRunner([tool], policy=POLICY, session=session, log_tool_errors=ToolErrorLog(told.append))
        runner.exec_sync("t", {"n": 1}, tool_call_id="c1")
    assert ["session (call c1) raised" in each and "Deafened: canary" in each for each in told] == [True, True]


class Result:
    """What a bus of somebody's own make answers: with errors as they are, not wrapped."""

    errors = (Deafened("canary"), KeyError("canary"))


def test_a_bus_of_ones_own_make_may_answer_with_bare_errors(caplog: pytest.LogCaptureFixture) -> None:
    session = SimpleNamespace(session_id="mine", event_bus=SimpleNamespace(publish=lambda event: Result()))
    tool = tool_of(lambda params, *, context: ToolResult("ok", params))
    answer = ToolRunner([tool], policy=POLICY, session=session).exec_sync("t", {"n": 1})
    assert (answer.error_code, answer.safe_message) == ("execution", NOT_KEPT)
    lines = [line.partition(" at ")[0] for line in caplog.messages]
    assert lines == ["tool call: session raised Deafened", "tool call: session raised KeyError"]
