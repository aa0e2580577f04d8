"""Every subscriber of an event's exact type hears of it, in order, and the publisher of every failure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from demiurge.sessions import InProcessEventBus


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


def test_nobody_listens() -> None:
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


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_stops_a_program_goes_up(stop: type[BaseException]) -> None:
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
