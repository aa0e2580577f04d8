"""Every subscriber of an event's exact type hears of it, in order, and the publisher of every failure."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from demiurge.sessions import InProcessEventBus
from demiurge.sessions.bus import HandlerFailure


@dataclass(frozen=True)
class Opened:
    by: str


@dataclass(frozen=True)
class OpenedAgain(Opened):
    pass


def test_subscribers_are_called_in_order_and_only_for_their_type() -> None:
    bus = InProcessEventBus()
    heard: list[object] = []
    bus.subscribe(Opened, lambda event: heard.append(("first", event)))
    bus.subscribe(OpenedAgain, lambda event: heard.append(("again", event)))
    bus.subscribe(Opened, lambda event: heard.append(("second", event)))
    result = bus.publish(Opened("Ada"))
    assert heard == [("first", Opened("Ada")), ("second", Opened("Ada"))]
    assert (result.event, result.handled_count, result.ok, result.errors) == (Opened("Ada"), 2, True, ())
    result.raise_if_errors()


def test_an_event_without_subscribers_is_published_successfully() -> None:
    result = InProcessEventBus().publish(Opened("Ada"))
    assert (result.handled_count, result.ok) == (0, True)


def test_a_failure_is_reported_and_the_others_still_hear() -> None:
    bus = InProcessEventBus()
    heard: list[Opened] = []

    def fail(event: Opened) -> None:
        raise LookupError(event.by)

    bus.subscribe(Opened, fail)
    bus.subscribe(Opened, heard.append)
    result = bus.publish(Opened("Ada"))
    assert heard == [Opened("Ada")]
    assert not result.ok
    assert result.handlers_invoked == (fail, heard.append)
    assert [(failure.handler, str(failure.error)) for failure in result.errors] == [(fail, "Ada")]
    with pytest.raises(ExceptionGroup, match="subscribers of Opened failed") as raised:
        result.raise_if_errors()
    assert raised.group_contains(LookupError)


def breaks(event: Opened) -> None:
    raise LookupError(event.by)


class Listener:
    def __call__(self, event: Opened) -> None:
        raise ValueError(event.by)


def test_a_failure_names_its_subscriber() -> None:
    bus = InProcessEventBus()
    names = [f"{__name__}.breaks", f"{__name__}.Listener", "list.append"]
    heard: list[object] = []
    handlers: list[Callable[[Opened], object]] = [breaks, Listener(), heard.append]
    for handler in handlers:
        bus.subscribe(Opened, handler)
    bus.subscribe(Opened, functools.partial(breaks))
    result = bus.publish(Opened("Ada"))
    assert [failure.subscriber for failure in result.errors] == [*names[:2], "functools.partial"]
    assert HandlerFailure(heard.append, ValueError()).subscriber == names[2]
    assert result.errors[0].error.__notes__ == [f"raised by the subscriber {names[0]} of Opened"]
    with pytest.raises(ExceptionGroup, match=re.escape(f"subscribers of Opened failed: {names[0]}, {names[1]}, func")):
        result.raise_if_errors()


def test_a_failure_is_logged_though_nobody_looks_at_the_result(caplog: pytest.LogCaptureFixture) -> None:
    bus = InProcessEventBus()
    bus.subscribe(Opened, breaks)
    bus.publish(Opened("canary-71"))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "demiurge.sessions"]
    assert line.startswith(f"subscriber {__name__}.breaks of Opened raised LookupError at {__file__}:")
    assert caplog.records[0].levelname == "WARNING"
    assert "canary" not in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_exception_that_stops_the_program_is_raised_by_publish(stop: type[BaseException]) -> None:
    bus = InProcessEventBus()

    def interrupted(event: Opened) -> None:
        raise stop

    bus.subscribe(Opened, interrupted)
    with pytest.raises(stop):
        bus.publish(Opened("Ada"))


def test_each_subscription_is_taken_back_by_itself() -> None:
    bus = InProcessEventBus()
    heard: list[Opened] = []
    bus.subscribe(Opened, heard.append)
    bus.subscribe(Opened, heard.append)
    assert bus.unsubscribe(Opened, heard.append)
    bus.publish(Opened("Ada"))
    assert bus.unsubscribe(Opened, heard.append)
    assert not bus.unsubscribe(Opened, heard.append)
    bus.publish(Opened("Bob"))
    assert heard == [Opened("Ada")]


def test_a_subscriber_may_subscribe_unsubscribe_and_publish() -> None:
    bus = InProcessEventBus()
    heard: list[object] = []

    def once(event: Opened) -> None:
        bus.unsubscribe(Opened, once)
        bus.subscribe(Opened, heard.append)
        bus.publish(OpenedAgain("Bob"))

    bus.subscribe(Opened, once)
    bus.subscribe(OpenedAgain, heard.append)
    bus.publish(Opened("Ada"))
    assert heard == [OpenedAgain("Bob")]
    bus.publish(Opened("Eve"))
    assert heard == [OpenedAgain("Bob"), Opened("Eve")]
