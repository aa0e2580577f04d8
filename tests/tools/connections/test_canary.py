"""A planted token goes to the handler that asks for it, and to no other place there is.

Walked are: every object that a call touches while it has the token, what it hands back, emits, records, traces and
logs, the exceptions that leave it with the variables of their frames, pickles, names of threads and tasks, the
terminal, and the bytes on disk.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import dataclasses
import json
import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.stores.sqlite.connection_store import SqliteConnectionStore
from demiurge.tools import (
    AuthCapability,
    Connection,
    ConnectionBroker,
    Credentials,
    KeyRing,
    LoopSignal,
    Redaction,
    RunSummary,
    SpanSink,
    Tool,
    ToolContext,
    ToolExecResult,
    ToolFailure,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpan,
    ToolUserError,
    event_to_json,
)
from demiurge.tools.ledger.idempotency import IdempotencyConfig, IdempotencyStrategy
from demiurge.tools.ledger.ledger import EffectLedger
from demiurge.values.clock import FixedClock

NOW_MS = 1_000_000_000_000
TOKEN, FRESH, REFRESH = "canary-access-4f1e", "canary-fresh-77b2", "canary-refresh-09c3"
SPELLINGS = [
    form
    for token in (TOKEN, FRESH, REFRESH)
    for form in (token, token.encode().hex(), base64.b64encode(token.encode()).decode()[:20])
]
ADA = ToolPolicyContext(run_id="r1", actor="user:ada", tenant="ba_1")


def assert_clean(*texts: str | bytes) -> None:
    for text in texts:
        readable = text.decode("latin-1") if isinstance(text, bytes) else text
        assert [form for form in SPELLINGS if form in readable] == []


def walk(thing: Any) -> Iterator[Any]:
    """The thing and all that can be reached from it by attributes, items and slots."""
    seen: dict[int, Any] = {}
    todo = [thing]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | logging.Logger):
            continue
        seen[id(thing)] = thing
        yield thing
        if isinstance(thing, Mapping):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            todo += thing
        todo += vars(thing).values() if hasattr(thing, "__dict__") else ()
        slots = {name for kind in type(thing).__mro__ for name in _texts(getattr(kind, "__slots__", ()))}
        todo += [getattr(thing, name) for name in slots if hasattr(thing, name)]


def _texts(names: str | Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def assert_walks_clean(*things: Any) -> None:
    for thing in things:
        for reached in walk(thing):
            if isinstance(reached, str | bytes):
                assert_clean(reached)
            assert_clean(repr(reached), str(reached))


class Office:
    """A runner over one tool with one connection, and everything that watches it."""

    def __init__(self, folder: Path, handler: Callable[..., Any], refresh: Any = None, **options: Any) -> None:
        self.path = folder / "connections.db"
        self.vault = SqliteConnectionStore(self.path)
        self.clock = FixedClock(NOW_MS * 1_000_000)
        renew = {"github": refresh} if refresh is not None else {}
        keys = KeyRing({"v1": bytes(range(32))})
        self.broker = ConnectionBroker(self.vault, keys, refresh=renew, clock=self.clock)
        credentials = Credentials(TOKEN, refresh_token=REFRESH, expires_at_ms=NOW_MS if renew else None)
        self.mine = self.broker.add(tenant="ba_1", provider="github", credentials=credentials)
        self.events: list[Any] = []
        self.spans: list[ToolSpan] = []
        self.ledger = EffectLedger()
        self.access = self.broker.access(granted=[self.mine.id], declared=[self.mine.id])
        settings: dict[str, Any] = {"redaction": Redaction.message_only(), "requires_connection": True, **options}
        self.tool = Tool[None, Any](name="look", description="Look.", handler=handler, **settings)
        self.summary = RunSummary()
        self.runner = ToolRunner(
            [self.tool],
            policy=ToolPolicy(("look",)),
            connections=self.access,
            ledger=self.ledger,
            emit=self.events.append,
            resources={SpanSink: self, RunSummary: self.summary},
        )

    def put(self, span: ToolSpan, /) -> None:
        self.spans.append(span)

    async def exec(self) -> ToolExecResult:
        return await self.runner.exec("look", "{}", ctx=ADA, connection_id=self.mine.id)

    def assert_nowhere(self, result: ToolExecResult) -> None:
        record = dataclasses.asdict(result.record)
        assert_clean(
            repr(result),
            repr(dataclasses.asdict(result)),
            result.content,
            json.dumps(record, default=str),
            json.dumps(result.record.public()),
            json.dumps([event_to_json(event) for event in self.events]),
            pickle.dumps([result, self.events, self.spans]),
            *(file.read_bytes() for file in self.path.parent.iterdir()),
        )
        assert_walks_clean(result, self.events, self.spans, self.runner, self.ledger, self.summary)


@pytest.fixture(autouse=True)
def watched(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever a test does: the log, at its most talkative, and the terminal are clean after it."""
    caplog.set_level(logging.DEBUG)
    yield
    plain = logging.Formatter("%(message)s")
    records = [*caplog.get_records("setup"), *caplog.get_records("call")]
    assert_clean(*(plain.format(record) for record in records), *(repr(vars(record)) for record in records))
    assert [record for record in records if record.exc_info] == []
    assert_clean(*capfd.readouterr())


def auth_of(context: ToolContext) -> AuthCapability:
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    return auth


def done(message: str = "done", value: Any = None) -> ToolResult[Any]:
    return ToolResult(message, value)


# while it has the token


@pytest.mark.parametrize("kind", ["def", "async"])
async def test_nothing_that_a_handler_can_reach_but_the_capability_holds_it(tmp_path: Path, kind: str) -> None:
    seen: list[str] = []

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = auth_of(context)
        assert auth.get_access_token() == TOKEN
        assert_walks_clean(context, context.caller, office.runner, office.broker, office.access, office.vault)
        assert_clean(*(repr(kind) for kind in (auth, auth.get_access_token, auth.get_auth_headers)))
        names = [thread.name for thread in threading.enumerate()]
        assert_clean(*names, *(repr(thread) for thread in threading.enumerate()))
        seen.extend(names)
        return done()

    async def waits(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert_clean(*(repr(task) + task.get_name() for task in asyncio.all_tasks()))
        return handler(params, context=context)

    office = Office(tmp_path, handler if kind == "def" else waits)
    result = await office.exec()
    assert result.ok, result
    assert seen
    office.assert_nowhere(result)


async def test_the_refresh_token_is_not_even_in_the_capability(tmp_path: Path) -> None:
    texts: list[str] = []

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        for reached in walk(auth_of(context)):
            reveal = getattr(reached, "reveal", None)
            texts.extend([reveal()] if reveal is not None else [])
        return done()

    assert (await Office(tmp_path, handler).exec()).ok
    assert texts == [TOKEN]


async def test_a_refresh_leaves_no_trace_of_either(tmp_path: Path) -> None:
    async def renews(connection: Connection, old: Credentials) -> Credentials:
        assert_walks_clean(connection, old)
        assert_clean(*(repr(task) + task.get_name() for task in asyncio.all_tasks()))
        return Credentials(FRESH)

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert auth_of(context).get_access_token() == FRESH
        assert_walks_clean(context, office.runner, office.broker)
        return done()

    office = Office(tmp_path, handler, renews)
    result = await office.exec()
    assert result.ok
    office.assert_nowhere(result)


async def test_a_refresh_that_fails_with_it_in_its_text_leaves_no_trace(tmp_path: Path) -> None:
    async def breaks(connection: Connection, old: Credentials) -> Credentials:
        assert old.refresh_token is not None
        raise RuntimeError(f"400: invalid_grant {old.refresh_token.reveal()} {old.access_token.reveal()}")

    office = Office(tmp_path, lambda params, *, context: done(), breaks)
    result = await office.exec()
    assert result.error_code == "connection_unavailable"
    office.assert_nowhere(result)


# what handlers do with it


def raises_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise RuntimeError(f"401 for {auth_of(context).get_auth_headers()}")


def raises_it_on_purpose(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise ToolUserError(f"401 for {auth_of(context).get_auth_headers()}")


def returns_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return done("ok", {"headers": auth_of(context).get_auth_headers()})


def says_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return done(f"used {auth_of(context).get_access_token()}")


def returns_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return done("ok", {"auth": auth_of(context)})


def returns_the_context(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return done("ok", context)


def shows_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    auth = auth_of(context)
    logging.getLogger("app").warning("%s %r", auth, auth, extra={"auth": auth, "context": context})
    print(auth, repr(context), context.resources)
    return done(f"{auth} {auth!r} {json.dumps({'auth': auth}, default=repr)}", {"repr": repr(context)})


def copies_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    auth = auth_of(context)
    for leave in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            leave(auth)
        assert_clean(str(caught.value))
    with pytest.raises(TypeError):
        pickle.dumps(context)
    with pytest.raises(TypeError):
        copy.deepcopy(context)
    return done()


def leaves_with_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise SystemExit(auth_of(context).get_access_token())


def fails_with_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return ToolResult(auth_of(context).get_access_token(), {"t": auth_of(context).get_access_token()}, success=False)


ACTS: dict[Callable[..., Any], str] = {
    raises_it: "execution",
    raises_it_on_purpose: "execution",
    returns_it: "redaction_failed",
    says_it: "redaction_failed",
    returns_the_capability: "output_validation",
    returns_the_context: "output_validation",
    shows_the_capability: "ok",
    copies_the_capability: "ok",
    leaves_with_it: "unknown_outcome",
    fails_with_it: "redaction_failed",
}


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("redaction", [Redaction.message_only(), Redaction.paths("*")], ids=["message", "all"])
async def test_whatever_a_handler_does_it_is_nowhere(tmp_path: Path, act: Any, redaction: Redaction) -> None:
    office = Office(tmp_path, act, redaction=redaction)
    for _ in range(2):
        result = await office.exec()
        assert str(result.error_code or "ok") == ACTS[act]
        office.assert_nowhere(result)
    result = office.runner.exec_sync("look", "{}", ctx=ADA, connection_id=office.mine.id)
    assert str(result.error_code or "ok") == ACTS[act]
    office.assert_nowhere(result)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_nor_in_the_ledger_that_remembers_it(tmp_path: Path, act: Any) -> None:
    office = Office(tmp_path, act, idempotency=IdempotencyConfig(strategy=IdempotencyStrategy.AUTO))
    for _ in range(2):
        office.assert_nowhere(await office.exec())


# after the call


async def test_what_a_handler_kept_is_void_when_the_call_is_over(tmp_path: Path) -> None:
    kept: list[Any] = []

    def keeps(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = auth_of(context)
        assert auth.get_access_token() == TOKEN
        kept.extend([auth, auth.get_access_token, auth.get_auth_headers, context])
        return done()

    office = Office(tmp_path, keeps)
    assert (await office.exec()).ok
    auth, token, headers, context = kept
    for ask in (auth.get_access_token, token, headers, auth_of(context).get_auth_headers):
        with pytest.raises(ToolFailure) as caught:
            ask()
        assert caught.value.code == "connection_unavailable"
        assert_clean(*formatted(caught.value))
    assert_walks_clean(kept)
    assert [reached for reached in walk(kept) if hasattr(reached, "reveal")] == []


async def test_a_background_task_of_a_handler_gets_nothing_after_the_call(tmp_path: Path) -> None:
    over, outcomes = asyncio.Event(), []
    tasks: list[asyncio.Task[None]] = []

    async def later(auth: AuthCapability) -> None:
        outcomes.append(auth.get_access_token())
        await over.wait()
        try:
            outcomes.append(auth.get_access_token())
        except ToolFailure as failure:
            outcomes.append(failure.code)

    async def spawns(params: None, *, context: ToolContext) -> ToolResult[Any]:
        tasks.append(asyncio.create_task(later(auth_of(context))))
        await asyncio.sleep(0)
        return done()

    office = Office(tmp_path, spawns)
    assert (await office.exec()).ok
    over.set()
    await tasks[0]
    assert outcomes == [TOKEN, "connection_unavailable"]


# exceptions, with the variables of every frame


def formatted(error: BaseException) -> list[str]:
    return [*traceback.TracebackException.from_exception(error, capture_locals=True).format(), str(error), repr(error)]


@pytest.mark.parametrize("kind", ["def", "async"])
async def test_a_signal_to_the_loop_leaves_with_clean_frames(tmp_path: Path, kind: str) -> None:
    def signals(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert auth_of(context).get_access_token() == TOKEN
        raise LoopSignal("go on elsewhere")

    async def waits(params: None, *, context: ToolContext) -> ToolResult[Any]:
        return signals(params, context=context)

    office = Office(tmp_path, signals if kind == "def" else waits)
    with pytest.raises(LoopSignal) as caught:
        await office.exec()
    text = formatted(caught.value)
    assert any("context = ToolContext(" in line for line in text)  # frames were captured
    assert_clean(*text)


async def test_a_cancelled_call_leaves_with_clean_frames(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def waits(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert auth_of(context).get_auth_headers()
        begun.set()
        await asyncio.Event().wait()
        return done()

    office = Office(tmp_path, waits)
    call = asyncio.create_task(office.exec())
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await call
    assert_clean(*formatted(caught.value))


async def gives_a_stale_one(connection: Connection, old: Credentials) -> Credentials:
    return Credentials(FRESH, expires_at_ms=NOW_MS)


async def test_every_error_of_a_lease_has_clean_frames(tmp_path: Path) -> None:
    office = Office(tmp_path, returns_it, gives_a_stale_one)
    other = office.broker.add(tenant="ba_1", provider="gitlab", credentials=Credentials(TOKEN, expires_at_ms=0))
    row = office.vault.get(office.mine.id)
    assert row is not None
    wrong = ConnectionBroker(office.vault, KeyRing({"v1": bytes(32)}))
    plans: list[tuple[ConnectionBroker, str, str, type[Exception]]] = [
        (office.broker, "nothing", "ba_1", NotFound),
        (office.broker, office.mine.id, "ba_2", NotFound),
        (office.broker, office.mine.id, "ba_1", Unavailable),
        (office.broker, other.id, "ba_1", Unavailable),
        (wrong, office.mine.id, "ba_1", Damaged),
    ]
    for broker, name, tenant, error in plans:
        with pytest.raises(error) as caught:
            await broker.lease(name, tenant=tenant, actor="a").open()
        assert_clean(*formatted(caught.value))


async def test_a_call_between_two_tenants_shares_nothing(tmp_path: Path) -> None:
    """Forty calls at once, half of them each one's; what each handler saw is its own."""
    seen: list[tuple[str | None, str]] = []

    async def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = auth_of(context)
        before = auth.get_access_token()
        await asyncio.sleep(0)
        assert auth.get_access_token() == before
        seen.append((context.connection_id, before))
        return done()

    office = Office(tmp_path, handler)
    eve = ToolPolicyContext(run_id="r2", actor="user:eve", tenant="ba_2")
    theirs = office.broker.add(tenant="ba_2", provider="github", credentials=Credentials(FRESH))
    both = [office.mine.id, theirs.id]
    access = office.broker.access(granted=both, declared=both)
    runner = ToolRunner([office.tool], policy=ToolPolicy(("look",)), connections=access, emit=office.events.append)
    pairs = [(ADA, office.mine.id), (eve, theirs.id), (ADA, theirs.id), (eve, office.mine.id)] * 10
    results = await asyncio.gather(*(runner.exec("look", "{}", ctx=who, connection_id=name) for who, name in pairs))
    assert [str(result.error_code or "ok") for result in results] == [
        "ok",
        "ok",
        "connection_unavailable",
        "connection_unavailable",
    ] * 10
    assert sorted(set(seen), key=str) == sorted({(office.mine.id, TOKEN), (theirs.id, FRESH)}, key=str)
