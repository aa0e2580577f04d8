"""What a call leaves in the ledger: its result before anybody hears of it, nothing, or a doubt."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.tools.order_shop import NAME, HookedStore, Order, Receipt, Shop, order_tool, runner_for

from demiurge.tools import (
    Budgets,
    EffectLedger,
    LoopSignal,
    Redaction,
    ToolCallResult,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolFailure,
    ToolPolicy,
    ToolResult,
    ToolUserError,
    ToolValidationError,
)

ARGS = {"order_id": "o"}
READ = ToolEffect.READ_ONLY
CHANGES = [ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT]
LIMITED = ToolPolicy((NAME,), budgets=Budgets(max_runtime_ms=20))


@pytest.fixture
def ledger() -> EffectLedger:
    return EffectLedger()


def raising(error: BaseException) -> Callable[..., Any]:
    def handler(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise error

    return handler


def returning(result: Any) -> Callable[..., Any]:
    def handler(params: Order, *, context: ToolContext) -> Any:
        return result

    handler.__annotations__.pop("return")
    return handler


class Undecided:
    def __bool__(self) -> bool:
        raise ValueError("canary")


class NoView(Redaction):
    def apply(self, message: str, value: Any) -> Any:
        raise RuntimeError("no view")


class Torn(ToolResult[Any]):
    """A result of somebody's own make that cannot say whether it is one."""

    def __getattribute__(self, name: str) -> Any:
        if name == "success":
            raise ValueError("canary")
        return super().__getattribute__(name)


async def sleeping(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
    await asyncio.Event().wait()
    raise AssertionError


def ledger_state(ledger: EffectLedger) -> str:
    """What there is of the one call: a result, a doubt, or nothing."""
    return "done" if len(ledger) else "in doubt" if ledger.in_doubt() else "nothing"


@pytest.mark.parametrize("effect", list(ToolEffect))
@pytest.mark.parametrize(
    "handler",
    [
        raising(ValueError("x")),
        raising(ToolUserError("x")),
        raising(ToolValidationError("x")),
        raising(ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)),
        raising(ToolFailure(ToolErrorCode.TIMEOUT)),
        returning(ToolResult("no", None, success=False)),
        returning(ToolResult("no", "a value of another type", success=False)),
    ],
)
async def test_a_failure_that_the_handler_tells_leaves_nothing(
    ledger: EffectLedger, effect: ToolEffect, handler: Callable[..., Any]
) -> None:
    runner = runner_for(order_tool(handler, effect=effect), ledger)
    assert not (await runner.exec(NAME, ARGS)).ok
    assert ledger_state(ledger) == "nothing"


def test_a_loop_signal_leaves_nothing(ledger: EffectLedger) -> None:
    with pytest.raises(LoopSignal):
        runner_for(order_tool(raising(LoopSignal("up"))), ledger).exec_sync(NAME, ARGS)
    assert ledger_state(ledger) == "nothing"


@pytest.mark.parametrize(("effect", "what"), [(READ, "nothing"), *((effect, "in doubt") for effect in CHANGES)])
@pytest.mark.parametrize(
    "handler",
    [
        raising(SystemExit()),
        returning(None),
        returning(Receipt("o")),
        returning(ToolResult("m", "a value of another type")),
        returning(ToolResult("\ud800", Receipt("o"))),
        returning(ToolResult("m", Receipt("o"), success=Undecided())),  # type: ignore[arg-type]
        returning(ToolResult("m", Receipt("o"), exclude_value_from_context=Undecided())),  # type: ignore[arg-type]
        returning(Torn("m", Receipt("o"))),
        sleeping,
    ],
    ids=[
        "raises SystemExit",
        "returns None",
        "returns a bare value",
        "value of another type",
        "message that is no UTF-8",
        "success that raises",
        "exclusion flag that raises",
        "result that raises",
        "exceeds its time",
    ],
)
async def test_an_end_that_may_have_changed_something_is_a_doubt(
    ledger: EffectLedger, effect: ToolEffect, what: str, handler: Callable[..., Any]
) -> None:
    runner = runner_for(order_tool(handler, effect=effect), ledger, policy=LIMITED)
    assert not (await runner.exec(NAME, ARGS)).ok
    assert ledger_state(ledger) == what


def test_the_log_says_where_a_result_could_not_be_read(ledger: EffectLedger, caplog: pytest.LogCaptureFixture) -> None:
    runner_for(order_tool(returning(Torn("m", Receipt("o")))), ledger).exec_sync(NAME, ARGS)
    assert [line.partition(" at ")[0] for line in caplog.messages] == [
        "tool call: output_validation raised ValueError",
        "tool call: result raised ValueError",
    ]
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("options", "args", "code"),
    [
        ({}, {"order_id": 7}, "validation"),
        ({"redaction": NoView("drop_all")}, ARGS, "redaction_failed"),
    ],
    ids=["fails before the claim", "fails after the end of the claim"],
)
async def test_a_call_that_fails_without_a_claim_ends_none(
    options: dict[str, Any], args: Any, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    runner = runner_for(order_tool(Shop().place, **options), EffectLedger())
    for result in (await runner.exec(NAME, args), runner.exec_sync(NAME, args)):
        assert result.error_code == code
    assert not [line for line in caplog.messages if line.startswith("tool call: ledger ")]


def test_a_handler_that_says_that_it_does_not_know_leaves_a_doubt(ledger: EffectLedger) -> None:
    runner = runner_for(order_tool(raising(ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME))), ledger)
    assert runner.exec_sync(NAME, ARGS).error_code == "unknown_outcome"
    assert ledger_state(ledger) == "in doubt"


@pytest.mark.parametrize("breaks_in_clean_up", [False, True])
@pytest.mark.parametrize(("effect", "what"), [(READ, "nothing"), *((effect, "in doubt") for effect in CHANGES)])
async def test_a_call_that_is_cancelled_in_its_handler(
    ledger: EffectLedger, effect: ToolEffect, what: str, breaks_in_clean_up: bool
) -> None:
    begun = asyncio.Event()

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        begun.set()
        try:
            return await sleeping(params, context=context)
        finally:
            if breaks_in_clean_up:
                raise OSError("the connection was broken off")

    task = asyncio.create_task(runner_for(order_tool(place, effect=effect), ledger).exec(NAME, ARGS))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ledger_state(ledger) == what


@pytest.mark.parametrize(("effect", "what"), [(READ, "nothing"), *((effect, "in doubt") for effect in CHANGES)])
def test_a_call_that_a_person_interrupts(ledger: EffectLedger, effect: ToolEffect, what: str) -> None:
    events: list[Any] = []

    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    runner = runner_for(order_tool(place, effect=effect), ledger, emit=events.append)
    with pytest.raises(KeyboardInterrupt):
        runner.exec_sync(NAME, ARGS)
    assert ledger_state(ledger) == what
    assert len([event for event in events if isinstance(event, ToolCallResult)]) == 1


def test_a_person_who_interrupts_right_after_the_handler_leaves_a_doubt(ledger: EffectLedger) -> None:
    def dump(value: Any) -> bytes:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    events: list[Any] = []
    tool = replace(order_tool(Shop().place).bound, dump=dump)
    with pytest.raises(KeyboardInterrupt):
        runner_for(tool, ledger, emit=events.append).exec_sync(NAME, ARGS)
    assert events[-1].result["error_code"] == "unknown_outcome"
    assert ledger_state(ledger) == "in doubt"


def test_a_coroutine_that_is_closed_leaves_a_doubt(ledger: EffectLedger) -> None:
    """What becomes of a call when its event loop is thrown away."""

    async def start() -> Any:
        task = runner_for(order_tool(sleeping), ledger).exec(NAME, ARGS)
        task.send(None)
        return task

    asyncio.run(start()).close()
    assert ledger_state(ledger) == "in doubt"


def test_a_result_is_in_the_ledger_before_its_event_is_emitted(ledger: EffectLedger) -> None:
    stored: list[int] = []

    def listen(event: Any) -> None:
        if isinstance(event, ToolCallResult):
            stored.append(len(ledger))

    runner_for(order_tool(Shop().place), ledger, emit=listen).exec_sync(NAME, ARGS)
    assert stored == [1]


async def test_a_call_that_is_cancelled_while_it_stores_is_stored_and_does_not_know() -> None:
    writing, go = threading.Event(), threading.Event()

    def wait(write: str) -> None:
        if write == "settle":
            writing.set()
            go.wait()

    ledger, shop, events = EffectLedger(store=HookedStore(wait)), Shop(), list[Any]()
    runner = runner_for(order_tool(shop.place), ledger, emit=events.append)
    task = asyncio.create_task(runner.exec(NAME, ARGS))
    await asyncio.to_thread(writing.wait)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (ended,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert ended.result["error_code"] == "unknown_outcome"
    assert (await runner.exec(NAME, ARGS)).record.replayed
    assert shop.taken == ["o"]


async def test_a_call_that_is_cancelled_while_it_lets_go_still_ends_once() -> None:
    writing, go = threading.Event(), threading.Event()

    def wait(write: str) -> None:
        if write == "release":
            writing.set()
            go.wait()

    ledger, events = EffectLedger(store=HookedStore(wait)), list[Any]()
    runner = runner_for(order_tool(raising(ToolUserError("no"))), ledger, emit=events.append)
    task = asyncio.create_task(runner.exec(NAME, ARGS))
    await asyncio.to_thread(writing.wait)
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    (ended,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert ended.result["error_code"] == "execution"
    assert ledger_state(ledger) == "nothing"


@pytest.mark.parametrize("write", ["settle", "release", "doubt"])
@pytest.mark.parametrize("sync", [True, False])
async def test_an_end_that_can_not_be_written_does_not_change_the_answer(
    write: str, sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(kind: str) -> None:
        if kind == write:
            raise OSError(28, "canary")

    handlers = {
        "settle": returning(ToolResult("ordered", Receipt("o"))),
        "release": raising(ToolUserError("no")),
        "doubt": raising(SystemExit()),
    }
    codes = {"settle": None, "release": "execution", "doubt": "unknown_outcome"}
    runner = runner_for(order_tool(handlers[write]), EffectLedger(store=HookedStore(fail)))
    result = runner.exec_sync(NAME, ARGS) if sync else await runner.exec(NAME, ARGS)
    assert result.error_code == codes[write]
    assert "ledger raised OSError" in caplog.text
    assert "canary" not in caplog.text
