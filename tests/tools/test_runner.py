"""One path, one answer to each call, and no more said than is known."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools import (
    AiEvent,
    Budget,
    Budgets,
    BudgetTracker,
    Clock,
    EffectLedger,
    InMemoryApprovals,
    LoopSignal,
    Redaction,
    ResourceRegistry,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolFailure,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpec,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools.bound import BoundTool
from demiurge.tools.policy import Decision
from demiurge.values.clock import FixedClock
from demiurge.values.refs import ref_of

ARGS = '{"a": 2, "b": 3}'


@dataclass(frozen=True)
class P:
    a: int
    b: int


@dataclass(frozen=True)
class R:
    total: int
    note: str = "private"


def add_handler(params: P, *, context: ToolContext) -> ToolResult[R]:
    return ToolResult(message="added", value=R(params.a + params.b))


async def async_good(params: P, *, context: ToolContext) -> ToolResult[R]:
    await asyncio.sleep(0)
    return add_handler(params, context=context)


def add_tool(handler: Callable[..., Any] = add_handler, name: str = "math__add", **options: Any) -> Tool[Any, Any]:
    options.setdefault("effect", ToolEffect.READ_ONLY)
    options.setdefault("redaction", Redaction.allow("total"))
    return Tool[P, R](name=name, description="Add.", handler=handler, **options)


class Run:
    """A runner over one tool, with its events."""

    def __init__(self, tool: Any = None, policy: ToolPolicy | None = None, **options: Any) -> None:
        self.events: list[Any] = []
        tool = tool if tool is not None else add_tool()
        policy = policy if policy is not None else ToolPolicy(("math__add",))
        self.runner = ToolRunner([tool], policy=policy, **{"emit": self.events.append, **options})

    def answered_once(self, call_id: str) -> None:
        assert [type(event) for event in self.events] == [ToolCallStart, ToolCallResult]
        assert {event.tool_call_id for event in self.events} == {call_id}


@pytest.mark.parametrize(
    "tool", [add_tool(), add_tool(inline=True), add_tool(async_good)], ids=["def", "inline", "async"]
)
@pytest.mark.parametrize("args", [ARGS, ARGS.encode(), {"a": 2, "b": 3}], ids=["text", "bytes", "mapping"])
async def test_a_successful_call_gives_value_content_events_and_record(tool: Any, args: Any) -> None:
    run = Run(tool, clock=FixedClock(7_000_000))
    result = await run.runner.exec("math__add", args, tool_call_id="call_1")
    assert (result.ok, result.value, result.error_code, result.safe_message) == (
        True,
        {"total": 5},
        None,
        None,
    )
    assert result.content == 'added\n\n{"total":5,"note":"private"}'
    run.answered_once("call_1")
    assert run.events[1].result == {"total": 5}
    record = result.record
    assert (record.tool_call_id, record.name, record.args, record.result) == (
        "call_1",
        "math__add",
        {"a": 2, "b": 3},
        {"total": 5},
    )
    assert (record.error, record.decision, record.effect, record.raw) == (
        None,
        "allow",
        ToolEffect.READ_ONLY,
        None,
    )
    assert record.started_at_ms == record.ended_at_ms == 7
    assert record.spec_hash == tool.spec.spec_hash
    assert record.policy_digest == ToolPolicy(("math__add",)).digest
    assert "args" not in record.public()


@pytest.mark.parametrize(
    "tool", [add_tool(), add_tool(inline=True), add_tool(async_good)], ids=["def", "inline", "async"]
)
def test_exec_sync_is_the_same_call(tool: Any) -> None:
    run = Run(tool)
    sync = run.runner.exec_sync("math__add", ARGS, tool_call_id="c")
    later = asyncio.run(run.runner.exec("math__add", ARGS, tool_call_id="c"))
    assert (sync.value, sync.content, sync.record.args_digest) == (
        later.value,
        later.content,
        later.record.args_digest,
    )


async def test_exec_sync_of_an_async_tool_inside_a_loop() -> None:
    assert Run(add_tool(async_good)).runner.exec_sync("math__add", ARGS).ok


def test_exec_sync_runs_a_def_handler_in_the_calling_thread() -> None:
    seen = []

    def here(params: P, *, context: ToolContext) -> ToolResult[R]:
        seen.append(threading.current_thread())
        return add_handler(params, context=context)

    Run(add_tool(here)).runner.exec_sync("math__add", ARGS)
    assert seen == [threading.current_thread()]


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def test_a_def_handler_runs_in_a_worker_thread_with_the_callers_context() -> None:
    seen = []

    def there(params: P, *, context: ToolContext) -> ToolResult[R]:
        seen.append((threading.current_thread() is threading.main_thread(), VARIABLE.get()))
        return add_handler(params, context=context)

    VARIABLE.set("mine")
    assert (await Run(add_tool(there)).runner.exec("math__add", ARGS)).ok
    assert (await Run(add_tool(there, inline=True)).runner.exec("math__add", ARGS)).ok
    assert seen == [(False, "mine"), (True, "mine")]


@pytest.mark.parametrize(
    "args",
    [
        "",
        "{",
        '{"a": 2, "b": 3',
        '{"a": 1, "a": 2, "b": 3}',
        '{"a": NaN, "b": 3}',
        "[]",
        "null",
        b"\xff",
        ARGS + "x",
        3,
        None,
        {"a": object()},
        {"a": float("inf")},
        {1: 1, "1": 2},
        '{"a": "\\ud800"}',
    ],
)
async def test_arguments_that_are_not_one_json_object(args: Any) -> None:
    run = Run()
    result = await run.runner.exec("math__add", args, tool_call_id="c")
    assert result.error_code == "invalid_json"
    assert result.record.args is None
    assert json.loads(result.content) == {
        "ok": False,
        "error_code": "invalid_json",
        "message": "Invalid tool arguments JSON",
    }
    run.answered_once("c")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ('{"a": 2}', "b: is required"),
        ('{"a": "2", "b": 3}', "a: must be an integer"),
        ('{"a": true, "b": 3}', "a: must be an integer"),
        ('{"a": 2.5, "b": 3}', "a: must be an integer"),
        ('{"a": 2, "b": 3, "canary": 1}', "unknown field; known: a, b"),
        ('{"a": null, "b": 3}', "a: must be an integer"),
    ],
)
async def test_arguments_that_break_the_schema(args: str, words: str) -> None:
    result = await Run().runner.exec("math__add", args)
    assert result.error_code == "validation"
    assert result.safe_message is not None
    assert words in result.safe_message
    assert "canary" not in result.safe_message


async def test_unknown_denied_and_malformed_ids_get_one_answer() -> None:
    tool = add_tool()
    policy = ToolPolicy(("other",))
    answers = []
    for tool_id in ("math__add", "no_such_tool", "no such tool", "", "x" * 100):
        run = Run(tool, policy)
        result = await run.runner.exec(tool_id, ARGS, tool_call_id="c")
        answers.append((result.error_code, result.safe_message, result.content, result.record.effect, run.events[1]))
        run.answered_once("c")
    assert len({repr(answer) for answer in answers}) == 1
    assert answers[0][0] == "policy_denied"
    assert (await Run(tool, policy).runner.exec("other", ARGS)).error_code == "unavailable"


async def test_no_policy_denies_all() -> None:
    assert (await ToolRunner([add_tool()]).exec("math__add", ARGS)).error_code == "policy_denied"


async def test_a_dotted_id_is_accepted() -> None:
    result = await Run().runner.exec("math.add", ARGS)
    assert (result.ok, result.record.name) == (True, "math__add")


async def test_a_missing_call_id_is_minted() -> None:
    run = Run()
    result = await run.runner.exec("math__add", ARGS)
    assert result.tool_call_id.startswith("call_")
    assert len(result.tool_call_id) == len("call_") + 24
    run.answered_once(result.tool_call_id)


def failing_handler(error: BaseException) -> Callable[..., Any]:
    def handler(params: P, *, context: ToolContext) -> ToolResult[R]:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("canary"), "execution", "The tool failed."),
        (TimeoutError("canary"), "execution", "The tool failed."),
        (StopIteration("canary"), "execution", "The tool failed."),
        (ToolUserError("Try Monday."), "execution", "Try Monday."),
        (ToolValidationError("a is odd", fields=("a is 3",)), "validation", "a is odd. Found: a is 3."),
        (ToolValidationError("a must be even"), "validation", "a must be even"),
        (ToolFailure(ToolErrorCode.QUARANTINED), "quarantined", "Nobody has reviewed this tool as it is now"),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
async def test_an_exception_of_a_handler_becomes_an_error_code_and_a_safe_message(
    error: Exception, code: str, message: str, inline: bool
) -> None:
    run = Run(add_tool(failing_handler(error), inline=inline))
    result = await run.runner.exec("math__add", ARGS, tool_call_id="c")
    assert result.error_code == code
    assert result.safe_message is not None
    assert message in result.safe_message
    assert "canary" not in repr((result.content, run.events))
    run.answered_once("c")


def test_a_loop_signal_goes_up_and_is_answered_in_events() -> None:
    run = Run(add_tool(failing_handler(LoopSignal("up"))))
    with pytest.raises(LoopSignal):
        run.runner.exec_sync("math__add", ARGS, tool_call_id="c")
    run.answered_once("c")
    assert run.events[1].result["error_code"] == "cancelled"


async def test_a_cancelled_change_has_an_unknown_outcome() -> None:
    begun = asyncio.Event()

    async def slow(params: P, *, context: ToolContext) -> ToolResult[R]:
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    for effect, code in ((ToolEffect.READ_ONLY, "cancelled"), (ToolEffect.STATE_CHANGE, "unknown_outcome")):
        begun.clear()
        run = Run(add_tool(slow, effect=effect))
        task = asyncio.create_task(run.runner.exec("math__add", ARGS, tool_call_id="c"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run.answered_once("c")
        assert run.events[1].result["error_code"] == code


NOT_RESULTS: list[Any] = [
    None,
    R(1),
    {"total": 1},
    ToolResult(message="m", value={"total": 1}),
    ToolResult(message="m", value=R("canary")),  # type: ignore[arg-type]
    ToolResult(message=3, value=R(1)),  # type: ignore[arg-type]
    ToolResult(message="\ud800", value=R(1)),
]


@pytest.mark.parametrize("returned", NOT_RESULTS)
def test_a_result_of_another_form_is_output_validation(returned: Any) -> None:
    def handler(params: P, *, context: ToolContext) -> Any:
        return returned

    handler.__annotations__.pop("return")
    result = Run(add_tool(handler)).runner.exec_sync("math__add", ARGS)
    assert result.error_code == "output_validation"
    assert "canary" not in result.content


def test_a_success_may_have_no_value() -> None:
    """Seed 004, ToolResult: `value: PayloadT | None`, whatever the declared result."""

    def handler(params: P, *, context: ToolContext) -> ToolResult[R]:
        return ToolResult(message="nothing to add", value=None)

    result = Run(add_tool(handler)).runner.exec_sync("math__add", ARGS)
    assert (result.ok, result.value, result.content) == (True, None, "nothing to add")


def test_an_excluded_value_is_not_in_the_text() -> None:
    def handler(params: P, *, context: ToolContext) -> ToolResult[R]:
        return ToolResult(message="stored", value=R(7), exclude_value_from_context=True)

    result = Run(add_tool(handler)).runner.exec_sync("math__add", ARGS)
    assert (result.content, result.value) == ("stored", {"total": 7})


class Exploding(ToolPolicy):
    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Any:
        raise RuntimeError("canary")


class BadRedaction(Redaction):
    def apply(self, message: str, value: Any) -> Any:
        raise RuntimeError("canary")


class BadSource:
    def get(self, tool_id: str) -> BoundTool | None:
        raise RuntimeError("canary")

    def specs(self) -> tuple[ToolSpec, ...]:
        return ()


class BadApprovals:
    def take(self, request: Any) -> Any:
        raise RuntimeError("canary")


def test_an_exception_in_the_policy_redaction_approvals_source_or_listener_is_answered() -> None:
    def shout(event: object) -> None:
        raise RuntimeError("canary")

    asking = ToolPolicy(("math__add",), (ToolEffect.READ_ONLY,))
    allowed = ToolPolicy(("math__add",))
    runs = {
        "policy_denied": ToolRunner([add_tool()], policy=Exploding(("math__add",))),
        "redaction_failed": ToolRunner([add_tool(redaction=BadRedaction("message_only"))], policy=allowed),
        "approval_required": ToolRunner([add_tool()], policy=asking, approvals=BadApprovals()),
    }
    for code, runner in runs.items():
        result = runner.exec_sync("math__add", ARGS)
        assert result.error_code == code
        assert "canary" not in result.content
    assert ToolRunner(BadSource(), policy=allowed).exec_sync("math__add", ARGS).error_code == "policy_denied"
    assert ToolRunner([add_tool()], policy=allowed, emit=shout).exec_sync("math__add", ARGS).ok


def policy_with_time_limit(ms: int = 20) -> ToolPolicy:
    return ToolPolicy(("math__add",), budgets=Budgets(max_runtime_ms=ms))


@pytest.mark.parametrize(
    ("effect", "code"), [(ToolEffect.READ_ONLY, "timeout"), (ToolEffect.STATE_CHANGE, "unknown_outcome")]
)
async def test_a_handler_over_its_time(effect: ToolEffect, code: str) -> None:
    release = threading.Event()
    stopped = []

    async def waits(params: P, *, context: ToolContext) -> ToolResult[R]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise
        raise AssertionError

    def blocks(params: P, *, context: ToolContext) -> ToolResult[R]:
        release.wait(30)
        return add_handler(params, context=context)

    for handler in (waits, blocks):
        run = Run(add_tool(handler, effect=effect), policy_with_time_limit())
        assert (await run.runner.exec("math__add", ARGS, tool_call_id="c")).error_code == code
        run.answered_once("c")
    release.set()
    assert stopped == [True]
    own = Run(add_tool(waits, effect=effect, timeout=0.02))
    assert (await own.runner.exec("math__add", ARGS)).error_code == code


def test_an_inline_handler_over_its_time_is_noticed() -> None:
    slow_clock = FixedClock(0, step_ns=1_000_000_000)
    assert (
        Run(policy=policy_with_time_limit(), clock=slow_clock).runner.exec_sync("math__add", ARGS).error_code
        == "timeout"
    )
    assert Run(policy=policy_with_time_limit(), clock=FixedClock(0)).runner.exec_sync("math__add", ARGS).ok


class Blobs:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes, /) -> str:
        ref = ref_of(data)
        self.kept[ref] = data
        return ref


def test_a_large_result_is_spilled_or_refused() -> None:
    def handler(params: P, *, context: ToolContext) -> ToolResult[R]:
        return ToolResult(message="big", value=R(1, "é" * 100))

    policy = ToolPolicy(("math__add",), budgets=Budgets(max_result_bytes=100))
    assert Run(add_tool(handler), policy).runner.exec_sync("math__add", ARGS).error_code == "result_too_large"
    blobs = Blobs()
    result = Run(add_tool(handler), policy, blobs=blobs).runner.exec_sync("math__add", ARGS)
    assert result.ok
    assert result.value == {"total": 1}
    (ref,) = blobs.kept
    assert ref in result.content
    assert blobs.kept[ref].decode().startswith("big\n\n{")
    open_tool = add_tool(handler, redaction=Redaction.allow("note"))
    view = Run(open_tool, policy, blobs=blobs).runner.exec_sync("math__add", ARGS).value
    assert json.loads(blobs.kept[view["ref"]]) == {"note": "é" * 100}


def test_the_context_has_everything_also_without_a_run() -> None:
    seen: list[ToolContext] = []

    def look(params: P, *, context: ToolContext) -> ToolResult[R]:
        seen.append(context)
        context.session.event_bus.publish("event")
        assert context.session[R].latest() is None
        assert context.filesystem is None
        assert context.prompt.name == context.adapter.name.replace("none", "")
        return add_handler(params, context=context)

    runner = Run(add_tool(look), resources={str: "a string"}).runner
    who = ToolPolicyContext(run_id="r1", actor="user:7", tenant="t", roles=("user",))
    assert runner.exec_sync("math__add", ARGS, tool_call_id="c", ctx=who, connection_id="conn").ok
    (context,) = seen
    assert (context.caller, context.tool_call_id, context.connection_id) == (who, "c", "conn")
    assert context.resources.get(str) == "a string"
    assert Clock in context.resources


def test_a_given_context_is_the_template() -> None:
    seen: list[ToolContext] = []

    def look(params: P, *, context: ToolContext) -> ToolResult[R]:
        seen.append(context)
        return add_handler(params, context=context)

    own = ToolContext(prompt="p", resources=ResourceRegistry.build({str: "mine"}), caller=ToolPolicyContext("r"))
    runner = Run(add_tool(look), resources={str: "bound", int: 3}).runner
    assert runner.exec_sync("math__add", ARGS, ctx=own).ok
    assert (seen[0].prompt, seen[0].resources.get(str), seen[0].resources.get(int)) == ("p", "mine", 3)


def test_needs_that_are_not_met() -> None:
    assert Run(add_tool(capabilities=(str,))).runner.exec_sync("math__add", ARGS).error_code == "unavailable"
    tied = Run(add_tool(requires_connection=True)).runner
    assert tied.exec_sync("math__add", ARGS, connection_id="c").error_code == "connection_unavailable"
    bare = Tool[P, R](name="math__add", description="d", handler=None)
    assert Run(bare).runner.exec_sync("math__add", ARGS).error_code == "unavailable"


ASKING = ToolPolicy(("math__add",), require_approval_for_tools=("math__add",))


def test_without_an_approval_store_asking_is_denying() -> None:
    assert Run(policy=ASKING).runner.exec_sync("math__add", ARGS).error_code == "policy_denied"


def test_an_approval_is_for_exactly_one_call() -> None:
    store = InMemoryApprovals()
    runner = Run(policy=ASKING, approvals=store).runner
    first = runner.exec_sync("math__add", ARGS, tool_call_id="c")
    assert first.error_code == "approval_required"
    assert first.record.decision == "require_approval"
    (pending,) = store.pending()
    assert pending.approval_id is not None
    store.approve(pending.approval_id, by="user:1")
    other = runner.exec_sync("math__add", '{"a": 2, "b": 4}', tool_call_id="c", approval_id=pending.approval_id)
    assert other.error_code == "approval_required"
    assert runner.exec_sync("math__add", ARGS, tool_call_id="c", approval_id=pending.approval_id).ok
    assert runner.exec_sync("math__add", ARGS, tool_call_id="c").error_code == "approval_required"


def test_a_person_can_say_no_or_be_too_late() -> None:
    clock = FixedClock(0)
    store = InMemoryApprovals(clock, ttl_ms=1000)
    runner = Run(policy=ASKING, approvals=store).runner
    for decide, code, wait in (
        (store.reject, "approval_rejected", 0),
        (store.approve, "approval_expired", 1000),
    ):
        runner.exec_sync("math__add", ARGS, tool_call_id=code)
        approval_id = store.pending()[-1].approval_id
        assert approval_id is not None
        decide(approval_id, by="user:1")
        clock.advance(wait * 1_000_000)
        assert runner.exec_sync("math__add", ARGS, tool_call_id=code).error_code == code


def test_the_policy_of_the_moment_beats_an_approval() -> None:
    store = InMemoryApprovals()
    Run(policy=ASKING, approvals=store).runner.exec_sync("math__add", ARGS, tool_call_id="c")
    store.approve(store.pending()[0].approval_id or "", by="user:1")
    later = Run(policy=ToolPolicy(()), approvals=store).runner
    assert later.exec_sync("math__add", ARGS, tool_call_id="c").error_code == "policy_denied"


async def test_exec_many_answers_in_order_and_overlaps_only_reads_that_are_neighbours() -> None:
    trace: list[str] = []

    async def handler(params: P, *, context: ToolContext) -> ToolResult[R]:
        trace.append(f"+{params.a}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        trace.append(f"-{params.a}")
        return ToolResult(message="", value=R(params.a))

    reads, writes = add_tool(handler, "reads"), add_tool(handler, "writes", effect=ToolEffect.STATE_CHANGE)
    policy = ToolPolicy(("reads", "writes"))
    names = ["reads", "reads", "writes", "reads"]
    calls = [(f"c{index}", name, {"a": index, "b": 0}) for index, name in enumerate(names)]
    one = await ToolRunner([reads, writes], policy=policy).exec_many(calls)
    assert trace == ["+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3"]
    trace.clear()
    two = await ToolRunner([reads, writes], policy=policy, max_parallel=4).exec_many(calls)
    assert trace == ["+0", "+1", "-0", "-1", "+2", "-2", "+3", "-3"]
    assert [r.tool_call_id for r in one] == [r.tool_call_id for r in two] == ["c0", "c1", "c2", "c3"]
    assert [r.value for r in two] == [{"total": n} for n in range(4)]


@pytest.mark.parametrize("names", [["reads"], ["reads", "reads"]])
async def test_exec_many_lets_a_signal_through_as_it_is(names: list[str]) -> None:
    tools = [add_tool(failing_handler(LoopSignal("up")), "reads")]
    runner = ToolRunner(tools, policy=ToolPolicy(("reads",)), max_parallel=2)
    with pytest.raises(LoopSignal):
        await runner.exec_many([(f"c{index}", name, ARGS) for index, name in enumerate(names)])


class AsyncBlobs:
    async def put(self, data: bytes, /) -> str:
        return ""


async def async_emit(event: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"policy": {"allowed_tools": ["math__add"]}}, "policy"),
        ({"policy": "policy.toml"}, "policy"),
        ({"emit": async_emit}, "emit"),
        ({"blobs": AsyncBlobs()}, "blobs"),
        ({"connections": ["00000000-0000-4000-8000-000000000000"]}, "connections"),
        ({"max_parallel": 0}, "max_parallel"),
        ({"ledger": EffectLedger(), "session": object()}, "session"),
    ],
)
def test_an_unusable_option_of_a_runner_is_refused_when_it_is_made(given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ToolRunner([add_tool()], **given)
    assert caught.value.path == path


@pytest.mark.parametrize("ctx", ["user:1", {"actor": "user:1"}, ToolPolicyContext])
async def test_the_ctx_of_a_call_must_be_a_context(ctx: Any) -> None:
    run = Run()
    with pytest.raises(InvalidValue, match="ctx"):
        run.runner.exec_sync("math__add", ARGS, ctx=ctx)
    with pytest.raises(InvalidValue, match="ctx"):
        await run.runner.exec("math__add", ARGS, ctx=ctx)
    assert run.events == []


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()], ids=repr
)
async def test_a_listener_that_raises_loses_its_event_never_the_call(error: BaseException) -> None:
    def listen(event: Any) -> None:
        raise error

    runner = ToolRunner([add_tool()], policy=ToolPolicy(("math__add",)), emit=listen)
    assert runner.exec_sync("math__add", ARGS).value == {"total": 5}
    assert (await runner.exec("math__add", ARGS)).value == {"total": 5}


def test_exceptions_are_logged_without_their_text(caplog: pytest.LogCaptureFixture) -> None:
    Run(add_tool(failing_handler(ValueError("canary")))).runner.exec_sync("math__add", '{"a": 2, "b": 3}')
    assert "ValueError" in caplog.text
    assert "test_runner.py" in caplog.text
    assert "canary" not in caplog.text


def test_a_listener_that_changes_its_event_does_not_change_the_record() -> None:
    def forge(event: AiEvent) -> None:
        if isinstance(event, ToolCallResult):
            event.result["rows"][0]["n"] = "forged"

    def rows(params: None, *, context: ToolContext) -> ToolResult[dict[str, Any]]:
        return ToolResult("m", {"rows": [{"n": 1}]})

    tool = Tool[None, dict[str, Any]](
        name="rows", description="Rows.", handler=rows, redaction=Redaction.paths("rows.n")
    )
    result = ToolRunner([tool], policy=ToolPolicy(("rows",)), emit=forge).exec_sync("rows", "{}")
    assert result.value == result.record.result == {"rows": [{"n": 1}]}


def test_the_catalog_is_what_the_runner_would_not_deny() -> None:
    ask_first = ToolPolicy(("math__add",), require_approval_for_effects=(ToolEffect.STATE_CHANGE,))
    change = add_tool(effect=ToolEffect.STATE_CHANGE)
    assert [spec.name for spec in Run().runner.catalog().specs()] == ["math__add"]
    assert Run(policy=ToolPolicy()).runner.catalog().specs() == ()
    assert Run(change, ask_first).runner.catalog().specs() == ()
    assert Run(change, ask_first, approvals=InMemoryApprovals()).runner.catalog().specs() == (change.spec,)

    class ForOne(ToolPolicy):
        def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
            return "allow" if ctx.actor == "ada" else "deny"

    runner = Run(policy=ForOne(("math__add",))).runner
    ada = ToolPolicyContext("run-7", actor="ada")
    assert len(runner.catalog(ada)) == len(runner.catalog(ToolContext(caller=ada))) == 1
    assert len(runner.catalog()) == 0


def test_runner_resources_returns_what_a_call_would_find_by_type() -> None:
    clock, tracker = FixedClock(0), BudgetTracker(Budget(max_total_tokens=1))
    runner = Run(clock=clock, resources={BudgetTracker: tracker}).runner
    assert (runner.resources().get(Clock), runner.resources().get(BudgetTracker)) == (clock, tracker)
    mine = BudgetTracker(Budget(max_total_tokens=2))
    assert runner.resources(ToolContext(budget_tracker=mine)).get(BudgetTracker) is mine
    assert runner.resources(ToolPolicyContext("run-7")).get(BudgetTracker) is tracker


async def test_another_may_hear_the_events_of_some_calls() -> None:
    run, heard = Run(), list[AiEvent]()
    await run.runner.heard_by(heard.append).exec("math__add", ARGS, tool_call_id="c1")
    assert heard == run.events
    assert len(heard) == 2
    await run.runner.exec("math__add", ARGS, tool_call_id="c2")
    assert (len(heard), len(run.events)) == (2, 4)
    silent = Run(emit=None).runner
    await silent.heard_by(heard.append).exec("math__add", ARGS, tool_call_id="c3")
    assert len(heard) == 4
