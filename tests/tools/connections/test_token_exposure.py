"""What a token's neighbours hold: while a handler has it, after its call, and in the frames of what was raised.

What comes out of whole calls is in the table of `tests/canaries`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.connection_token import (
    ADA,
    FRESH,
    NOW_MS,
    TOKEN,
    WatchedRunner,
    assert_clean,
    assert_walks_clean,
    auth_of,
    returns_it,
    tool_result,
    walk,
)

from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.tools import (
    AuthCapability,
    Connection,
    ConnectionBroker,
    Credentials,
    KeyRing,
    LoopSignal,
    ToolContext,
    ToolFailure,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
)


@pytest.fixture(autouse=True)
def logs_and_terminal_are_clean(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever a test does: the log, at its most talkative, and the terminal are clean after it."""
    caplog.set_level(logging.DEBUG)
    yield
    plain = logging.Formatter("%(message)s")
    records = [*caplog.get_records("setup"), *caplog.get_records("call")]
    assert_clean(*(plain.format(record) for record in records), *(repr(vars(record)) for record in records))
    assert [record for record in records if record.exc_info] == []
    assert_clean(*capfd.readouterr())


# while it has the token


@pytest.mark.parametrize("kind", ["def", "async"])
async def test_nothing_that_a_handler_can_reach_but_the_capability_holds_it(tmp_path: Path, kind: str) -> None:
    seen: list[str] = []

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = auth_of(context)
        assert auth.get_access_token() == TOKEN
        assert_walks_clean(context, context.caller, watched.runner, watched.broker, watched.access, watched.store)
        assert_clean(*(repr(kind) for kind in (auth, auth.get_access_token, auth.get_auth_headers)))
        names = [thread.name for thread in threading.enumerate()]
        assert_clean(*names, *(repr(thread) for thread in threading.enumerate()))
        seen.extend(names)
        return tool_result()

    async def waits(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert_clean(*(repr(task) + task.get_name() for task in asyncio.all_tasks()))
        return handler(params, context=context)

    watched = WatchedRunner(tmp_path, handler if kind == "def" else waits)
    result = await watched.exec()
    assert result.ok, result
    assert seen
    watched.assert_nowhere(result)


async def test_the_refresh_token_is_not_even_in_the_capability(tmp_path: Path) -> None:
    texts: list[str] = []

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        for reached in walk(auth_of(context)):
            reveal = getattr(reached, "reveal", None)
            texts.extend([reveal()] if reveal is not None else [])
        return tool_result()

    assert (await WatchedRunner(tmp_path, handler).exec()).ok
    assert texts == [TOKEN]


async def test_a_refresh_leaves_no_trace_of_either(tmp_path: Path) -> None:
    async def renews(connection: Connection, old: Credentials) -> Credentials:
        assert_walks_clean(connection, old)
        assert_clean(*(repr(task) + task.get_name() for task in asyncio.all_tasks()))
        return Credentials(FRESH)

    def handler(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert auth_of(context).get_access_token() == FRESH
        assert_walks_clean(context, watched.runner, watched.broker)
        return tool_result()

    watched = WatchedRunner(tmp_path, handler, renews)
    result = await watched.exec()
    assert result.ok
    watched.assert_nowhere(result)


async def test_a_refresh_that_fails_with_it_in_its_text_leaves_no_trace(tmp_path: Path) -> None:
    async def breaks(connection: Connection, old: Credentials) -> Credentials:
        assert old.refresh_token is not None
        raise RuntimeError(f"400: invalid_grant {old.refresh_token.reveal()} {old.access_token.reveal()}")

    watched = WatchedRunner(tmp_path, lambda params, *, context: tool_result(), breaks)
    result = await watched.exec()
    assert result.error_code == "connection_unavailable"
    watched.assert_nowhere(result)


# after the call


async def test_a_connection_that_a_handler_kept_is_void_after_the_call(tmp_path: Path) -> None:
    kept: list[Any] = []

    def keeps(params: None, *, context: ToolContext) -> ToolResult[Any]:
        auth = auth_of(context)
        assert auth.get_access_token() == TOKEN
        kept.extend([auth, auth.get_access_token, auth.get_auth_headers, context])
        return tool_result()

    watched = WatchedRunner(tmp_path, keeps)
    assert (await watched.exec()).ok
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
        return tool_result()

    watched = WatchedRunner(tmp_path, spawns)
    assert (await watched.exec()).ok
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

    watched = WatchedRunner(tmp_path, signals if kind == "def" else waits)
    with pytest.raises(LoopSignal) as caught:
        await watched.exec()
    text = formatted(caught.value)
    assert any("context = ToolContext(" in line for line in text)  # frames were captured
    assert_clean(*text)


async def test_a_cancelled_call_leaves_with_clean_frames(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def waits(params: None, *, context: ToolContext) -> ToolResult[Any]:
        assert auth_of(context).get_auth_headers()
        begun.set()
        await asyncio.Event().wait()
        return tool_result()

    watched = WatchedRunner(tmp_path, waits)
    call = asyncio.create_task(watched.exec())
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await call
    assert_clean(*formatted(caught.value))


async def gives_a_stale_one(connection: Connection, old: Credentials) -> Credentials:
    return Credentials(FRESH, expires_at_ms=NOW_MS)


async def test_every_error_of_a_lease_has_clean_frames(tmp_path: Path) -> None:
    watched = WatchedRunner(tmp_path, returns_it, gives_a_stale_one)
    other = watched.broker.add(tenant="ba_1", provider="gitlab", credentials=Credentials(TOKEN, expires_at_ms=0))
    row = watched.store.get(watched.mine.id)
    assert row is not None
    wrong = ConnectionBroker(watched.store, KeyRing({"v1": bytes(32)}))
    plans: list[tuple[ConnectionBroker, str, str, type[Exception]]] = [
        (watched.broker, "nothing", "ba_1", NotFound),
        (watched.broker, watched.mine.id, "ba_2", NotFound),
        (watched.broker, watched.mine.id, "ba_1", Unavailable),
        (watched.broker, other.id, "ba_1", Unavailable),
        (wrong, watched.mine.id, "ba_1", Damaged),
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
        return tool_result()

    watched = WatchedRunner(tmp_path, handler)
    eve = ToolPolicyContext(run_id="r2", actor="user:eve", tenant="ba_2")
    theirs = watched.broker.add(tenant="ba_2", provider="github", credentials=Credentials(FRESH))
    both = [watched.mine.id, theirs.id]
    access = watched.broker.access(granted=both, declared=both)
    runner = ToolRunner([watched.tool], policy=ToolPolicy(("look",)), connections=access, emit=watched.events.append)
    pairs = [(ADA, watched.mine.id), (eve, theirs.id), (ADA, theirs.id), (eve, watched.mine.id)] * 10
    results = await asyncio.gather(*(runner.exec("look", "{}", ctx=who, connection_id=name) for who, name in pairs))
    assert [str(result.error_code or "ok") for result in results] == [
        "ok",
        "ok",
        "connection_unavailable",
        "connection_unavailable",
    ] * 10
    assert sorted(set(seen), key=str) == sorted({(watched.mine.id, TOKEN), (theirs.id, FRESH)}, key=str)
