"""What a user of a prompt, a session and an executor sees (seed 004, Runtime Dispatch and Failure Semantics)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.filesystems import InMemoryFilesystem
from demiurge.prompts import (
    MarkdownSection,
    Prompt,
    PromptEvaluationError,
    PromptTemplate,
    SectionVisibility,
    ToolExecutor,
    VisibilityExpansionRequired,
    set_visibility,
)
from demiurge.sessions import InProcessEventBus, Session, replace_latest
from demiurge.tools import (
    Budget,
    BudgetTracker,
    Deadline,
    DeadlineExceededError,
    EffectLedger,
    IdempotencyConfig,
    LoopSignal,
    PromptValidationError,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.invoked import RejectedToolParams, ToolInvoked
from demiurge.values.clock import FixedClock
from demiurge.wire import ToolCall


@dataclass(frozen=True)
class Asked:
    text: str


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Draft:
    text: str


Handler = Callable[[Asked, ToolContext], ToolResult[Note]]


@dataclass
class Desk:
    """A prompt with one tool, `note`, whose handler the test brings, a session and all that happened in it."""

    handler: Handler = lambda params, context: ToolResult("noted", Note(params.text))
    idempotency: IdempotencyConfig | None = None
    bus: InProcessEventBus = field(default_factory=InProcessEventBus)
    heard: list[ToolInvoked] = field(default_factory=list)
    files: InMemoryFilesystem = field(default_factory=InMemoryFilesystem)
    runs: int = 0

    def __post_init__(self) -> None:
        self.session = Session(bus=self.bus)
        self.session[Note].register(Note, replace_latest)
        self.bus.subscribe(ToolInvoked, self.heard.append)

        def note(params: Asked, *, context: ToolContext) -> ToolResult[Note]:
            self.runs += 1
            return self.handler(params, context)

        self.tool = Tool[Asked, Note](
            name="note",
            description="Takes a note.",
            handler=note,
            idempotency=self.idempotency,
            redaction=Redaction.allow("text"),
        )
        section = MarkdownSection[None](title="Desk", key="desk", template="Take notes.", tools=[self.tool])
        self.prompt = Prompt(PromptTemplate[None](ns="tests", key="desk", sections=[section]))

    def executor(self, **others: Any) -> ToolExecutor:
        given = {"resources": {Filesystem: self.files}, **others}
        return ToolExecutor(prompt=self.prompt, session=self.session, adapter_name="test", **given)

    def execute(self, text: str = "a", name: str = "note", **others: Any) -> str:
        messages, choice = self.executor(**others).execute([("c1", name, {"text": text})])
        assert choice == "auto"
        assert [(m["role"], m["tool_call_id"]) for m in messages] == [("tool", "c1")]
        return messages[0]["content"]

    @property
    def only(self) -> ToolInvoked:
        """The one event that was published, which is the one in the log."""
        assert len(self.heard) == 1
        logged = self.session[ToolInvoked].all()
        assert [event.event_id for event in logged] == [self.heard[0].event_id]
        return logged[0]

    @property
    def untouched(self) -> bool:
        return not self.session[Note].all() and not self.session[Draft].all() and not self.files.list("")

    def scribble(self, context: ToolContext) -> None:
        """What a handler may leave behind."""
        context.session[Draft].append(Draft("half"))
        context.session.broadcast(Note("half"))
        assert context.filesystem is self.files
        self.files.write("half.txt", "half")
        assert not self.untouched


def test_a_call_reaches_the_model_the_slice_and_the_subscribers() -> None:
    desk = Desk()
    assert desk.execute() == 'noted\n\n{"text":"a"}'
    assert desk.session[Note].latest() == Note("a")
    event = desk.only
    assert (event.name, event.params, event.result) == ("note", Asked("a"), ToolResult("noted", Note("a")))
    assert (event.prompt_name, event.adapter, event.call_id) == ("tests/desk", "test", "c1")
    assert (event.error_code, event.replayed) == (None, False)
    assert event.rendered_output == 'noted\n\n{"text":"a"}'
    assert event.session_id == desk.session.session_id
    assert event.created_at.utcoffset() == timedelta()


def test_the_handler_is_given_the_seeds_context() -> None:
    seen: list[ToolContext] = []
    desk = Desk()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        seen.append(context)
        return ToolResult("ok", Note("x"))

    desk.handler = handler
    deadline = Deadline(datetime.now(UTC) + timedelta(minutes=5))
    tracker = BudgetTracker(Budget(max_total_tokens=10))
    executor = desk.executor(deadline=deadline, budget_tracker=tracker)
    executor.execute([("c1", "note", '{"text": "x"}')])
    (context,) = seen
    assert context.prompt is desk.prompt
    assert context.rendered_prompt is executor.rendered_prompt
    assert context.adapter.name == "test"
    assert context.session is desk.session
    assert context.deadline is deadline
    assert context.budget_tracker is tracker
    assert context.filesystem is desk.files
    assert context.resources.get(Filesystem) is desk.files


def test_calls_come_as_the_wire_or_a_providers_library_gives_them() -> None:
    desk = Desk()
    of_a_library = SimpleNamespace(id="b", function=SimpleNamespace(name="note", arguments='{"text": "2"}'))
    sent = {"id": "c", "type": "function", "function": {"name": "note", "arguments": '{"text": "3"}'}}
    messages, _ = desk.executor().execute([ToolCall("a", "note", '{"text": "1"}'), of_a_library, sent])
    assert [m["tool_call_id"] for m in messages] == ["a", "b", "c"]
    assert [event.params for event in desk.heard] == [Asked("1"), Asked("2"), Asked("3")]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("nobody", "{}", "policy_denied"),
        ("note", "{", "invalid_json"),
        ("note", "[1]", "invalid_json"),
        ("note", '{"text": "a", "more": 1}', "validation"),
        ("note", "{}", "validation"),
        ("note", '{"text": null}', "validation"),
        ("note", '{"text": 5}', "validation"),
    ],
)
def test_a_call_that_can_not_run_is_answered_and_published_once(name: str, arguments: str, code: str) -> None:
    desk = Desk()
    messages, _ = desk.executor().execute([("c1", name, arguments)])
    assert f'"error_code":"{code}"' in messages[0]["content"]
    event = desk.only
    assert event.error_code == code
    assert event.result == ToolResult(event.result.message, None, success=False)
    assert event.params == RejectedToolParams(arguments, event.result.message)
    assert desk.untouched
    assert desk.runs == 0


def test_a_tool_without_a_handler_is_answered() -> None:
    desk = Desk()
    tool = Tool[Asked, Note](name="later", description="Is not written yet.", handler=None)
    section = MarkdownSection[None](title="Later", key="later", template="Wait.", tools=[tool])
    desk.prompt = Prompt(PromptTemplate[None](ns="tests", key="later", sections=[section]))
    assert '"error_code":"unavailable"' in desk.execute(name="later")
    assert desk.only.error_code == "unavailable"
    assert desk.untouched


def test_a_tool_without_parameters_works() -> None:
    def tick(params: None, *, context: ToolContext) -> ToolResult[Note]:
        return ToolResult("tick", Note("tick"))

    tool = Tool[None, Note](name="tick", description="Ticks.", handler=tick)
    section = MarkdownSection[None](title="Clock", key="clock", template="Tick.", tools=[tool])
    prompt = Prompt(PromptTemplate[None](ns="tests", key="clock", sections=[section]))
    session = Session()
    messages, _ = ToolExecutor(prompt=prompt, session=session).execute([("c1", "tick", "{}")])
    assert messages[0]["content"] == 'tick\n\n{"text":"tick"}'
    assert session[ToolInvoked].all()[0].params is None
    assert session[Note].latest() == Note("tick")


def raises(error: BaseException) -> Callable[[Desk], Handler]:
    def handler_of(desk: Desk) -> Handler:
        def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
            desk.scribble(context)
            raise error

        return handler

    return handler_of


def returns(value: Any) -> Callable[[Desk], Handler]:
    def handler_of(desk: Desk) -> Handler:
        def handler(params: Asked, context: ToolContext) -> Any:
            desk.scribble(context)
            return value

        return handler

    return handler_of


WRAPPED = {
    "validation": (raises(ToolValidationError("no", fields=("text is odd",))), "validation"),
    "user": (raises(ToolUserError("Try tomorrow.")), "execution"),
    "exception": (raises(OSError("secret")), "execution"),
    "none": (returns(None), "output_validation"),
    "wrong type": (returns(ToolResult("ok", Draft("x"))), "output_validation"),
    "own failure": (returns(ToolResult("can't", Note("evidence"), success=False)), "execution"),
    "exit": (raises(SystemExit(3)), "unknown_outcome"),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_failing_handler_is_wrapped_and_leaves_nothing_behind(kind: str) -> None:
    handler_of, code = WRAPPED[kind]
    desk = Desk()
    desk.handler = handler_of(desk)
    content = desk.execute()
    assert f'"error_code":"{code}"' in content
    assert "secret" not in content
    assert desk.only.error_code == code
    assert not desk.only.result.success
    assert desk.untouched


def test_a_failures_own_payload_reaches_the_event_and_no_slice() -> None:
    desk = Desk(lambda params, context: ToolResult("can't", Note("evidence"), success=False))
    desk.execute()
    assert desk.only.result == ToolResult("can't", Note("evidence"), success=False)
    assert desk.session[Note].all() == ()


SIGNALS = {
    "visibility": VisibilityExpansionRequired(
        "open", requested_overrides={("a",): SectionVisibility.FULL}, reason="to see", section_keys=("a",)
    ),
    "evaluation": PromptEvaluationError("over", prompt_name="p", phase="tool"),
    "another": LoopSignal("stop"),
}


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_is_raised_again_after_everything_is_taken_back(kind: str) -> None:
    desk, sent = Desk(), SIGNALS[kind]
    desk.handler = raises(sent)(desk)
    with pytest.raises(type(sent)) as raised:
        desk.execute()
    assert raised.value is sent
    assert desk.only.error_code == "cancelled"
    assert desk.untouched


def test_ctrl_c_takes_everything_back() -> None:
    desk = Desk()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        desk.scribble(context)
        signal.raise_signal(signal.SIGINT)
        return ToolResult("never", Note("never"))

    desk.handler = handler
    with pytest.raises(KeyboardInterrupt):
        desk.execute()
    assert desk.only.error_code == "unknown_outcome"
    assert desk.untouched


async def test_a_cancelled_call_takes_everything_back() -> None:
    desk, begun, go_on = Desk(), threading.Event(), threading.Event()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        desk.scribble(context)
        begun.set()
        go_on.wait(20)
        return ToolResult("late", Note("late"))

    desk.handler = handler
    task = asyncio.create_task(desk.executor().execute_async([("c1", "note", {"text": "a"})]))
    await asyncio.to_thread(begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert desk.only.error_code == "unknown_outcome"
    assert desk.untouched


async def test_a_handler_that_overran_its_time_can_change_nothing_any_more() -> None:
    desk, go_on, late = Desk(), threading.Event(), []

    def slow(params: Asked, *, context: ToolContext) -> ToolResult[Note]:
        desk.scribble(context)
        go_on.wait(20)
        for change in (
            lambda: context.session[Draft].append(Draft("late")),
            lambda: context.session.broadcast(Note("late")),
            lambda: desk.files.write("late.txt", "late"),
        ):
            try:
                change()
            except Exception as error:  # noqa: BLE001
                late.append(getattr(error, "code", None))
        return ToolResult("late", Note("late"))

    done = threading.Event()

    def watched(params: Asked, *, context: ToolContext) -> ToolResult[Note]:
        try:
            return slow(params, context=context)
        finally:
            done.set()

    tool = Tool[Asked, Note](name="slow", description="Is slow.", handler=watched, timeout=0.05)
    section = MarkdownSection[None](title="Slow", key="slow", template="Wait.", tools=[tool])
    desk.prompt = Prompt(PromptTemplate[None](ns="tests", key="slow", sections=[section]))
    messages, _ = await desk.executor().execute_async([("c1", "slow", {"text": "a"})])
    assert '"error_code":"unknown_outcome"' in messages[0]["content"]
    go_on.set()
    assert await asyncio.to_thread(done.wait, 20)
    assert late == ["call_over"] * 3
    assert desk.untouched


def test_a_deadline_that_is_over_ends_the_evaluation() -> None:
    clock = FixedClock(10**18)
    deadline = Deadline(datetime.fromtimestamp(10**9 + 60, UTC), clock=clock)
    desk = Desk()
    executor = desk.executor(deadline=deadline, provider_payload={"id": "resp_1"})
    clock.advance(61 * 10**9)
    with pytest.raises(PromptEvaluationError) as raised:
        executor.execute([("c1", "note", {"text": "a"})])
    assert (raised.value.phase, raised.value.prompt_name) == ("tool", "tests/desk")
    assert raised.value.provider_payload == {
        "id": "resp_1",
        "deadline_expires_at": deadline.expires_at.isoformat(),
    }
    assert desk.only.error_code == "deadline_exceeded"
    assert desk.runs == 0


def execute(executor: ToolExecutor, asynchronous: bool, *ids: str) -> None:
    """Notes with these ids, which are their texts too."""
    calls = [(call_id, "note", {"text": call_id}) for call_id in ids]
    if asynchronous:
        asyncio.run(executor.execute_async(calls))
    else:
        executor.execute(calls)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_deadline_in_mid_batch_keeps_the_answers_of_calls_that_ran(asynchronous: bool) -> None:
    clock = FixedClock(10**18)
    deadline = Deadline(datetime.fromtimestamp(10**9 + 60, UTC), clock=clock)
    desk = Desk()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        if params.text == "c2":
            clock.advance(61 * 10**9)
        return ToolResult("noted", Note(params.text))

    desk.handler = handler
    executor = desk.executor(deadline=deadline)
    with pytest.raises(PromptEvaluationError) as raised:
        execute(executor, asynchronous, "c1", "c2", "c3")
    messages = raised.value.tool_messages
    assert [(m["role"], m["tool_call_id"]) for m in messages] == [("tool", "c1"), ("tool", "c2"), ("tool", "c3")]
    assert [m["content"] for m in messages[:2]] == ['noted\n\n{"text":"c1"}', 'noted\n\n{"text":"c2"}']
    assert "deadline_exceeded" in messages[2]["content"]
    assert desk.runs == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_signal_in_mid_batch_keeps_the_answers_of_calls_that_ran(asynchronous: bool) -> None:
    desk = Desk()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        if params.text == "c2":
            raise LoopSignal("stop")
        return ToolResult("noted", Note(params.text))

    desk.handler = handler
    with pytest.raises(LoopSignal) as raised:
        execute(desk.executor(), asynchronous, "c1", "c2", "c3")
    messages = raised.value.tool_messages
    assert [m["tool_call_id"] for m in messages] == ["c1", "c2", "c3"]
    assert messages[0]["content"] == 'noted\n\n{"text":"c1"}'
    assert all("cancelled" in m["content"] for m in messages[1:])


def test_an_interrupted_batch_has_told_the_answers_of_calls_that_ran() -> None:
    desk, told = Desk(), list[dict[str, str]]()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        if params.text == "c2":
            signal.raise_signal(signal.SIGINT)
        return ToolResult("noted", Note(params.text))

    desk.handler = handler
    calls = [(call_id, "note", {"text": call_id}) for call_id in ("c1", "c2", "c3")]
    with pytest.raises(KeyboardInterrupt):
        desk.executor().execute(calls, answered=told.append)
    assert [message["tool_call_id"] for message in told] == ["c1", "c2", "c3"]
    assert told[0] == {"role": "tool", "tool_call_id": "c1", "content": 'noted\n\n{"text":"c1"}'}
    assert "unknown_outcome" in told[1]["content"]
    assert "cancelled" in told[2]["content"]


async def test_a_cancelled_batch_has_told_the_answers_of_calls_that_ran() -> None:
    desk, told, begun = Desk(), list[dict[str, str]](), asyncio.Event()
    loop = asyncio.get_running_loop()
    let_go = threading.Event()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        if params.text == "c2":
            loop.call_soon_threadsafe(begun.set)
            let_go.wait(10)
        return ToolResult("noted", Note(params.text))

    desk.handler = handler
    calls = [(call_id, "note", {"text": call_id}) for call_id in ("c1", "c2", "c3")]
    batch = asyncio.create_task(desk.executor().execute_async(calls, answered=told.append))
    await begun.wait()
    batch.cancel()
    loop.call_later(0.05, let_go.set)
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert [message["tool_call_id"] for message in told] == ["c1", "c2", "c3"]
    assert told[0]["content"] == 'noted\n\n{"text":"c1"}'
    assert "cancelled" in told[2]["content"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_message_is_told_once_and_in_order(asynchronous: bool) -> None:
    desk, told = Desk(), list[dict[str, str]]()
    calls = [(call_id, "note", {"text": call_id}) for call_id in ("c1", "c2")]
    executor = desk.executor()
    if asynchronous:
        messages, _ = asyncio.run(executor.execute_async(calls, answered=told.append))
    else:
        messages, _ = executor.execute(calls, answered=told.append)
    assert told == messages


def test_a_deadline_that_the_handler_meets_ends_it_too() -> None:
    desk = Desk()
    desk.handler = raises(DeadlineExceededError("over"))(desk)
    with pytest.raises(PromptEvaluationError):
        desk.execute()
    assert desk.untouched


def test_a_failing_subscriber_takes_everything_back_and_the_answer_says_so() -> None:
    desk = Desk()

    def handler(params: Asked, context: ToolContext) -> ToolResult[Note]:
        desk.scribble(context)
        return ToolResult("noted", Note(params.text))

    desk.handler = handler
    desk.bus.subscribe(ToolInvoked, raises_always)
    content = desk.execute()
    assert '"error_code":"execution"' in content
    assert "could not be recorded" in content
    assert "noted" not in content
    assert desk.untouched
    assert desk.only.error_code == "execution"
    assert not desk.only.result.success


def raises_always(event: object) -> None:
    raise RuntimeError("no room")


def test_a_failing_reducer_takes_everything_back() -> None:
    desk = Desk()

    def broken(values: tuple[Draft, ...], event: Note, *, context: Any) -> tuple[Draft, ...]:
        raise RuntimeError("no room")

    desk.session[Draft].register(Note, broken)
    assert "could not be recorded" in desk.execute()
    assert desk.untouched
    assert not desk.only.result.success


def test_after_a_failed_publication_the_ledger_publishes_the_stored_value() -> None:
    desk = Desk(idempotency=IdempotencyConfig())
    ledger = EffectLedger()
    desk.bus.subscribe(ToolInvoked, raises_always)
    assert "could not be recorded" in desk.execute(effect_ledger=ledger)
    assert desk.untouched
    desk.bus.unsubscribe(ToolInvoked, raises_always)
    assert desk.execute(effect_ledger=ledger) == 'noted\n\n{"text":"a"}'
    assert desk.runs == 1
    assert desk.session[Note].latest() == Note("a")
    assert [event.replayed for event in desk.heard] == [False, True]
    assert type(desk.heard[1].result.value) is Note


@pytest.mark.parametrize("fails_at_first", [False, True])
def test_a_value_hidden_from_the_model_stays_hidden_in_a_replay(fails_at_first: bool) -> None:
    desk, ledger = Desk(idempotency=IdempotencyConfig()), EffectLedger()
    desk.handler = lambda params, context: ToolResult("noted", Note("hidden"), exclude_value_from_context=True)
    if fails_at_first:
        desk.bus.subscribe(ToolInvoked, raises_always)
    first = desk.execute(effect_ledger=ledger)
    desk.bus.unsubscribe(ToolInvoked, raises_always)
    assert desk.execute(effect_ledger=ledger) == "noted"
    assert "hidden" not in first
    event = desk.session[ToolInvoked].all()[-1]
    assert event.replayed
    assert event.rendered_output == "noted"
    assert event.result == ToolResult("noted", Note("hidden"), exclude_value_from_context=True)
    assert desk.session[Note].latest() == Note("hidden")
    assert desk.runs == 1


def test_a_session_is_not_answered_with_what_another_did() -> None:
    ledger = EffectLedger()
    desks = [Desk(idempotency=IdempotencyConfig()) for _ in range(2)]
    for desk in desks:
        assert desk.execute(effect_ledger=ledger).startswith("noted")
    assert [(desk.runs, desk.only.replayed) for desk in desks] == [(1, False), (1, False)]


def test_after_the_deadline_nothing_is_answered_from_the_ledger_either() -> None:
    clock = FixedClock(10**18)
    deadline = Deadline(datetime.fromtimestamp(10**9 + 60, UTC), clock=clock)
    desk, ledger = Desk(idempotency=IdempotencyConfig()), EffectLedger()
    desk.execute(effect_ledger=ledger, deadline=deadline)
    executor = desk.executor(effect_ledger=ledger, deadline=deadline)
    clock.advance(61 * 10**9)
    with pytest.raises(PromptEvaluationError):
        executor.execute([("c1", "note", {"text": "a"})])
    assert [event.error_code for event in desk.heard] == [None, "deadline_exceeded"]


def test_a_replay_folds_into_the_session_again() -> None:
    desk, ledger = Desk(idempotency=IdempotencyConfig()), EffectLedger()
    desk.execute(effect_ledger=ledger)
    desk.session[Note].clear()
    desk.execute(effect_ledger=ledger)
    assert desk.runs == 1
    assert desk.session[Note].latest() == Note("a")


def test_no_tool_outside_the_prompt_can_run() -> None:
    desk = Desk()
    policy = ToolPolicy(allowed_tools=("note", "other"))
    assert '"error_code":"unavailable"' in desk.execute(name="other", policy=policy)
    assert '"error_code":"policy_denied"' in desk.execute(policy=ToolPolicy())
    assert '"error_code":"policy_denied"' in desk.execute(tool_registry={})
    assert desk.runs == 0
    assert desk.execute(policy=policy).startswith("noted")


@pytest.mark.parametrize(
    "name", ["NOTE", "note ", "note.", ".note", "functions.note", "n\u200bote", "\uff4eote", "note\0"]
)
def test_a_call_with_a_lookalike_of_a_tools_name_can_not_run(name: str) -> None:
    desk = Desk()
    assert '"error_code":"policy_denied"' in desk.execute(name=name)
    assert not desk.only.result.success
    assert desk.runs == 0


def test_a_registry_can_not_put_another_tool_in_the_place_of_the_prompts() -> None:
    desk, other = Desk(), Desk()
    desk.execute(tool_registry={"note": other.tool})
    assert '"error_code":"policy_denied"' in desk.execute(name="another", tool_registry={"another": other.tool})
    assert other.runs == 0


def test_a_section_that_is_opened_later_opens_nothing_for_the_prompt_that_was_rendered_before() -> None:
    desk = Desk()
    section = MarkdownSection[None](
        title="Desk",
        key="desk",
        template="Take notes.",
        tools=[desk.tool],
        summary="Notes.",
        visibility=SectionVisibility.SUMMARY,
    )
    desk.prompt = Prompt(PromptTemplate[None](ns="tests", key="desk", sections=[section]))
    before = desk.executor()
    with pytest.raises(VisibilityExpansionRequired) as raised:
        before.execute(
            [("c1", "open_sections", {"section_keys": ["desk"], "reason": "to note"}), ("c2", "note", {"text": "a"})]
        )
    assert [event.error_code for event in desk.heard] == ["cancelled", "cancelled"]
    set_visibility(desk.session, raised.value.requested_overrides)
    messages, _ = before.execute([("c3", "note", {"text": "a"})])
    assert '"error_code":"policy_denied"' in messages[0]["content"]
    assert desk.runs == 0
    assert desk.execute().startswith("noted")


def test_a_tool_of_a_disabled_section_can_not_run() -> None:
    desk = Desk()
    section = MarkdownSection[None](
        title="Desk", key="desk", template="Take notes.", tools=[desk.tool], enabled=lambda: False
    )
    desk.prompt = Prompt(PromptTemplate[None](ns="tests", key="desk", sections=[section]))
    assert '"error_code":"policy_denied"' in desk.execute()
    assert desk.runs == 0


def test_a_policy_may_ask_a_person() -> None:
    desk = Desk()
    policy = ToolPolicy(allowed_tools=("note",), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
    assert '"error_code":"policy_denied"' in desk.execute(policy=policy)


def test_calls_of_a_turn_see_what_the_ones_before_did() -> None:
    desk = Desk()
    desk.handler = lambda params, context: ToolResult(
        f"after {[note.text for note in context.session[Note].all()]}", Note(params.text)
    )
    messages, _ = desk.executor().execute([(f"c{n}", "note", {"text": str(n)}) for n in range(3)])
    assert [m["content"].split("\n")[0] for m in messages] == ["after []", "after ['0']", "after ['1']"]


async def test_async_handlers_run_both_ways() -> None:
    async def note(params: Asked, *, context: ToolContext) -> ToolResult[Note]:
        await asyncio.sleep(0)
        context.session[Draft].append(Draft(params.text))
        return ToolResult("noted", Note(params.text))

    tool = Tool[Asked, Note](name="note", description="Takes a note.", handler=note)
    section = MarkdownSection[None](title="Desk", key="desk", template="Take notes.", tools=[tool])
    prompt = Prompt(PromptTemplate[None](ns="tests", key="desk", sections=[section]))
    session = Session()
    executor = ToolExecutor(prompt=prompt, session=session)
    await executor.execute_async([("c1", "note", {"text": "a"})])
    await asyncio.to_thread(executor.execute, [("c2", "note", {"text": "b"})])
    assert session[Note].all() == (Note("a"), Note("b"))
    assert session[Draft].all() == (Draft("a"), Draft("b"))


def test_without_a_prompt_there_is_nothing_to_execute() -> None:
    with pytest.raises(PromptValidationError, match="prompt"):
        ToolExecutor(session=Session())
    template: Any = PromptTemplate[None](ns="tests", key="desk")
    with pytest.raises(PromptValidationError, match="a Prompt"):
        ToolExecutor(prompt=template)


def test_a_rendered_prompt_alone_tells_its_name() -> None:
    desk = Desk()
    executor = ToolExecutor(rendered_prompt=desk.prompt.render(), session=desk.session)
    executor.execute([("c1", "note", {"text": "a"})])
    assert (executor.prompt_name, desk.only.prompt_name) == ("tests/desk", "tests/desk")


def test_a_call_that_lacks_its_parts_is_answered() -> None:
    desk = Desk()
    calls: list[Any] = [{}, {"id": "a"}, {"id": "b", "function": {"name": "note"}}, {"id": "c", "function": {}}]
    messages, _ = desk.executor().execute(calls)
    assert [message["tool_call_id"] for message in messages[1:]] == ["a", "b", "c"]
    assert messages[0]["tool_call_id"].startswith("call_")
    codes = ["policy_denied", "policy_denied", "validation", "policy_denied"]
    assert [event.error_code for event in desk.heard] == codes
    assert desk.runs == 0


def test_a_registry_that_is_no_mapping_is_refused() -> None:
    desk = Desk()
    registry: Any = [desk.tool]
    with pytest.raises(PromptValidationError, match="names to tools"):
        desk.executor(tool_registry=registry)
