"""Changes are whole, for observers and for other threads, too."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.sessions.shop_events import Call, Delivered, Sold, Stock, shop_session, tool_invoked

from demiurge.sessions import Session, SessionReducerContext
from demiurge.tools.invoked import ToolInvoked

# Who is told.


def test_an_observer_is_told_what_was_and_what_is() -> None:
    session = shop_session()
    told: list[tuple[Any, Any]] = []
    subscription = session.observe(Stock, lambda old, new: told.append((old, new)))
    session.broadcast(Delivered("nut"))
    session.broadcast(Delivered("nut"))
    session[str].seed("another slice")
    with pytest.raises(ValueError, match="sold out"):
        session.broadcast(Sold("nut", 9))
    assert told == [((), (Stock(1),)), ((Stock(1),), (Stock(2),))]
    assert subscription.unsubscribe()
    assert not subscription.unsubscribe()
    session.broadcast(Delivered("nut"))
    assert len(told) == 2


def test_an_observer_is_not_told_of_what_changes_nothing() -> None:
    session = Session()
    session[str].seed("same")
    session[str].register(Sold, lambda values, event, /, *, context: values)
    told: list[Any] = []
    session.observe(str, lambda old, new: told.append(new))
    session.broadcast(Sold("nut"))
    session[str].clear(lambda word: word == "other")
    assert told == []


def test_an_observer_is_told_of_a_roll_back() -> None:
    session = shop_session()
    told: list[Any] = []
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut"))
    session.observe(Stock, lambda old, new: told.append((old, new)))
    call.roll_back()
    assert told == [((Stock(1),), ())]


def test_an_observer_that_fails_does_not_keep_a_call_from_being_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    session = shop_session()
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut"))
        session.observe(Stock, lambda old, new: session[str].append("told"))
        call.roll_back()
    assert (session[Stock].all(), session[str].all()) == ((), ())
    assert "Conflict" in caplog.text


def test_an_observer_sees_a_change_of_several_slices_when_it_is_whole() -> None:
    session = shop_session()
    seen: list[Any] = []
    session.observe(Delivered, lambda old, new: seen.append(session[Stock].latest()))
    session.broadcast(Delivered("nut", 3))
    assert seen == [Stock(3)]


def test_an_observer_that_fails_is_heard_and_the_change_stays() -> None:
    session = shop_session()
    told: list[Any] = []

    def fail(old: object, new: object) -> None:
        raise LookupError("no screen")

    session.observe(Stock, fail)
    session.observe(Stock, lambda old, new: told.append(new))
    with pytest.raises(LookupError, match="no screen"):
        session.broadcast(Delivered("nut"))
    assert told == [(Stock(1),)]
    session.observe(Stock, fail)
    with pytest.raises(ExceptionGroup, match="observers failed"):
        session.broadcast(Delivered("nut"))
    assert session[Stock].latest() == Stock(2)
    assert not session.event_bus.publish(tool_invoked(1, Delivered("nut"))).ok


def test_an_observer_may_change_the_session() -> None:
    session = shop_session()
    session.observe(Stock, lambda old, new: session[str].append(f"{new}"))
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut", 3))
    assert session[str].all() == (str((Stock(3),)),)
    call.roll_back()
    assert (session[Stock].all(), session[str].all()) == ((), ("()",))


# Threads.


@dataclass(frozen=True)
class Made:
    by: int
    number: int


@pytest.fixture
def _hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_at_once(*works: Callable[[], object]) -> None:
    """Starts them together; raises what one of them raised."""
    start = threading.Barrier(len(works))
    failed: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.usefixtures("_hasty")
def test_no_append_of_any_thread_is_lost() -> None:
    session = shop_session()
    session[Made].register(Made, lambda values, event, /, *, context: (*values, event))
    session[str].register(Made, lambda values, event, /, *, context: (*values, f"{event.by}/{event.number}"))

    def make(by: int) -> None:
        for number in range(60):
            session.broadcast(Made(by, number))
            session.broadcast(Delivered("nut"))

    def look() -> None:
        while session[Stock].latest() != Stock(240):
            snapshot = session.snapshot()
            assert len(snapshot[Made]) == len(snapshot[str])
            assert len(snapshot[Delivered]) == sum(stock.count for stock in snapshot[Stock])

    all_at_once(*[lambda by=by: make(by) for by in range(4)], look)
    made = session[Made].all()
    assert [f"{event.by}/{event.number}" for event in made] == list(session[str].all())
    for by in range(4):
        assert [event.number for event in made if event.by == by] == list(range(60))
    assert len(session[Delivered].all()) == 240


@pytest.mark.usefixtures("_hasty")
def test_calls_of_several_threads_take_back_their_own_changes() -> None:
    """Each thread's odd calls fail; every call is logged."""
    session = shop_session()

    def work(by: int) -> None:
        for number in range(40):
            call = Call(session)
            with call.running():
                session.broadcast(Delivered("nut"))
                session[Made].append(Made(by, number))
                session.event_bus.publish(tool_invoked(by * 1000 + number))
                if number % 3 == 0:
                    inner = Call(session)
                    with inner.running():
                        session[Made].append(Made(by, 1000 + number))
                    inner.roll_back()
            (call.roll_back if number % 2 else call.commit)()

    all_at_once(*[lambda by=by: work(by) for by in range(4)])
    assert session[Stock].latest() == Stock(80)
    assert len(session[Delivered].all()) == 80
    for by in range(4):
        assert [made.number for made in session[Made].all() if made.by == by] == list(range(0, 40, 2))
    assert len(session[ToolInvoked].all()) == 160
    assert len({event.event_id for event in session[ToolInvoked].all()}) == 160


@pytest.mark.usefixtures("_hasty")
def test_direct_changes_of_several_threads_are_taken_back_with_their_calls() -> None:
    session = Session()

    def work(kind: type[Any]) -> None:
        for number in range(100):
            call = Call(session)
            with call.running():
                session[kind].seed(kind(number))
                assert call.transaction.has_direct_changes
            (call.roll_back if number % 2 else call.commit)()
            assert session[kind].latest() == kind(number - number % 2)

    all_at_once(*[lambda kind=kind: work(kind) for kind in (int, str, float, complex)])


@pytest.mark.parametrize("read", [lambda session: session.snapshot()[str], lambda session: session[str].all()])
def test_a_reader_never_sees_half_a_change(read: Callable[[Session], tuple[str, ...]]) -> None:
    session = Session()
    seen: list[tuple[str, ...]] = []
    reader = threading.Thread(target=lambda: seen.append(read(session)))

    def slowly(values: tuple[Made, ...], event: Made, /, *, context: SessionReducerContext) -> tuple[Made, ...]:
        context.session.broadcast("half")
        reader.start()
        reader.join(0.1)
        context.session.broadcast("done")
        return (event,)

    session[Made].register(Made, slowly)
    session.broadcast(Made(0, 0))
    reader.join()
    assert seen == [("half", "done")]


def test_a_change_that_fails_does_not_take_others_with_it() -> None:
    session = Session()
    writer = threading.Thread(target=lambda: session[int].seed(7))

    def fail(values: tuple[str, ...], event: Made, /, *, context: SessionReducerContext) -> tuple[str, ...]:
        writer.start()
        writer.join(0.1)
        raise LookupError

    session[str].register(Made, fail)
    with pytest.raises(LookupError):
        session.broadcast(Made(0, 0))
    writer.join()
    assert session[int].all() == (7,)
