"""An authorizer is asked after the policy and before all else, and only its yes lets a call through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demiurge import (
    EffectLedger,
    IdempotencyConfig,
    InMemoryApprovals,
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
)
from demiurge.tools import SAFE_MESSAGES, AuthorizationRequest, Authorizer, LoopSignal, ToolErrorCode, ToolFailure
from demiurge.tools.stages import authorize as stage

ADA = ToolPolicyContext(run_id="r", actor="user:ada", tenant="acme", roles=("support",))
ran: list[str] = []


def look(params: None, *, context: ToolContext) -> ToolResult[str]:
    ran.append(context.tool_call_id)
    return ToolResult("seen", "seen")


async def look_later(params: None, *, context: ToolContext) -> ToolResult[str]:
    return look(params, context=context)


TOOL = Tool[None, str](name="look", description="Look.", handler=look, effect=ToolEffect.READ_ONLY)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


class Asked:
    """Answers with what `say` gives or raises, and notes the questions."""

    def __init__(self, say: Callable[[AuthorizationRequest], Any] = lambda request: True) -> None:
        self.say = say
        self.requests: list[AuthorizationRequest] = []

    def check(self, request: AuthorizationRequest, /) -> Any:
        self.requests.append(request)
        return self.say(request)


class AskedLater(Asked):
    async def check(self, request: AuthorizationRequest, /) -> Any:
        await asyncio.sleep(0)
        return super().check(request)


def runner(authorizer: Any, **options: Any) -> ToolRunner:
    given = {"tools": [TOOL], "policy": ToolPolicy(("look",)), **options}
    tools = given.pop("tools")
    return ToolRunner(tools, resources={Authorizer: authorizer}, **given)


def answer_that_raises(error: BaseException) -> Callable[[AuthorizationRequest], Any]:
    def say(request: AuthorizationRequest) -> Any:
        raise error

    return say


async def by_exec(runner: ToolRunner, ctx: Any) -> ToolExecResult:
    return await runner.exec("look", "{}", tool_call_id="c1", ctx=ctx)


async def in_a_turn(runner: ToolRunner, ctx: Any) -> ToolExecResult:
    (result,) = await runner.exec_many([("c1", "look", "{}")], ctx=ctx)
    return result


async def by_exec_sync(runner: ToolRunner, ctx: Any) -> ToolExecResult:
    return runner.exec_sync("look", "{}", tool_call_id="c1", ctx=ctx)


async def without_a_loop(runner: ToolRunner, ctx: Any) -> ToolExecResult:
    return await asyncio.to_thread(runner.exec_sync, "look", "{}", tool_call_id="c1", ctx=ctx)


EXECUTORS = [by_exec, in_a_turn, by_exec_sync, without_a_loop]


@pytest.mark.parametrize("handler", [look, look_later])
@pytest.mark.parametrize("kind", [Asked, AskedLater])
@pytest.mark.parametrize("executor", EXECUTORS)
async def test_the_answer_of_an_authorizer_holds_for_all_executors(
    executor: Any, kind: type[Asked], handler: Any
) -> None:
    tools = [replace(TOOL, handler=handler)]
    for answer, code in ((True, None), (False, "authz_denied"), (None, "authz_unavailable"), (1, "authz_unavailable")):
        ran.clear()
        authorizer = kind(lambda request, answer=answer: answer)  # type: ignore[misc]
        result = await executor(runner(authorizer, tools=tools), ADA)
        assert result.error_code == code
        assert ran == ([] if code else ["c1"])
        assert len(authorizer.requests) == 1


@pytest.mark.parametrize("kind", [Asked, AskedLater])
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("canary"),
        LoopSignal("canary"),
        ToolFailure(ToolErrorCode.EXECUTION, safe_message="canary"),
        TimeoutError(),
        SystemExit(1),
    ],
)
async def test_an_authorizer_that_raises_denies_the_call_and_its_message_stays_hidden(
    kind: type[Asked], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    for executor in EXECUTORS:
        caplog.clear()
        result = await executor(runner(kind(answer_that_raises(error))), ADA)
        assert (result.error_code, ran) == ("authz_unavailable", [])
        assert result.safe_message == SAFE_MESSAGES[ToolErrorCode.AUTHZ_UNAVAILABLE]
        assert "canary" not in result.content + caplog.text
        [line] = caplog.messages
        assert f" raised {type(error).__name__} at " in line
        assert line.startswith("tool call: authorizer ") or not isinstance(error, Exception)


@pytest.mark.parametrize("kind", [Asked, AskedLater])
async def test_an_answer_of_an_authorizer_that_is_no_bool_is_logged_by_its_type(
    kind: type[Asked], caplog: pytest.LogCaptureFixture
) -> None:
    for executor in EXECUTORS:
        caplog.clear()
        await executor(runner(kind(lambda request: "canary")), ADA)
        assert caplog.messages == ["tool call: authorizer answered neither True nor False but a str"]


@pytest.mark.parametrize("handler", [look, look_later])
@pytest.mark.parametrize("executor", [by_exec, in_a_turn])
async def test_an_authorizer_runs_on_the_event_loop_of_its_caller(executor: Any, handler: Any) -> None:
    loops: list[Any] = []

    class OnItsLoop:
        async def check(self, request: AuthorizationRequest, /) -> bool:
            loops.append(asyncio.get_running_loop())
            return True

    assert (await executor(runner(OnItsLoop(), tools=[replace(TOOL, handler=handler)]), ADA)).ok
    assert loops == [asyncio.get_running_loop()]


async def test_an_authorizer_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stage, "_TIMEOUT_S", 0.01)

    class Silent:
        async def check(self, request: AuthorizationRequest, /) -> bool:
            await asyncio.Event().wait()
            return True

    for executor in EXECUTORS:
        caplog.clear()
        result = await executor(runner(Silent()), ADA)
        assert (result.error_code, ran) == ("authz_unavailable", [])
        assert caplog.messages == ["tool call: authorizer did not answer in time"]


async def test_a_value_that_is_no_authorizer_lets_nobody_through() -> None:
    for executor in EXECUTORS:
        assert (await executor(runner(object()), ADA)).error_code == "authz_unavailable"


@pytest.mark.parametrize("caller", [None, ToolPolicyContext(), replace(ADA, actor=""), replace(ADA, tenant="")])
def test_a_caller_without_actor_or_tenant_is_denied_and_the_authorizer_is_not_asked(
    caller: ToolPolicyContext | None, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer = Asked()
    assert runner(authorizer).exec_sync("look", "{}", ctx=caller).error_code == "authz_unavailable"
    assert (authorizer.requests, ran) == ([], [])
    assert caplog.messages == ["tool call: look was called without an actor or a tenant, which an authorizer needs"]


def test_an_authorization_request_holds_references_only() -> None:
    authorizer = Asked()
    runner(authorizer).exec_sync("look", "{}", tool_call_id="c1", ctx=ToolContext(caller=ADA, connection_id="conn"))
    assert authorizer.requests == [AuthorizationRequest(ADA, "look", ToolEffect.READ_ONLY, "c1")]


def test_the_connection_of_a_tool_that_needs_one_is_part_of_the_question() -> None:
    authorizer = Asked(lambda request: False)
    tools = [replace(TOOL, requires_connection=True)]
    result = runner(authorizer, tools=tools).exec_sync("look", "{}", ctx=ADA, connection_id="conn")
    assert result.error_code == "authz_denied"
    assert authorizer.requests[0].connection_id == "conn"


def test_the_policy_is_asked_first() -> None:
    """Who may not use a tool at all learns nothing of who may, and the authorizer nothing of the call."""
    authorizer = Asked()
    for policy in (None, ToolPolicy(("other",)), ToolPolicy(("look",), (ToolEffect.READ_ONLY,))):
        assert runner(authorizer, policy=policy).exec_sync("look", "{}", ctx=ADA).error_code == "policy_denied"
    absent = runner(authorizer, policy=ToolPolicy(("gone",))).exec_sync("gone", "{}", ctx=ADA)
    assert (absent.error_code, authorizer.requests) == ("unavailable", [])


@pytest.mark.parametrize("args", ["{", '{"unknown": 1}', "{}"])
def test_an_authorizer_is_asked_before_the_arguments_are_parsed(args: str) -> None:
    result = runner(Asked(lambda request: False)).exec_sync("look", args, ctx=ADA)
    assert (result.error_code, result.record.args) == ("authz_denied", None)


def test_nobody_is_asked_to_approve_what_is_not_authorized() -> None:
    approvals = InMemoryApprovals()
    policy = ToolPolicy(("look",), require_approval_for_tools=("look",))
    may = {"answer": False}
    guarded = runner(Asked(lambda request: may["answer"]), policy=policy, approvals=approvals)

    def code() -> str | None:
        return guarded.exec_sync("look", "{}", tool_call_id="c1", ctx=ADA).error_code

    assert (code(), approvals.pending()) == ("authz_denied", ())
    may["answer"] = True
    assert code() == "approval_required"
    (request,) = approvals.pending()
    assert request.approval_id is not None
    approvals.approve(request.approval_id, by="bob")
    may["answer"] = False
    assert (code(), ran) == ("authz_denied", [])
    may["answer"] = True
    assert (code(), ran) == (None, ["c1"])


def test_a_stored_answer_is_for_those_who_may_make_the_call() -> None:
    tools = [replace(TOOL, idempotency=IdempotencyConfig())]
    guarded = runner(Asked(lambda request: request.caller.actor == "user:ada"), tools=tools, ledger=EffectLedger())
    answers = [guarded.exec_sync("look", "{}", ctx=ctx) for ctx in (ADA, replace(ADA, actor="user:eve"), ADA)]
    assert [(each.error_code, each.record.replayed) for each in answers] == [
        (None, False),
        ("authz_denied", False),
        (None, True),
    ]
    assert len(ran) == 1


def test_a_denial_is_recorded_and_counted_like_any() -> None:
    events: list[Any] = []
    guarded = runner(Asked(lambda request: False), emit=events.append)
    record = guarded.exec_sync("look", "{}", tool_call_id="c1", ctx=ADA).record
    assert (record.decision, record.spec_hash) == ("allow", TOOL.spec.spec_hash)
    assert record.error == {"code": "authz_denied", "message": SAFE_MESSAGES[ToolErrorCode.AUTHZ_DENIED]}
    assert [event.tool_call_id for event in events] == ["c1", "c1"]
    assert guarded.summary.to_json()["denied"] == 1


async def test_the_authorizer_of_the_context_is_asked_if_the_runner_has_none() -> None:
    context = ToolContext(caller=ADA, resources=ResourceRegistry.build({Authorizer: Asked(lambda request: False)}))
    for executor in EXECUTORS:
        assert (await executor(runner(None), context)).error_code == "authz_denied"
    assert ran == []


async def test_the_authorizer_of_the_context_does_not_replace_that_of_the_runner() -> None:
    mine = Asked()
    context = ToolContext(caller=ADA, resources=ResourceRegistry.build({Authorizer: mine}))
    result = await runner(Asked(lambda request: False)).exec("look", "{}", ctx=context)
    assert (result.error_code, mine.requests) == ("authz_denied", [])
