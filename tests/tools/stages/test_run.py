"""The handler may do as it likes; the call still ends in time, with one answer, and says what is known."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from demiurge.tools import (
    Budgets,
    LoopSignal,
    Redaction,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolFailure,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools.errors import SAFE_MESSAGES

CHANGE = ToolEffect.STATE_CHANGE
READ = ToolEffect.READ_ONLY
TABLE = {code.value: text for code, text in SAFE_MESSAGES.items()}


class Odd(BaseException):
    pass


ENDS: list[Callable[[], BaseException]] = [
    lambda: SystemExit("canary"),
    lambda: KeyboardInterrupt("canary"),
    lambda: GeneratorExit("canary"),
    lambda: asyncio.CancelledError("canary"),
    lambda: Odd("canary"),
]
NAMES = ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "Odd"]


class Run:
    def __init__(self, handler: Callable[..., Any], limit_ms: int | None = None, **options: Any) -> None:
        self.events: list[Any] = []
        tool = Tool[None, None](name="look", description="Look.", handler=handler, **options)
        policy = ToolPolicy(("look",), budgets=Budgets(max_runtime_ms=limit_ms))
        self.runner = ToolRunner([tool], policy=policy, emit=self.events.append)

    def codes(self) -> list[str]:
        """The codes of the calls so far; each has one start and one result."""
        assert [type(event) for event in self.events] == [ToolCallStart, ToolCallResult] * (len(self.events) // 2)
        return [event.result["error_code"] for event in self.events[1::2]]


@pytest.mark.parametrize("limit_ms", [None, 10_000], ids=["unlimited", "limited"])
@pytest.mark.parametrize(("effect", "code"), [(READ, "execution"), (CHANGE, "unknown_outcome")])
@pytest.mark.parametrize("end", ENDS, ids=NAMES)
async def test_a_handler_that_ends_the_program_only_ends_its_call(
    end: Callable[[], BaseException],
    effect: ToolEffect,
    code: str,
    limit_ms: int | None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def sync(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise end()

    async def later(params: None, *, context: ToolContext) -> ToolResult[None]:
        await asyncio.sleep(0)
        raise end()

    caplog.set_level(logging.DEBUG)
    runs = [Run(sync, limit_ms, effect=effect), Run(sync, limit_ms, effect=effect, inline=True)]
    for run in (*runs, Run(later, limit_ms, effect=effect)):
        result = await run.runner.exec("look", "{}")
        assert (result.ok, result.error_code) == (False, code)
        assert run.runner.exec_sync("look", "{}").error_code == code
        assert run.codes() == [code, code]
        assert "canary" not in repr((result, run.events))
    lines = [record.getMessage() for record in caplog.records if record.name == "demiurge.tools"]
    assert {line.partition(" at ")[0] for line in lines} == {
        f"tool call: handler of look raised {type(end()).__name__}"
    }
    assert len(lines) == 6
    assert "canary" not in caplog.text
    assert "canary" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(("effect", "code"), [(READ, "cancelled"), (CHANGE, "unknown_outcome")])
def test_a_key_pressed_while_a_handler_runs_goes_up(effect: ToolEffect, code: str) -> None:
    def press(params: None, *, context: ToolContext) -> ToolResult[None]:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    run = Run(press, effect=effect)
    with pytest.raises(KeyboardInterrupt):
        run.runner.exec_sync("look", "{}")
    assert run.codes() == [code]


@pytest.mark.parametrize("limit_ms", [None, 10_000], ids=["unlimited", "limited"])
def test_a_key_pressed_while_an_async_handler_runs_goes_up(limit_ms: int | None) -> None:
    async def press(params: None, *, context: ToolContext) -> ToolResult[None]:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)
        raise AssertionError

    run = Run(press, limit_ms, effect=READ)
    with pytest.raises(KeyboardInterrupt):
        run.runner.exec_sync("look", "{}")
    assert run.codes() == ["cancelled"]


@pytest.mark.parametrize(("effect", "code"), [(READ, "cancelled"), (CHANGE, "unknown_outcome")])
@pytest.mark.parametrize("limit_ms", [None, 10_000], ids=["unlimited", "limited"])
async def test_a_cancelled_caller_takes_its_handler_along(limit_ms: int | None, effect: ToolEffect, code: str) -> None:
    begun = asyncio.Event()
    stopped: list[bool] = []

    async def waits(params: None, *, context: ToolContext) -> ToolResult[None]:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(True)
        raise AssertionError

    run = Run(waits, limit_ms, effect=effect)
    task = asyncio.create_task(run.runner.exec("look", "{}"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (stopped, run.codes()) == ([True], [code])


async def uncancellable_handler(params: None, *, context: ToolContext) -> ToolResult[None]:
    """Will not be cancelled."""
    for _ in range(60):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            continue
    raise RuntimeError("canary")


@pytest.mark.parametrize(("effect", "code"), [(READ, "timeout"), (CHANGE, "unknown_outcome")])
def test_a_handler_that_will_not_be_cancelled_is_left_behind(
    effect: ToolEffect, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the call nor the end of the loop waits for it: the minute it needs is more than this test has."""
    run = Run(uncancellable_handler, 20, effect=effect)

    async def main() -> None:
        await asyncio.wait_for(run.runner.exec("look", "{}"), 30)

    done = threading.Event()

    def work() -> None:
        asyncio.run(main())
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(30)
    assert run.codes() == [code]
    assert run.runner.exec_sync("look", "{}").error_code == code
    assert "canary" not in caplog.text


async def test_a_cancelled_caller_does_not_wait_for_a_handler_that_will_not_be() -> None:
    run = Run(uncancellable_handler, 60_000, effect=READ)
    task = asyncio.create_task(run.runner.exec("look", "{}"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert run.codes() == ["cancelled"]


async def test_an_exception_of_a_handler_after_its_timeout_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()
    ended = asyncio.Event()

    async def late(params: None, *, context: ToolContext) -> ToolResult[None]:
        try:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            raise RuntimeError("canary")
        finally:
            ended.set()

    assert (await Run(late, 20, effect=READ).runner.exec("look", "{}")).error_code == "timeout"
    release.set()
    await ended.wait()
    await asyncio.sleep(0)
    assert "canary" not in caplog.text


async def test_a_handler_within_its_limit_just_returns() -> None:
    async def quick(params: None, *, context: ToolContext) -> ToolResult[None]:
        await asyncio.sleep(0)
        return ToolResult("done")

    assert (await Run(quick, 10_000).runner.exec("look", "{}")).content == "done"


@pytest.mark.parametrize("limit_ms", [None, 10_000], ids=["unlimited", "limited"])
@pytest.mark.parametrize(("effect", "code"), [(READ, "cancelled"), (CHANGE, "unknown_outcome")])
@pytest.mark.parametrize(
    "error",
    [
        OSError("canary"),
        ToolUserError("canary"),
        ToolFailure(ToolErrorCode.EXECUTION),
        LoopSignal("canary"),
        SystemExit("canary"),
        Odd("canary"),
    ],
)
async def test_a_clean_up_that_raises_does_not_undo_the_cancellation(
    error: BaseException, limit_ms: int | None, effect: ToolEffect, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def breaks_off(params: None, *, context: ToolContext) -> ToolResult[None]:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None
        raise AssertionError

    run = Run(breaks_off, limit_ms, effect=effect)
    task = asyncio.create_task(run.runner.exec("look", "{}"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.codes() == [code]
    told = [] if limit_ms is not None else [f"tool call: handler of look raised {type(error).__name__}"]
    assert [line.partition(" at ")[0] for line in caplog.messages] == told
    assert "canary" not in caplog.text


async def test_a_call_in_the_clean_up_of_a_cancelled_task_is_one_like_any(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(params: None, *, context: ToolContext) -> ToolResult[None]:
        await asyncio.sleep(0)
        raise OSError("canary")

    run = Run(fails)

    async def caller() -> str | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return (await run.runner.exec("look", "{}")).error_code
        raise AssertionError

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "execution"
    [line] = caplog.messages
    assert line.startswith("tool call: handler of look raised OSError at ")


def test_ctrl_c_in_the_clean_up_of_a_cancelled_call_goes_up() -> None:
    begun = asyncio.Event()

    async def breaks_off(params: None, *, context: ToolContext) -> ToolResult[None]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGINT)
        raise AssertionError

    run = Run(breaks_off, effect=CHANGE)

    async def caller() -> None:
        task = asyncio.create_task(run.runner.exec("look", "{}"))
        await begun.wait()
        task.cancel()
        await task

    with closing(asyncio.new_event_loop()) as loop:
        called = loop.create_task(caller())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(called)
        called.cancel()
        with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
            loop.run_until_complete(called)
    assert run.codes() == ["unknown_outcome"]


async def test_the_callers_time_out_is_not_lost_in_a_clean_up() -> None:
    async def breaks_off(params: None, *, context: ToolContext) -> ToolResult[None]:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError

    run = Run(breaks_off, effect=CHANGE)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await run.runner.exec("look", "{}")
    assert run.codes() == ["unknown_outcome"]


async def test_a_time_out_that_a_handler_sets_itself_is_its_own() -> None:
    async def gives_up(params: None, *, context: ToolContext) -> ToolResult[None]:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        raise AssertionError

    assert (await Run(gives_up, effect=CHANGE).runner.exec("look", "{}")).error_code == "execution"


class Unfinished(ToolFailure):
    def __init__(self) -> None:
        """Forgets what a ToolFailure is."""


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError("canary")


def failure_without_message() -> ToolFailure:
    failure = ToolFailure(ToolErrorCode.AUTHZ_DENIED)
    failure.message = Unspeakable()  # type: ignore[assignment]
    return failure


@pytest.mark.parametrize(("make", "code"), [(Unfinished, "execution"), (failure_without_message, "authz_denied")])
def test_a_failure_that_is_made_wrongly_is_one_all_the_same(
    make: Callable[[], ToolFailure], code: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise make()

    run = Run(fails, effect=CHANGE)
    result = run.runner.exec_sync("look", "{}")
    assert result.error_code == code
    assert result.safe_message == SAFE_MESSAGES[ToolErrorCode(code)]
    assert run.codes() == [code]
    assert caplog.records
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ToolValidationError("a must be even"), "validation", "a must be even"),
        (
            ToolValidationError("a must be even", fields=("a is 3",)),
            "validation",
            "a must be even. Found: a is 3.",
        ),
        (
            ToolValidationError("Say less.", fields=("text is long", "n is odd")),
            "validation",
            "Say less. Found: text is long; n is odd.",
        ),
        (ToolValidationError("Less!", fields=("n is odd",)), "validation", "Less! Found: n is odd."),
        (ToolValidationError("How many?", fields=("n is odd",)), "validation", "How many? Found: n is odd."),
        (ToolValidationError("", fields=("a is odd",)), "validation", f"{TABLE['validation']} Found: a is odd."),
        (ToolValidationError(""), "validation", TABLE["validation"]),
        (ToolValidationError("x" * 5000), "validation", TABLE["validation"]),
        (ToolUserError("There is none."), "execution", "There is none."),
        (ToolUserError(""), "execution", TABLE["execution"]),
    ],
)
@pytest.mark.parametrize("redaction", [Redaction.drop_all(), Redaction.message_only()])
def test_a_user_or_validation_error_of_a_handler_reaches_the_model(
    error: Exception, code: str, told: str, redaction: Redaction
) -> None:
    def refuse(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise error

    run = Run(refuse, redaction=redaction)
    result = run.runner.exec_sync("look", "{}")
    assert (result.error_code, result.safe_message) == (code, told)
    answer = {"ok": False, "error_code": code, "message": told}
    assert json.loads(result.content) == answer
    assert run.events[-1].result == answer
