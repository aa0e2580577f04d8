"""The reports of progress that a handler makes: what watchers see of them, and when."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.errors import InvalidValue
from demiurge.tools.events import AiEvent, ToolCallResult, ToolCallStart, ToolProgress
from demiurge.tools.execution.progress import MAX_PROGRESS_MESSAGE
from demiurge.values.clock import FixedClock

READ = ToolEffect.READ_ONLY
MS = 1_000_000


class Shown:
    """The events of a runner with one tool, and the threads that emitted them."""

    def __init__(self, handler: Any, **options: Any) -> None:
        self.events: list[AiEvent] = []
        self.threads: set[int] = set()
        policy = ToolPolicy((handler.spec.name,))
        self.runner = ToolRunner([handler], policy=policy, emit=self._emit, **options)

    def _emit(self, event: AiEvent) -> None:
        self.events.append(event)
        self.threads.add(threading.get_ident())

    @property
    def reports(self) -> list[tuple[float, float | None, str]]:
        found = [event for event in self.events if isinstance(event, ToolProgress)]
        return [(event.done, event.total, event.message) for event in found]


@tool(effect=READ)
def count(*, context: ToolContext) -> str:
    """Count."""
    context.progress(1, 2, "one")
    context.progress(2, 2, "two")
    return "counted"


@tool(effect=READ)
async def count_async(*, context: ToolContext) -> str:
    """Count."""
    context.progress(1, 2, "one")
    await asyncio.to_thread(context.progress, 2, 2, "two")
    return "counted"


@pytest.mark.parametrize("handler", [count, count_async])
async def test_reports_come_between_start_and_result_on_the_thread_of_the_loop(handler: Any) -> None:
    shown, here = Shown(handler), threading.get_ident()
    result = await shown.runner.exec(handler.spec.name, "{}", tool_call_id="c1")
    assert result.ok
    assert [type(event) for event in (shown.events[0], shown.events[-1])] == [ToolCallStart, ToolCallResult]
    assert {event.tool_call_id for event in shown.events if isinstance(event, ToolProgress)} == {"c1"}
    assert shown.reports[-1:] == [(2, 2, "two")]
    assert shown.threads == {here}


@pytest.mark.parametrize("handler", [count, count_async])
def test_reports_are_emitted_without_a_loop_too(handler: Any) -> None:
    shown = Shown(handler)
    assert shown.runner.exec_sync(handler.spec.name, "{}").ok
    assert shown.reports[-1:] == [(2, 2, "two")]


def test_of_many_reports_the_first_and_the_newest_are_emitted() -> None:
    clock = FixedClock(0)

    @tool(effect=READ)
    def scan(*, context: ToolContext) -> str:
        """Scan."""
        for number in range(1000):
            context.progress(number, 1000)
        clock.advance(100 * MS)
        context.progress(1000, 1000)
        context.progress(1000, 1000, "last")
        return "scanned"

    shown = Shown(scan, clock=clock)
    shown.runner.exec_sync("scan", "{}")
    assert shown.reports == [(0, 1000, ""), (1000, 1000, ""), (1000, 1000, "last")]


async def test_a_report_that_came_too_soon_is_emitted_while_the_handler_goes_on() -> None:
    emitted = asyncio.Event()

    @tool(effect=READ)
    async def scan(*, context: ToolContext) -> str:
        """Scan."""
        context.progress(1)
        context.progress(2)
        await emitted.wait()
        return "scanned"

    shown = Shown(scan)
    emit = shown.runner.heard_by(lambda event: emitted.set() if event == ToolProgress("c1", 2) else None)
    assert (await emit.exec("scan", "{}", tool_call_id="c1")).ok
    assert shown.reports == [(1, None, ""), (2, None, "")]


async def test_a_handler_that_was_abandoned_reports_nothing_any_more() -> None:
    kept: list[ToolContext] = []
    released = threading.Event()
    ended = threading.Event()

    @tool(effect=READ, timeout=0.02)
    def stuck(*, context: ToolContext) -> str:
        """Wait."""
        kept.append(context)
        released.wait(30)
        context.progress(1)
        ended.set()
        return "late"

    shown = Shown(stuck)
    result = await shown.runner.exec("stuck", "{}")
    assert result.error_code == "timeout"
    released.set()
    await asyncio.to_thread(ended.wait, 30)
    kept[0].progress(-1)  # not even refused: nobody is there to correct it
    assert shown.reports == []


@pytest.mark.parametrize(
    "given",
    [
        (-1,),
        (float("nan"),),
        (float("inf"),),
        (1, -2),
        (1, float("nan")),
        (2**60,),
        (10**400,),
        (True,),
        ("1",),
        (None,),
        (1, 2, 3),
    ],
)
async def test_numbers_that_count_nothing_are_refused_with_a_sentence(given: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidValue, match=r"(finite numbers from 0|must be text)"):
        ToolContext().progress(*given)

    @tool(effect=READ)
    def scan(*, context: ToolContext) -> str:
        """Scan."""
        with pytest.raises(InvalidValue):
            context.progress(*given)
        return "refused"

    shown = Shown(scan)
    assert (await shown.runner.exec("scan", "{}")).content == "refused"
    assert shown.reports == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("token is s3cr3t-of-this-process", "token is [DESK_TOKEN]"),
        ("safe\u202etxt.exe\x1b[2J", "safe<U+202E>txt.exe<U+001B>[2J"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("x" * 300, "x" * (MAX_PROGRESS_MESSAGE - 1) + "…"),
        ("half \ud800", "half <U+D800>"),
    ],
)
def test_a_message_is_one_line_that_hides_nothing_and_holds_no_secret(
    message: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", "s3cr3t-of-this-process")

    @tool(effect=READ)
    def scan(*, context: ToolContext) -> str:
        """Scan."""
        context.progress(0, 1, message)
        return "scanned"

    shown = Shown(scan)
    shown.runner.exec_sync("scan", "{}")
    assert shown.reports == [(0, 1, expected)]


def test_without_listeners_a_report_is_checked_and_dropped() -> None:
    runner = ToolRunner([count], policy=ToolPolicy(("count",)))
    assert runner.exec_sync("count", "{}").ok
    ToolContext().progress(3, 10, "alone")


def test_a_failed_call_shows_its_newest_report() -> None:
    @tool(effect=READ)
    def scan(*, context: ToolContext) -> ToolResult[None]:
        """Scan."""
        context.progress(1, 3)
        context.progress(2, 3)
        raise ValueError("broken")

    shown = Shown(scan)
    assert shown.runner.exec_sync("scan", "{}").error_code == "execution"
    assert [done for done, _, _ in shown.reports] == [1, 2]
