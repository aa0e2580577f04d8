"""Events written and read back, by types that the reader names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from demiurge.errors import Damaged, InvalidValue, UsageError
from demiurge.sessions import Session, reducer
from demiurge.sessions.codec import EventCodec, event_classes

T = TypeVar("T")


@dataclass(frozen=True)
class Sold:
    part: str
    count: int = 1
    price: Decimal | None = None
    notes: tuple[str, ...] = ()


class Invoice(BaseModel):
    sold: list[Sold]
    note: str | None = None


@dataclass
class Box(Generic[T]):
    held: T


@dataclass(frozen=True)
class Total:
    """Has reducers, and a state to begin with."""

    count: int = 0

    @reducer(on=Sold)
    def on_sold(self, event: Sold) -> Total:
        return Total(self.count + event.count)


@dataclass(frozen=True)
class Last:
    """Has reducers, and begins with its first value."""

    part: str

    @reducer(on=Sold)
    def on_sold(self, event: Sold) -> Last:
        return Last(event.part)


@dataclass(frozen=True)
class Custom:
    parts: tuple[str, ...]

    @classmethod
    def fold_into(cls, session: Session) -> None:
        session[cls].register(Sold, lambda values, event, /, *, context: (*values, cls((event.part,))))


def elsewhere(name: str, **fields: Any) -> type[Any]:
    """A dataclass of another module."""
    return dataclasses.make_dataclass(name, list(fields.items()), namespace={"__module__": "elsewhere"}, frozen=True)


codec = EventCodec([list[Sold], Invoice | None, Box[int], Box[str]])


def test_types_are_found_in_unions_lists_and_reducers() -> None:
    assert set(event_classes([Total, list[Invoice] | None, Box[int], Any, None, str])) == {Total, Sold, Invoice, Box}


texts = st.text(st.characters(exclude_categories=["Cs"]))
sold = st.builds(
    Sold,
    texts,
    st.integers(),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False),
    st.lists(texts).map(tuple),
)


@given(sold | st.builds(Invoice, sold=st.lists(sold, max_size=3)) | st.builds(Box, st.integers() | texts))
def test_an_event_comes_back_equal(event: Any) -> None:
    written = codec.encode(event)
    back = codec.decode(written)
    assert (back, type(back)) == (event, type(event))


def test_an_event_type_written_under_main_is_read_by_its_name() -> None:
    written = codec.encode(Sold("bolt"))
    assert written["type"] == f"{__name__}:Sold"
    assert codec.decode({**written, "type": "__main__:Sold"}) == Sold("bolt")


def test_two_types_of_one_name_are_told_apart_by_their_modules() -> None:
    other = elsewhere("Sold", part=str)
    both = EventCodec([Sold, other])
    assert both.decode(both.encode(other("nut"))) == other("nut")
    assert both.decode(both.encode(Sold("nut"))) == Sold("nut")
    assert both.decode({"type": "__main__:Sold", "value": {"part": "nut"}}) is None


def test_two_types_that_nothing_tells_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="elsewhere:Sold"):
        EventCodec([elsewhere("Sold", part=str), elsewhere("Sold", part=int)])


def test_a_type_that_is_not_known_is_not_written_and_passed_over_when_read() -> None:
    with pytest.raises(InvalidValue, match="Total is not a known event type"):
        codec.encode(Total())
    assert codec.decode({"type": "os:system", "value": "ls"}) is None


def test_a_value_that_its_type_does_not_take_is_refused_both_ways() -> None:
    with pytest.raises(InvalidValue, match="Sold holds"):
        codec.encode(Sold("bolt", "many"))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="Sold does not take"):
        codec.decode({"type": f"{__name__}:Sold", "value": {"part": 7}})


@pytest.mark.parametrize("node", [None, [], {}, {"type": 1, "value": 2}, {"type": "Sold"}, {"value": {}}])
def test_a_value_that_is_no_event_is_damage(node: object) -> None:
    with pytest.raises(Damaged):
        codec.decode(node)


def test_a_session_is_given_the_reducers_of_the_types() -> None:
    session = Session()
    EventCodec([Total, Last, Custom]).prepare(session)
    session.broadcast(Sold("bolt", 2))
    session.broadcast(Last("nut"))
    session.broadcast(Sold("bolt", 3))
    assert (session[Total].all(), session[Last].all()) == ((Total(5),), (Last("bolt"),))
    assert session[Custom].all() == (Custom(("bolt",)), Custom(("bolt",)))
    assert session[Sold].all() == ()


def test_reducers_that_no_session_takes_are_refused_at_once() -> None:
    @dataclass
    class Changeable:
        count: int = 0

        @reducer(on=Sold)
        def on_sold(self, event: Sold) -> Changeable:
            return self

    with pytest.raises(UsageError, match="Changeable is not a frozen dataclass"):
        EventCodec([Changeable])


def test_a_digest_tells_other_types_and_other_reducers_apart() -> None:
    assert EventCodec([Total, Sold]).digest == EventCodec([Sold, Total]).digest
    assert len({EventCodec(kinds).digest for kinds in ([Sold], [Total], [Total, Last], [])}) == 4
