"""A call gets the connection that its caller named, was granted and owns; else it does not run."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.stores.connection_store import MemoryConnectionStore
from demiurge.tools import (
    AuthCapability,
    Connection,
    ConnectionBroker,
    ConnectionGrant,
    Credentials,
    Deadline,
    InMemoryApprovals,
    KeyRing,
    LoopSignal,
    PromptValidationError,
    Redaction,
    ResourceRegistry,
    SealedConnection,
    StaticToolSource,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolExecResult,
    ToolFailure,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolUserError,
    ToolValidationError,
    compile_schema,
    validate_tool_schema_p0,
)
from demiurge.values.clock import FixedClock

ADA = ToolPolicyContext(run_id="r1", actor="user:ada", tenant="ba_1")
NOW_MS = 1_000_000_000_000


class CountedStore(MemoryConnectionStore):
    """Counts how often it is asked for a row."""

    asked = 0

    def get(self, connection_id: str) -> SealedConnection | None:
        self.asked += 1
        return super().get(connection_id)


class Bench:
    """A broker, two connections, and a runner over one tool that may use the first."""

    def __init__(self, refresh: Any = None, **options: Any) -> None:
        self.clock = FixedClock(NOW_MS * 1_000_000)
        self.store = CountedStore()
        self.broker = ConnectionBroker(
            self.store, KeyRing({"v1": bytes(32)}), refresh={"github": refresh} if refresh else {}, clock=self.clock
        )
        self.mine = self.add("token-mine", **options)
        self.other = self.add("token-other")
        self.events: list[Any] = []

    def add(self, token: str, tenant: str = "ba_1", **options: Any) -> Connection:
        return self.broker.add(tenant=tenant, provider="github", credentials=Credentials(token, **options))

    def runner(self, tool: Any, granted: Sequence[Any] | None = None, **options: Any) -> ToolRunner:
        granted = [self.mine.id] if granted is None else granted
        declared = [getattr(grant, "connection_id", grant) for grant in granted]
        return ToolRunner(
            [tool],
            **{
                "policy": ToolPolicy(("look",)),
                "connections": self.broker.access(granted=granted, declared=declared),
                "emit": self.events.append,
                **options,
            },
        )


@dataclass(frozen=True)
class Seen:
    digest: str


def digest(token: str) -> str:
    return f"digest of {token[-5:]}"


def made(handler: Callable[..., Any], **options: Any) -> Tool[Any, Any]:
    options = {"effect": ToolEffect.STATE_CHANGE, "redaction": Redaction.allow("digest"), **options}
    return Tool[None, Seen](
        name="look", description="Look.", handler=handler, **{"requires_connection": True, **options}
    )


def look(params: None, *, context: ToolContext) -> ToolResult[Seen]:
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    return ToolResult("", Seen(digest(auth.get_access_token())))


async def look_async(params: None, *, context: ToolContext) -> ToolResult[Seen]:
    await asyncio.sleep(0)
    return look(params, context=context)


KINDS = [made(look), made(look, inline=True), made(look_async), made(look, timeout=30), made(look_async, timeout=30)]
ids = ["def", "inline", "async", "def in time", "async in time"]


def assert_answered_with_token(bench: Bench, result: ToolExecResult, token: str = "token-mine") -> None:
    assert (result.error_code, result.value) == (None, {"digest": digest(token)})
    assert [type(event) for event in bench.events[-2:]] == [ToolCallStart, ToolCallResult]


@pytest.mark.parametrize("tool", KINDS, ids=ids)
async def test_a_handler_of_any_kind_gets_its_connection(tool: Any) -> None:
    bench = Bench()
    assert_answered_with_token(bench, await bench.runner(tool).exec("look", "{}", ctx=ADA, connection_id=bench.mine.id))
    assert_answered_with_token(bench, bench.runner(tool).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id))


@pytest.mark.parametrize("tool", KINDS, ids=ids)
def test_a_handler_gets_its_connection_without_an_event_loop(tool: Any) -> None:
    bench = Bench()
    assert_answered_with_token(bench, bench.runner(tool).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id))


def test_exec_sync_runs_the_handler_where_it_was_called() -> None:
    threads: list[Any] = []

    def here(params: None, *, context: ToolContext) -> ToolResult[Seen]:
        threads.append(threading.current_thread())
        asyncio.run(asyncio.sleep(0))  # as a plain function may
        return look(params, context=context)

    bench = Bench()
    assert_answered_with_token(
        bench, bench.runner(made(here)).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    )
    assert threads == [threading.current_thread()]


async def refresh_credentials(connection: Connection, old: Credentials) -> Credentials:
    await asyncio.sleep(0)
    return Credentials("token-fresh")


@pytest.mark.parametrize("tool", KINDS, ids=ids)
async def test_an_expired_token_is_renewed_on_the_way(tool: Any) -> None:
    for sync in (False, True):
        bench = Bench(refresh_credentials, expires_at_ms=0)
        runner = bench.runner(tool)
        if sync:
            result = runner.exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
        else:
            result = await runner.exec("look", "{}", ctx=ADA, connection_id=bench.mine.id)
        assert_answered_with_token(bench, result, "token-fresh")


@pytest.mark.parametrize("tool", KINDS, ids=ids)
def test_an_expired_token_is_renewed_without_an_event_loop(tool: Any) -> None:
    bench = Bench(refresh_credentials, expires_at_ms=0)
    result = bench.runner(tool).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    assert_answered_with_token(bench, result, "token-fresh")


# who may


def handler_that_must_not_run(params: None, *, context: ToolContext) -> ToolResult[Seen]:
    raise AssertionError("must not run")


NEVER = made(handler_that_must_not_run)


def refusal_of(result: ToolExecResult) -> tuple[Any, ...]:
    return (result.ok, str(result.error_code), result.safe_message, result.content)


def test_a_call_without_a_connection_id_gets_no_connection_even_if_there_is_only_one() -> None:
    bench = Bench()
    result = bench.runner(NEVER).exec_sync("look", "{}", ctx=ADA)
    assert result.error_code == "connection_unavailable"
    assert bench.store.asked == 0


def test_a_runner_without_connections_has_none() -> None:
    bench = Bench()
    runner = ToolRunner([NEVER], policy=ToolPolicy(("look",)))
    result = runner.exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    assert result.error_code == "connection_unavailable"


def test_a_connection_that_is_not_granted_is_denied_in_the_same_words_whether_it_exists_or_not() -> None:
    bench = Bench()
    theirs = bench.add("token-theirs", tenant="ba_2")
    revoked = bench.add("token-old")
    bench.broker.revoke(revoked.id)
    bench.store.asked = 0
    runner = bench.runner(NEVER)
    named = (bench.other.id, theirs.id, revoked.id, "00000000-0000-4000-8000-000000000000", "", "x" * 9999)
    answers = {refusal_of(runner.exec_sync("look", "{}", ctx=ADA, connection_id=name)) for name in named}
    assert {answer[1] for answer in answers} == {"policy_denied"}
    assert len(answers) == 1
    assert bench.store.asked == 0


def test_a_granted_connection_that_is_unusable_is_unavailable_in_the_same_words_for_every_reason() -> None:
    bench = Bench()
    theirs, revoked, broken = bench.add("theirs", tenant="ba_2"), bench.add("old"), bench.add("broken")
    bench.broker.revoke(revoked.id)
    row = bench.store.get(broken.id)
    assert row is not None
    bench.store.swap(row, replace(row, sealed=bytes(60)))
    expired = bench.add("stale", expires_at_ms=0)
    names = [theirs.id, revoked.id, broken.id, expired.id, "00000000-0000-4000-8000-000000000000"]
    runner = bench.runner(NEVER, names)
    answers = {refusal_of(runner.exec_sync("look", "{}", ctx=ADA, connection_id=name)) for name in names}
    assert {answer[1] for answer in answers} == {"connection_unavailable"}
    assert len(answers) == 1


@pytest.mark.parametrize("caller", [ToolPolicyContext(), ToolPolicyContext(tenant="ba_2", actor="user:ada")])
def test_a_call_of_another_tenant_does_not_get_a_granted_connection(
    caller: ToolPolicyContext, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    result = bench.runner(NEVER).exec_sync("look", "{}", ctx=caller, connection_id=bench.mine.id)
    assert result.error_code == "connection_unavailable"
    [line] = caplog.messages
    assert line.startswith("tool call: connection of look raised ")


@pytest.mark.parametrize("wrong", ["a", ["id"], 3, object()])
def test_a_runner_takes_connections_only_as_an_access_object(wrong: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        Bench().runner(NEVER, connections=wrong)
    assert caught.value.path == "connections"
    with pytest.raises(InvalidValue):
        Bench().runner(NEVER, connections=Bench().broker)


@pytest.mark.parametrize("name", [3, b"id", ["id"], {"id": 1}])
def test_an_id_that_is_no_text_is_denied(name: Any) -> None:
    result = Bench().runner(NEVER).exec_sync("look", "{}", ctx=ADA, connection_id=name)
    assert result.error_code == "policy_denied"


# what a context has


def test_the_reference_is_in_the_context_and_the_token_is_not() -> None:
    seen: list[ToolContext] = []

    def keep(params: None, *, context: ToolContext) -> ToolResult[Seen]:
        seen.append(context)
        return look(params, context=context)

    bench = Bench()
    assert_answered_with_token(
        bench, bench.runner(made(keep)).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    )
    (context,) = seen
    assert (context.connection_id, context.caller) == (bench.mine.id, ADA)
    assert "token-mine" not in repr(context)
    with pytest.raises(ToolFailure):
        look(None, context=context)


class Forged:
    def get_access_token(self) -> str:
        return "token-forged"

    def get_auth_headers(self) -> dict[str, str]:
        return {}


FORGED = ResourceRegistry.build({AuthCapability: Forged(), str: "kept"})


def test_a_hand_made_capability_does_not_override_the_lent_one() -> None:
    bench = Bench()
    assert_answered_with_token(
        bench, bench.runner(made(look), resources=FORGED).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    )
    template = ToolContext(resources=FORGED, caller=ADA)
    assert_answered_with_token(
        bench, bench.runner(made(look)).exec_sync("look", "{}", ctx=template, connection_id=bench.mine.id)
    )


def test_a_tool_that_requires_no_connection_never_gets_one() -> None:
    seen: list[ToolContext] = []

    def keep(params: None, *, context: ToolContext) -> ToolResult[Seen]:
        seen.append(context)
        return ToolResult("", Seen("none"))

    bench = Bench()
    runner = bench.runner(made(keep, requires_connection=False), resources=FORGED)
    for caller in (ADA, ToolContext(resources=FORGED, caller=ADA)):
        for name in (None, bench.mine.id, bench.other.id):
            assert runner.exec_sync("look", "{}", ctx=caller, connection_id=name).ok
    assert [context.resources.get(AuthCapability) for context in seen] == [None] * 6
    assert [context.resources.get(str) for context in seen] == ["kept"] * 6
    assert [context.connection_id for context in seen] == [None, bench.mine.id, bench.other.id] * 2
    assert bench.store.asked == 0


def test_the_templates_connection_is_named_by_the_caller_too() -> None:
    bench = Bench()
    template = ToolContext(caller=ADA, connection_id=bench.mine.id)
    runner = bench.runner(made(look), [bench.mine.id, bench.other.id])
    assert_answered_with_token(bench, runner.exec_sync("look", "{}", ctx=template))
    assert_answered_with_token(
        bench, runner.exec_sync("look", "{}", ctx=template, connection_id=bench.other.id), "token-other"
    )


async def test_a_turn_of_calls_uses_the_templates_connection() -> None:
    bench = Bench()
    template = ToolContext(caller=ADA, connection_id=bench.mine.id)
    runner = bench.runner(made(look, effect=ToolEffect.READ_ONLY), max_parallel=4)
    results = await runner.exec_many([(f"c{n}", "look", "{}") for n in range(6)], ctx=template)
    assert [result.value for result in results] == [{"digest": digest("token-mine")}] * 6


async def test_a_call_inside_a_call_is_lent_its_own() -> None:
    bench = Bench()
    inner = bench.runner(made(look), [bench.other.id], emit=None)
    plain = bench.runner(
        made(
            lambda params, *, context: ToolResult("", Seen(repr(AuthCapability in context.resources))),
            requires_connection=False,
        ),
        emit=None,
    )
    results: list[ToolExecResult] = []

    async def outer(params: None, *, context: ToolContext) -> ToolResult[Seen]:
        results.append(await inner.exec("look", "{}", ctx=context, connection_id=bench.other.id))
        results.append(await inner.exec("look", "{}", ctx=context))
        results.append(await plain.exec("look", "{}", ctx=context))
        return look(params, context=context)

    assert_answered_with_token(
        bench, await bench.runner(made(outer)).exec("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    )
    assert results[0].value == {"digest": digest("token-other")}
    assert results[1].error_code == "policy_denied"  # the outer connection, which the inner runner was not granted
    assert results[2].value == {"digest": "False"}


def test_a_tool_may_say_that_it_needs_the_capability() -> None:
    bench = Bench()
    tool = made(look, capabilities=(AuthCapability, str))
    runner = bench.runner(tool, resources={str: "s"})
    assert_answered_with_token(bench, runner.exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id))
    assert bench.runner(tool).exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id).error_code == "unavailable"


def test_a_tool_that_wants_the_capability_requires_a_connection() -> None:
    with pytest.raises(PromptValidationError, match="requires_connection"):
        made(look, capabilities=[AuthCapability], requires_connection=False)
    foreign = replace(NEVER.bound, capabilities=(AuthCapability,), requires_connection=False)
    bench = Bench()
    runner = bench.runner(StaticToolSource([foreign]).get("look"), resources=FORGED)
    assert runner.exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id).error_code == "unavailable"


# what a model may say of it


@pytest.mark.parametrize(
    "name",
    [
        "connection_id",
        "connectionId",
        "connection-id",
        "ConnectionID",
        "CONNECTION_ID",
        "connection id",
        "connection.id",
        "connectionIds",
        "connection_ids",
        "\uff43onnection\uff3fid",
        "connection\u200b_id",
    ],
)
def test_no_parameter_names_a_connection_at_any_depth(name: str) -> None:
    def closed(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "additionalProperties": False}

    bad = closed({name: {"type": "string"}})
    for schema in (
        bad,
        closed({"a": bad}),
        closed({"a": {"type": "array", "items": closed({"b": bad})}}),
        closed({"a": {"type": "object", "additionalProperties": bad}}),
        closed({"a": {"type": "array", "contains": bad}}),
        closed({"a": {"type": "array", "additionalItems": bad}}),
    ):
        with pytest.raises(InvalidValue, match="named by the caller"):
            validate_tool_schema_p0(schema)
    validate_tool_schema_p0(closed({"connection": {"type": "string"}, "id": {"type": "string"}}))


def test_a_plain_function_with_such_a_parameter_is_no_tool() -> None:
    def fetch(connection_id: str) -> str:
        return connection_id

    with pytest.raises(PromptValidationError, match="named by the caller"):
        Tool.wrap(fetch, description="Fetch.")


def test_a_model_that_names_one_anyway_is_told_that_there_is_no_such_field() -> None:
    bench = Bench()
    runner = bench.runner(NEVER, [bench.mine.id, bench.other.id])
    result = runner.exec_sync("look", f'{{"connection_id": "{bench.other.id}"}}', ctx=ADA, connection_id=bench.mine.id)
    assert result.error_code == "validation"
    assert compile_schema(None)["properties"] == {}


# time passes


ASK = ToolPolicy(("look",), require_approval_for_tools=("look",))


async def approved(bench: Bench, tool: Any, meanwhile: Callable[[], object], then: str, granted: Any = None) -> Any:
    """The answer to a call that a person approved, and with which connection `then` it comes back."""
    approvals = InMemoryApprovals(bench.clock)
    runner = bench.runner(tool, granted, policy=ASK, approvals=approvals, clock=bench.clock)
    first = await runner.exec("look", "{}", tool_call_id="c", ctx=ADA, connection_id=bench.mine.id)
    assert first.error_code == "approval_required"
    (request,) = approvals.pending()
    approvals.approve(request.approval_id or "", by="user:ada")
    meanwhile()
    return await runner.exec("look", "{}", tool_call_id="c", ctx=ADA, connection_id=then)


async def test_an_approved_call_gets_its_connection() -> None:
    bench = Bench()
    assert_answered_with_token(bench, await approved(bench, made(look), lambda: None, bench.mine.id))


async def test_a_connection_that_is_revoked_after_the_approval_is_refused() -> None:
    bench = Bench()
    result = await approved(bench, NEVER, lambda: bench.broker.revoke(bench.mine.id), bench.mine.id)
    assert result.error_code == "connection_unavailable"


async def test_a_grant_that_ends_after_the_approval_is_refused() -> None:
    bench = Bench()
    grants = [ConnectionGrant(bench.mine.id, NOW_MS + 5)]
    result = await approved(bench, NEVER, lambda: bench.clock.advance(5_000_000), bench.mine.id, grants)
    assert result.error_code == "policy_denied"


async def test_an_approval_is_for_one_connection() -> None:
    bench = Bench()
    granted = [bench.mine.id, bench.other.id]
    result = await approved(bench, NEVER, lambda: None, bench.other.id, granted)
    assert result.error_code == "approval_required"


async def refresh_that_hangs(connection: Connection, old: Credentials) -> Credentials:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    "tool", [made(handler_that_must_not_run, timeout=0.01), made(handler_that_must_not_run, timeout=0.01, inline=True)]
)
async def test_waiting_for_a_refresh_takes_no_longer_than_the_call_may(tool: Any) -> None:
    for sync in (False, True):
        bench = Bench(refresh_that_hangs, expires_at_ms=0)
        runner = bench.runner(tool)
        if sync:
            result = runner.exec_sync("look", "{}", ctx=ADA, connection_id=bench.mine.id)
        else:
            result = await runner.exec("look", "{}", ctx=ADA, connection_id=bench.mine.id)
        assert result.error_code == "connection_unavailable"


async def test_a_deadline_that_passes_during_a_refresh_counts() -> None:
    bench = Bench()
    start = datetime.fromtimestamp(NOW_MS / 1000, UTC)

    async def slowly(connection: Connection, old: Credentials) -> Credentials:
        bench.clock.advance(60 * 10**9)
        return Credentials("token-fresh")

    bench.broker = ConnectionBroker(
        bench.store, KeyRing({"v1": bytes(32)}), refresh={"github": slowly}, clock=bench.clock
    )
    late = bench.add("token-late", expires_at_ms=0)
    deadline = Deadline(start + timedelta(seconds=30), clock=bench.clock)
    runner = bench.runner(NEVER, [late.id], resources={Deadline: deadline}, clock=bench.clock)
    result = await runner.exec("look", "{}", ctx=ADA, connection_id=late.id)
    assert result.error_code == "deadline_exceeded"


async def test_a_call_cancelled_during_a_refresh_is_reported_as_cancelled() -> None:
    begun = asyncio.Event()

    async def begins(connection: Connection, old: Credentials) -> Credentials:
        begun.set()
        return await refresh_that_hangs(connection, old)

    bench = Bench(begins, expires_at_ms=0)
    call = asyncio.create_task(bench.runner(NEVER).exec("look", "{}", ctx=ADA, connection_id=bench.mine.id))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.events[-1].result["error_code"] == "cancelled"


async def test_a_handler_that_overruns_its_time_has_its_connection_taken_away() -> None:
    bench = Bench()
    let_go, outcome, done = threading.Event(), [], threading.Event()

    def slow(params: None, *, context: ToolContext) -> ToolResult[Seen]:
        let_go.wait()
        try:
            return look(params, context=context)
        except ToolFailure as failure:
            outcome.append(failure.code)
            raise
        finally:
            done.set()

    result = await bench.runner(made(slow, timeout=0.01)).exec("look", "{}", ctx=ADA, connection_id=bench.mine.id)
    assert result.error_code == "unknown_outcome"
    let_go.set()
    await asyncio.to_thread(done.wait)
    assert outcome == ["connection_unavailable"]


@pytest.mark.parametrize("handler", [look, look_async])
async def test_calls_at_once_never_mix(handler: Any) -> None:
    bench = Bench()
    many = [bench.add(f"token-{number:05}") for number in range(40)]
    runner = bench.runner(made(handler), [made_one.id for made_one in many])
    calls = [runner.exec("look", "{}", ctx=ADA, connection_id=one.id) for one in many for _ in range(3)]
    results = await asyncio.gather(*calls)
    assert [result.value["digest"] for result in results] == [
        digest(f"token-{number:05}") for number in range(40) for _ in range(3)
    ]


# what a handler says


SECRET = 'token/my-mine+"9b-1d"'


class Told:
    def __init__(self, text: str) -> None:
        self.text = text

    def render(self) -> str:
        return self.text


SPELLINGS: list[Callable[[AuthCapability], str]] = [
    lambda auth: auth.get_access_token(),
    lambda auth: auth.get_auth_headers()["Authorization"],
    lambda auth: f"https://x.test/?t={auth.get_access_token().replace('/', '%2F').replace('+', '%2B')}",
    lambda auth: base64.b64encode(f"ada:{auth.get_access_token()}".encode()).decode(),
]


def in_message(text: str) -> ToolResult[Any]:
    return ToolResult(f"I used {text}.", {"a": 1})


def in_value(text: str) -> ToolResult[Any]:
    return ToolResult("", {"a": [{"b": f"x{text}"}]})


def in_key(text: str) -> ToolResult[Any]:
    return ToolResult("", {text: 1})


def in_hidden_value(text: str) -> ToolResult[Any]:
    return ToolResult("", {"a": text}, exclude_value_from_context=True)


def in_failure(text: str) -> ToolResult[Any]:
    return ToolResult(text, None, success=False)


def in_failures_value(text: str) -> ToolResult[Any]:
    return ToolResult("no", {"a": text}, success=False)


WAYS = [in_message, in_value, in_key, in_hidden_value, in_failure, in_failures_value]


def telling_tool(tell: Callable[[str], Any], spell: Callable[[AuthCapability], str], **options: Any) -> Tool[Any, Any]:
    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = context.resources.get(AuthCapability)
        assert auth is not None
        told: ToolResult[Any] = tell(spell(auth))
        return told

    options.setdefault("redaction", Redaction.message_only())
    return Tool[None, Any](
        name="look", description="Look.", handler=handler, **{"requires_connection": True, **options}
    )


def run_with_secret(tool: Tool[Any, Any]) -> tuple[ToolExecResult, str]:
    bench = Bench()
    mine = bench.add(SECRET)
    result = bench.runner(tool, [mine.id]).exec_sync("look", "{}", ctx=ADA, connection_id=mine.id)
    return result, repr([result, result.content, result.record.public(), bench.events])


@pytest.mark.parametrize("spell", SPELLINGS, ids=["token", "header", "url", "basic"])
@pytest.mark.parametrize("tell", WAYS)
def test_a_result_that_holds_the_secret_is_not_handed_on(
    tell: Callable[[str], Any], spell: Callable[[AuthCapability], str]
) -> None:
    for redaction in (Redaction.message_only(), Redaction.drop_all(), Redaction.paths("*")):
        result, public = run_with_secret(telling_tool(tell, spell, redaction=redaction))
        assert result.error_code == "redaction_failed"
        assert "my-mine" not in public
        assert not any(spelled in public for spelled in ("9b-1d", base64.b64encode(SECRET.encode()).decode()[:12]))


def test_a_rendering_that_holds_the_secret_is_not_handed_on() -> None:
    @dataclass(frozen=True)
    class Rendered:
        a: int = 1

        def render(self) -> str:
            return f"as text: {SECRET}"

    result, public = run_with_secret(telling_tool(lambda text: ToolResult("", Rendered()), SPELLINGS[0]))
    assert result.error_code == "redaction_failed"
    assert "9b-1d" not in public


def raises(error: Callable[[str], BaseException]) -> Callable[[str], Any]:
    def tell(text: str) -> Any:
        raise error(text)

    return tell


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ToolUserError, "execution", "The tool failed."),
        (
            lambda text: ToolUserError(f"Basic {base64.b64encode(text.encode()).decode()}"),
            "execution",
            "The tool failed.",
        ),
        (
            lambda text: ToolValidationError("m", fields=(f"{text} is required",)),
            "validation",
            "The arguments do not fit the tool's schema.",
        ),
        (ToolValidationError, "validation", "The arguments do not fit the tool's schema."),
        (
            lambda text: ToolFailure(ToolErrorCode.TIMEOUT, safe_message=text),
            "timeout",
            "The tool took too long and was stopped.",
        ),
        (RuntimeError, "execution", "The tool failed."),
        (SystemExit, "unknown_outcome", "It is not known whether this took effect. Check before trying again."),
        (
            LoopSignal,
            "redaction_failed",
            "The tool ran, but its result could not be made safe to show.",
        ),
    ],
)
def test_an_error_that_holds_the_secret_says_the_tables_sentence(error: Any, code: str, message: str) -> None:
    result, public = run_with_secret(telling_tool(raises(error), SPELLINGS[0]))
    assert (result.error_code, result.safe_message) == (code, message)
    assert "9b-1d" not in public


def test_a_handlers_message_without_the_secret_is_passed_on() -> None:
    result, _ = run_with_secret(
        telling_tool(raises(lambda text: ToolUserError("Rate limit: try later.")), SPELLINGS[0])
    )
    assert result.safe_message == "Rate limit: try later."
    result, _ = run_with_secret(telling_tool(lambda text: ToolResult("Done: 3+4, 100%.", {"a": 1}), SPELLINGS[0]))
    assert result.ok
    with pytest.raises(LoopSignal, match="go on"):
        run_with_secret(telling_tool(raises(lambda text: LoopSignal("go on")), SPELLINGS[0]))
