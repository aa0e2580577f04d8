"""What becomes of a slice is what its reducers return; one that breaks the rules changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from tests.sessions.shop_events import Delivered, Sold, Stock, shop_session

from demiurge.errors import UsageError
from demiurge.sessions import (
    ReducerError,
    Session,
    SessionReducer,
    SessionReducerContext,
    append_all,
    reducer,
    replace_latest,
    replace_latest_by,
    upsert_by,
)


def part(event: Delivered) -> str:
    return event.part


BUILT_IN: dict[str, tuple[SessionReducer, Callable[[tuple[Delivered, ...], Delivered], tuple[Delivered, ...]]]] = {
    "append_all": (append_all, lambda values, event: (*values, event)),
    "replace_latest": (replace_latest, lambda values, event: (event,)),
    "replace_latest_by": (
        replace_latest_by(part),
        lambda values, event: (*(value for value in values if value.part != event.part), event),
    ),
    "upsert_by": (
        upsert_by(part),
        lambda values, event: (
            tuple(event if value.part == event.part else value for value in values)
            if event.part in map(part, values)
            else (*values, event)
        ),
    ),
}
EVENTS = st.lists(
    st.builds(Delivered, st.sampled_from([f"part {n}" for n in range(40)]), st.integers(0, 9)), max_size=90
)


@pytest.mark.parametrize("name", BUILT_IN)
@given(events=EVENTS)
def test_a_built_in_reducer_does_what_its_name_says(name: str, events: list[Delivered]) -> None:
    built_in, meaning = BUILT_IN[name]
    session = Session()
    session[Delivered].register(Delivered, built_in)
    context = SessionReducerContext(session)
    expected: tuple[Delivered, ...] = ()
    for event in events:
        assert built_in(expected, event, context=context) == meaning(expected, event)
        expected = meaning(expected, event)
        session.broadcast(event)
        assert session[Delivered].all() == expected


@given(seeded=EVENTS, events=EVENTS)
def test_the_newest_of_a_key_stays_and_no_other_with_it(seeded: list[Delivered], events: list[Delivered]) -> None:
    """A slice that was seeded or filled by another reducer may hold a key twice."""
    session = Session()
    for event in seeded:
        session.broadcast(event)
    session[Delivered].register(Delivered, upsert_by(part))
    expected = list(seeded)
    for event in events:
        places = [at for at, value in enumerate(expected) if value.part == event.part] or [len(expected)]
        expected = [value for at, value in enumerate(expected) if at not in places]
        expected.insert(places[0], event)
        session.broadcast(event)
        assert session[Delivered].all() == tuple(expected)


def test_a_reducer_is_given_the_values_the_event_and_the_session() -> None:
    session = shop_session()
    given = []

    def note(slice_values: tuple[str, ...], event: Delivered, /, *, context: SessionReducerContext) -> list[str]:
        given.append((slice_values, event, context.session, context.session[Stock].latest()))
        return [*slice_values, event.part]

    session[str].register(Delivered, note)
    session.broadcast(Delivered("nut"))
    session.broadcast(Delivered("bolt", 4))
    assert session[str].all() == ("nut", "bolt")
    assert given == [((), Delivered("nut"), session, Stock(1)), (("nut",), Delivered("bolt", 4), session, Stock(5))]


def test_several_reducers_take_an_event_or_none_does() -> None:
    session = shop_session()

    def picky(slice_values: tuple[str, ...], event: Delivered, /, *, context: SessionReducerContext) -> tuple[str, ...]:
        if event.part == "bomb":
            raise LookupError("no such part")
        return (*slice_values, event.part)

    session[str].register(Delivered, picky)
    session.broadcast(Delivered("nut"))
    with pytest.raises(LookupError, match="no such part") as raised:
        session.broadcast(Delivered("bomb"))
    assert "picky of Delivered for the slice str" in raised.value.__notes__[0]
    assert (session[Delivered].all(), session[Stock].latest(), session[str].all()) == (
        (Delivered("nut"),),
        Stock(1),
        ("nut",),
    )


def test_an_interrupt_changes_nothing() -> None:
    session = shop_session()

    def interrupted(
        slice_values: tuple[str, ...], event: Sold, /, *, context: SessionReducerContext
    ) -> tuple[str, ...]:
        raise KeyboardInterrupt

    session.broadcast(Delivered("nut"))
    session[str].register(Sold, interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.broadcast(Sold("nut"))
    assert session[Stock].latest() == Stock(1)
    session.broadcast(Delivered("nut"))
    assert session[Stock].latest() == Stock(2)


@pytest.mark.parametrize("result", [None, "text", Stock(1), {Stock(1)}, iter((Stock(1),)), (Stock(1), None), ["x"]])
def test_a_value_that_is_no_tuple_of_the_slices_values_is_refused(result: Any) -> None:
    session = shop_session()
    session[Stock].seed(Stock(7))
    session[Stock].register(str, lambda slice_values, event, /, *, context: result)
    with pytest.raises(ReducerError, match=r"for the slice Stock returned .*: return") as raised:
        session.broadcast("event")
    assert raised.value.code == "reducer_result"
    assert session[Stock].all() == (Stock(7),)


def test_values_may_be_of_a_subclass() -> None:
    class Counted(Stock):
        pass

    session = Session()
    session[Stock].register(str, lambda slice_values, event, /, *, context: (Counted(len(event)),))
    session.broadcast("four")
    assert session[Stock].all() == (Counted(4),)


@dataclass
class Basket:
    owner: str
    parts: list[str] = field(default_factory=list)
    prices: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SlottedBasket:
    owner: str
    parts: list[str] = field(default_factory=list)
    prices: dict[str, int] = field(default_factory=dict)


class ModelBasket(BaseModel):
    model_config = ConfigDict(extra="allow")
    owner: str
    parts: list[str] = []
    prices: dict[str, int] = {}


MUTATIONS: dict[str, Callable[[Any], object]] = {
    "attribute": lambda basket: setattr(basket, "owner", "Eve"),
    "other list": lambda basket: setattr(basket, "parts", ["nut"]),
    "list": lambda basket: basket.parts.append("bolt"),
    "list item": lambda basket: basket.parts.__setitem__(0, "bolt"),
    "dict": lambda basket: basket.prices.update(nut=3),
    "deleted": lambda basket: delattr(basket, "owner"),
}


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", [Basket, SlottedBasket, ModelBasket])
@pytest.mark.parametrize("who", ["value", "event"])
def test_a_reducer_that_changes_what_it_was_given_is_refused_and_undone(
    who: str, kind: type[Any], mutation: str, raises: bool
) -> None:
    session = Session()
    value, event = (kind(owner="Ada", parts=["nut"], prices={"nut": 2}) for _ in range(2))
    session[kind].seed((kind(owner="Bob"), value))

    def mutate(slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext) -> tuple[Any, ...]:
        MUTATIONS[mutation](event if who == "event" else slice_values[1])
        if raises:
            raise LookupError
        return slice_values

    session[kind].register(kind, mutate)
    with pytest.raises(LookupError if raises else ReducerError) as raised:
        session.broadcast(event)
    assert raises or getattr(raised.value, "code", "") == "reducer_mutation"
    assert session[kind].all() == (kind(owner="Bob"), kind(owner="Ada", parts=["nut"], prices={"nut": 2}))
    assert session[kind].latest() is value
    assert event == value


def test_a_reducer_may_fill_a_cache() -> None:
    @dataclass
    class Bill:
        cents: list[int]

        @cached_property
        def total(self) -> int:
            return sum(self.cents)

    session = Session()
    session[Bill].seed(Bill([1, 2]))
    session[int].register(str, lambda values, event, /, *, context: [context.session[Bill].all()[0].total])
    session[Bill].register(str, lambda values, event, /, *, context: [Bill([values[0].total])])
    session.broadcast("pay")
    assert (session[int].all(), session[Bill].all()) == ((3,), (Bill([3]),))


def test_a_changed_copy_is_welcome() -> None:
    session = Session()
    session[Basket].seed(Basket("Ada"))
    session[Basket].register(str, lambda values, event, /, *, context: [Basket(event), *values])
    session.broadcast("Bob")
    assert session[Basket].all() == (Basket("Bob"), Basket("Ada"))


def test_a_reducer_may_broadcast_what_follows() -> None:
    """It is part of the same change: all of it happens, or nothing does."""
    session = shop_session()

    def sell_at_once(
        slice_values: tuple[str, ...], event: Delivered, /, *, context: SessionReducerContext
    ) -> tuple[str, ...]:
        context.session.broadcast(Sold(event.part, 2))
        return (*slice_values, event.part)

    session[str].register(Delivered, sell_at_once)
    session.broadcast(Delivered("nut", 5))
    assert (session[Stock].latest(), session[str].all()) == (Stock(3), ("nut",))
    session.reset()
    with pytest.raises(ValueError, match="sold out"):
        session.broadcast(Delivered("nut", 1))
    assert (session[Delivered].all(), session[Stock].all(), session[str].all()) == ((), (), ())


def test_a_reducer_can_not_change_its_own_slice_behind_its_back() -> None:
    session = shop_session()

    def twice(slice_values: tuple[str, ...], event: Delivered, /, *, context: SessionReducerContext) -> tuple[str, ...]:
        context.session[str].seed("other")
        return (*slice_values, event.part)

    session[str].register(Delivered, twice)
    with pytest.raises(ReducerError, match="changed this slice through the session") as raised:
        session.broadcast(Delivered("nut"))
    assert raised.value.code == "reducer_overlap"
    assert (session[Delivered].all(), session[str].all()) == ((), ())


def test_the_methods_of_a_frozen_dataclass_are_its_reducers() -> None:
    session = Session()
    session.install(Stock, initial=Stock(10))
    session.broadcast(Sold("nut", 3))
    session.broadcast(Delivered("nut", 1))
    assert session[Stock].all() == (Stock(8),)
    with pytest.raises(ValueError, match="sold out"):
        session.broadcast(Sold("nut", 9))
    assert session[Stock].all() == (Stock(8),)


def test_a_reducer_that_is_registered_again_still_runs_once() -> None:
    session = shop_session()
    session.install(Stock, initial=Stock(100))
    session[Delivered].register(Delivered, append_all)
    session.broadcast(Delivered("nut"))
    assert (session[Stock].all(), session[Delivered].all()) == ((Stock(1),), (Delivered("nut"),))


def test_a_model_notices_what_is_not_one_of_its_fields() -> None:
    session = Session()
    session[ModelBasket].seed(ModelBasket(owner="Ada"))

    def label(values: tuple[Any, ...], event: str, /, *, context: SessionReducerContext) -> tuple[Any, ...]:
        values[0].label = event
        return values

    session[ModelBasket].register(str, label)
    with pytest.raises(ReducerError, match="in place"):
        session.broadcast("mine")
    assert session[ModelBasket].all() == (ModelBasket(owner="Ada"),)


def test_without_an_initial_state_events_wait_for_one() -> None:
    session = Session()
    session.install(Stock)
    session.broadcast(Delivered("nut"))
    assert session[Stock].all() == ()
    session[Stock].seed(Stock(4))
    session.broadcast(Delivered("nut"))
    assert session[Stock].all() == (Stock(5),)


def test_a_subclass_overrides_a_reducer() -> None:
    class Doubled(Stock):
        @reducer(on=Delivered)
        def on_delivered(self, event: Delivered) -> Doubled:
            return Doubled(self.count + 2 * event.count)

    session = Session()
    session.install(Doubled, initial=Doubled)
    session.broadcast(Delivered("nut", 3))
    assert session[Doubled].all() == (Doubled(6),)


def test_a_method_that_returns_something_else_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        @reducer(on=Sold)
        def on_sold(self, event: Sold) -> Sold:
            return event

    session = Session()
    session.install(Odd, initial=Odd)
    with pytest.raises(ReducerError, match="on_sold"):
        session.broadcast(Sold("nut"))


@dataclass(frozen=True)
class Twice:
    @reducer(on=Sold)
    def one(self, event: Sold) -> Twice:
        return self

    @reducer(on=Sold)
    def other(self, event: Sold) -> Twice:
        return self


@dataclass(frozen=True)
class Nothing:
    pass


@pytest.mark.parametrize(
    ("state_type", "why"),
    [
        (Basket, "not a frozen dataclass"),
        (str, "not a frozen dataclass"),
        (Nothing, "no method"),
        (Twice, "two reducers"),
    ],
)
def test_a_value_that_cannot_be_installed(state_type: type[Any], why: str) -> None:
    session = Session()
    with pytest.raises(UsageError, match=why):
        session.install(state_type)
    session.broadcast(Sold("nut"))
    assert session[Sold].all() == (Sold("nut"),)


@pytest.mark.parametrize(("event_type", "given"), [("Sold", append_all), (Sold, None), (Sold, append_all)])
def test_a_value_that_cannot_be_registered(event_type: Any, given: Any) -> None:
    with pytest.raises(UsageError, match="reducer"):
        Session()[Stock].register(event_type, given)


def test_a_function_that_takes_no_event_is_no_reducer() -> None:
    def forgot(slice_values: tuple[Stock, ...], event: Sold) -> tuple[Stock, ...]:
        return slice_values

    with pytest.raises(UsageError, match=r"\(slice_values, event, \*, context\)"):
        Session()[Stock].register(Sold, forgot)  # type: ignore[arg-type]
