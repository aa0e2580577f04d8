"""A call that is taken back leaves the state that there would be without it, whatever ran at the same time."""

from __future__ import annotations

import gc
import logging
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.sessions.shop_events import Call, Delivered, Sold, Stock, count_lines, shop_session, tool_invoked

from demiurge.errors import Conflict, UsageError
from demiurge.sessions import Session, SessionReducerContext, SlicePolicy, replace_latest
from demiurge.tools.execution.scope import CallScope, ScopeState, Transactional
from demiurge.tools.invoked import ToolInvoked


def test_a_call_that_fails_leaves_nothing_and_one_that_succeeds_leaves_all() -> None:
    session = shop_session()
    session.broadcast(Delivered("nut", 5))
    for ends_well in (False, True):
        call = Call(session)
        with call.running():
            session.broadcast(Sold("nut", 2))
            session[str].seed("sold")
            session[Delivered].clear()
        (call.commit if ends_well else call.roll_back)()
        expected = (Stock(3), ("sold",), ()) if ends_well else (Stock(5), (), (Delivered("nut", 5),))
        assert (session[Stock].latest(), session[str].all(), session[Delivered].all()) == expected


def test_only_the_changes_of_the_call_are_taken_back() -> None:
    session = shop_session()
    one, other = Call(session), Call(session)
    with one.running():
        session.broadcast(Delivered("nut", 1))
    with other.running():
        session.broadcast(Delivered("bolt", 10))
    session.broadcast(Delivered("cog", 100))
    with one.running():
        session.broadcast(Delivered("nut", 1000))
    one.roll_back()
    assert session[Delivered].all() == (Delivered("bolt", 10), Delivered("cog", 100))
    assert session[Stock].latest() == Stock(110)
    other.roll_back()
    assert session[Delivered].all() == (Delivered("cog", 100),)
    assert session[Stock].latest() == Stock(100)


def test_changes_of_a_committed_inner_call_are_rolled_back_with_its_outer_call() -> None:
    session = shop_session()
    outer = Call(session)
    with outer.running():
        inner = Call(session)
        with inner.running():
            session.broadcast(Delivered("nut"))
        inner.commit()
        assert outer.transaction.events == inner.transaction.events == (Delivered("nut"),)
        lost = Call(session)
        with lost.running():
            session.broadcast(Delivered("bolt"))
        lost.roll_back()
        assert session[Delivered].all() == (Delivered("nut"),)
    outer.roll_back()
    assert session[Delivered].all() == ()
    assert session[Stock].all() == ()


def test_a_call_that_was_rolled_back_can_no_longer_change_the_session() -> None:
    session = shop_session()
    call = Call(session)
    call.roll_back()
    changes: list[Callable[[], object]] = [
        lambda: session.broadcast(Delivered("nut")),
        lambda: session[Delivered].append(Delivered("nut")),
        lambda: session[Stock].seed(Stock(1)),
        lambda: session[Stock].clear(),
        lambda: session.restore(session.snapshot()),
        session.reset,
    ]
    with call.running():
        for change in changes:
            with pytest.raises(Conflict, match="over") as raised:
                change()
            assert raised.value.code == "call_over"
        assert not session.event_bus.publish(tool_invoked(1)).ok
    assert (session[Delivered].all(), session[Stock].all(), session[ToolInvoked].all()) == ((), (), ())


def test_a_change_that_needed_what_was_taken_back_goes_with_it(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    session[bytes].register(Sold, lambda values, event, /, *, context: (*values, b"sold"))
    session.install(Stock, initial=Stock)
    delivery, sale = Call(session), Call(session)
    with delivery.running():
        session.broadcast(Delivered("nut"))
    with sale.running():
        session.broadcast(Sold("nut"))
        session[str].seed("sold")
    with caplog.at_level(logging.WARNING, "demiurge.sessions"):
        delivery.roll_back()
    assert "ValueError" in caplog.text
    assert (session[Stock].all(), session[bytes].all(), session[str].all()) == ((), (), ("sold",))
    assert sale.transaction.events == ()
    sale.commit()
    assert sale.transaction.events == ()


def test_an_interrupt_while_a_call_is_taken_back_leaves_it_to_be_taken_back_again() -> None:
    session = shop_session()
    presses = [KeyboardInterrupt()]

    def interrupted(values: tuple[str, ...], event: Sold, /, *, context: SessionReducerContext) -> tuple[str, ...]:
        if context.session[Stock].latest() == Stock(1) and presses:
            raise presses.pop()
        return (*values, event.part)

    session[str].register(Sold, interrupted)
    session.broadcast(Delivered("nut", 2))
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut", 3))
    session.broadcast(Sold("nut"))
    with pytest.raises(KeyboardInterrupt):
        call.roll_back()
    assert (session[Stock].latest(), session[str].all()) == (Stock(4), ("nut",))
    call.roll_back()
    assert (session[Stock].latest(), session[str].all()) == (Stock(1), ("nut",))


def test_an_event_that_a_reducer_broadcasts_is_rolled_back_and_repeated_with_its_cause() -> None:
    session = shop_session()

    def sell_one(values: tuple[str, ...], event: Delivered, /, *, context: SessionReducerContext) -> tuple[str, ...]:
        context.session.broadcast(Sold(event.part))
        return (*values, event.part)

    session[str].register(Delivered, sell_one)
    one, other = Call(session), Call(session)
    with one.running():
        session.broadcast(Delivered("nut", 10))
    with other.running():
        session.broadcast(Delivered("bolt", 5))
    assert (session[Stock].latest(), other.transaction.events) == (Stock(13), (Delivered("bolt", 5),))
    one.roll_back()
    assert (session[Stock].latest(), session[str].all()) == (Stock(4), ("bolt",))
    other.roll_back()
    assert (session[Stock].all(), session[str].all()) == ((), ())


def test_logs_stay() -> None:
    session = shop_session()
    session[str].register(Delivered, lambda values, event, /, *, context: (*values, event.part), policy=SlicePolicy.LOG)
    one, other = Call(session), Call(session)
    with one.running():
        session.broadcast(Delivered("nut"))
        session.event_bus.publish(tool_invoked(1, Sold("nut")))
    with other.running():
        session.broadcast(Delivered("bolt"))
    one.roll_back()
    assert session[str].all() == ("nut", "bolt")
    assert session[ToolInvoked].all() == (tool_invoked(1, Sold("nut")),)
    assert (session[Delivered].all(), session[Stock].all()) == ((Delivered("bolt"),), (Stock(1),))
    assert other.transaction.events == (Delivered("bolt"),)


def test_an_event_that_only_logs_want_is_not_among_the_events_of_a_call() -> None:
    session = shop_session()
    session[str].register(bytes, lambda values, event, /, *, context: (*values, event.hex()), policy=SlicePolicy.LOG)
    call = Call(session)
    with call.running():
        session.event_bus.publish(tool_invoked(1, Delivered("nut")))
        session.broadcast(b"abc")
        session[str].clear(lambda text: text == "616263")
    told = [(call.transaction.events, call.transaction.has_direct_changes)]
    with call.running():
        session[Stock].seed(Stock(4))
    told.append((call.transaction.events, call.transaction.has_direct_changes))
    call.commit()
    told.append((call.transaction.events, call.transaction.has_direct_changes))
    assert told == [((Delivered("nut"),), False), ((Delivered("nut"),), True), ((Delivered("nut"),), True)]
    assert session[str].all() == ()


def test_the_reducers_of_the_time_of_an_event_are_its_reducers_for_ever() -> None:
    session = shop_session()
    call = Call(session)
    session.broadcast(Delivered("nut"))
    session[str].register(Delivered, lambda values, event, /, *, context: (*values, event.part))
    session.broadcast(Delivered("bolt"))
    call.roll_back()
    assert session[str].all() == ("bolt",)


def test_a_transaction_ends_once() -> None:
    session = shop_session()
    for end, again in [("commit", "roll_back"), ("roll_back", "commit"), ("commit", "commit")]:
        transaction = session.begin(CallScope())
        getattr(transaction, end)()
        with pytest.raises(UsageError) as raised:
            getattr(transaction, again)()
        assert raised.value.code == "transaction_over"


def test_no_call_begins_or_is_taken_back_in_a_reducer() -> None:
    session = Session()
    call = Call(session)
    session[str].register(Sold, lambda values, event, /, *, context: context.session.begin(CallScope()))
    session[str].register(Delivered, lambda values, event, /, *, context: call.transaction.roll_back())
    for event in (Sold("nut"), Delivered("nut")):
        with pytest.raises(UsageError, match="in a reducer"):
            session.broadcast(event)
    call.commit()


def test_a_runner_takes_a_session_for_what_can_go_back() -> None:
    assert isinstance(Session(), Transactional)


# What it costs.


@dataclass(frozen=True)
class Weighty:
    """An event that can be weakly referenced."""

    number: int


def test_a_session_keeps_events_for_a_rollback_only_while_a_call_is_open() -> None:
    session = Session()
    session[Weighty].register(Weighty, replace_latest)

    def gone() -> Callable[[], Any]:
        event = Weighty(1)
        session.broadcast(event)
        return weakref.ref(event)

    def alive(*events: Callable[[], Any]) -> list[bool]:
        session.broadcast(Weighty(0))
        gc.collect()
        return [event() is not None for event in events]

    before = gone()
    assert alive(before) == [False], "no call is open"
    one = Call(session)
    early = gone()
    session.broadcast(Weighty(0))
    other = Call(session)
    late = gone()
    assert alive(early, late) == [True, True]
    one.commit()
    assert alive(early, late) == [False, True], "only the other is left, and it began after the first event"
    last = Call(session)
    last.commit()
    end = gone()
    other.roll_back()
    assert alive(early, late, end) == [False, False, False], "all are over"


def test_a_call_that_was_kept_from_its_end_is_not_open_for_ever() -> None:
    """Its scope is committed, but what broke in (no stack left, Ctrl-C) came before the session heard of it."""
    session = Session()
    left = Call(session)
    with left.running():
        session[Stock].seed(Stock(1))
    left.scope.state = ScopeState.COMMITTED
    Call(session).commit()
    event = Weighty(1)
    session.broadcast(event)
    found = weakref.ref(event)
    del event
    session[Weighty].clear()
    gc.collect()
    assert found() is None
    assert session[Stock].all() == (Stock(1),)


def test_a_call_that_ends_in_a_longer_one_keeps_only_its_changes() -> None:
    """Not the states between them."""
    session = Session()
    session[Weighty].register(Weighty, replace_latest)
    outer = Call(session)

    def calls(count: int) -> None:
        with outer.running():
            for number in range(count):
                inner = Call(session)
                with inner.running():
                    session[Stock].seed(Stock(number))
                inner.commit()

    calls(10)
    tracemalloc.start()
    calls(1000)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / 1000 < 1000, "bytes for each call inside"
    outer.roll_back()
    assert session[Stock].all() == ()


def a_call_that_is_kept(session: Session) -> None:
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut"))
    call.commit()


def a_call_that_is_taken_back(session: Session) -> None:
    call, other = Call(session), Call(session)
    with call.running():
        session.broadcast(Delivered("nut"))
    with other.running():
        session.broadcast(Delivered("nut"))
    call.roll_back()
    other.commit()


def a_call_that_is_corrected(session: Session) -> None:
    session.event_bus.publish(tool_invoked(1))
    session.correct(tool_invoked(1, success=False))


def a_snapshot_that_is_restored(session: Session) -> None:
    snapshot = session.snapshot(include_all=True)
    session.broadcast(Delivered("nut"))
    session.restore(snapshot, preserve_logs=False)


def a_clone(session: Session) -> None:
    session.clone().broadcast(Delivered("nut"))


@pytest.mark.parametrize(
    "work",
    [
        lambda session: session.broadcast(Delivered("nut")),
        a_call_that_is_kept,
        a_call_that_is_taken_back,
        a_call_that_is_corrected,
        a_snapshot_that_is_restored,
        a_clone,
        lambda session: session[Delivered].latest(),
    ],
)
def test_the_cost_of_a_session_operation_does_not_grow_with_its_history(work: Callable[[Session], object]) -> None:
    """Lines of Python that run, and bytes that are asked for."""

    def cost(history: int) -> tuple[int, int]:
        session = shop_session()
        session[Delivered].seed(())
        for number in range(history):
            session.broadcast(Delivered("nut"))
            session.event_bus.publish(tool_invoked(number + 10))
        work(session)
        lines = count_lines(lambda: work(session))
        tracemalloc.start()
        work(session)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return lines, peak

    few_lines, few_bytes = cost(10)
    many_lines, many_bytes = cost(10_000)
    assert many_lines == few_lines
    assert many_bytes < few_bytes + 2000
