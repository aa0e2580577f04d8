"""A snapshot's text brings back what it was made of, or says that it can't, and builds only what the reader named."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.sessions.shop_events import Delivered, Sold, Stock, shop_session, tool_invoked

from demiurge.sessions import Session, SessionSnapshot, SnapshotError, SnapshotRestoreError
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.clock import FixedClock


class Grade(Enum):
    FINE = "fine"
    COARSE = "coarse"


@dataclass(frozen=True, slots=True)
class Step:
    step_id: int
    title: str
    status: Literal["pending", "done"]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Everything:
    steps: tuple[Step, ...]
    grade: Grade
    at: datetime
    who: UUID
    price: Decimal
    tags: frozenset[str]
    sizes: dict[str, list[int]]
    note: str | None = None


class Model(BaseModel):
    count: int
    parts: list[Stock] = []


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
STEPS = st.builds(
    Step,
    st.integers(-(2**70), 2**70),
    TEXTS,
    st.sampled_from(["pending", "done"]),
    st.lists(TEXTS, max_size=2).map(tuple),
)
EVERYTHING = st.builds(
    Everything,
    st.lists(STEPS, max_size=3).map(tuple),
    st.sampled_from(Grade),
    st.datetimes(timezones=st.just(UTC)),
    st.uuids(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.frozensets(TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.lists(st.integers(0, 9), max_size=2), max_size=2),
    st.none() | TEXTS,
)


@given(st.lists(EVERYTHING, max_size=3), st.lists(st.builds(Model, count=st.integers()), max_size=3), TEXTS)
def test_typed_values_come_back(values: list[Everything], models: list[Model], tag: str) -> None:
    session = Session(tags={"run": tag}, clock=FixedClock(1_700_000_000_123_456_789))
    session[Everything].seed(values)
    session[Model].seed(iter(models))
    before = session.snapshot(tag=tag)
    after = SessionSnapshot.from_json(before.to_json(), [Model, Everything, Stock])
    assert (after.session_id, after.taken_at, after.tag, after.tags) == (
        before.session_id,
        before.taken_at,
        tag,
        {"run": tag},
    )
    other = Session()
    other.restore(after)
    assert (other[Everything].all(), other[Model].all()) == (tuple(values), tuple(models))


def test_state_outlives_its_session() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut", 3)))
    text = session.snapshot().to_json()
    later = shop_session()
    later.restore(SessionSnapshot.from_json(text, [Delivered, Stock]))
    later.broadcast(Sold("nut", 2))
    assert (later[Stock].latest(), later[Delivered].all()) == (Stock(1), (Delivered("nut", 3),))


def test_a_snapshot_is_frozen() -> None:
    session = shop_session()
    session.broadcast(Delivered("nut"))
    snapshot = session.snapshot()
    session.broadcast(Delivered("nut"))
    assert (snapshot[Stock], snapshot[str]) == ((Stock(1),), ())
    with pytest.raises(AttributeError):
        snapshot.tag = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.held[Stock] = None  # type: ignore[index]


def test_a_field_with_a_default_may_be_newer_than_the_text() -> None:
    session = Session()
    session[Step].seed(Step(1, "Dig", "done"))
    text = session.snapshot().to_json().replace(',"notes":[]', "")
    assert SessionSnapshot.from_json(text, [Step])[Step] == (Step(1, "Dig", "done"),)


# What can't be written.


@dataclass(frozen=True)
class Loose:
    value: Any = None
    values: list[Any] = field(default_factory=list)


class MoreStock(Stock):
    pass


class Plain:
    pass


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (Stock, MoreStock(1), "holds a MoreStock"),
        (Stock, Stock("many"), "can't be written"),  # type: ignore[arg-type]
        (Plain, Plain(), "can't be written"),
        (Loose, Loose(object()), "can't be written"),
        (Loose, Loose((1, 2)), "would not be read back"),
        (Loose, Loose(Stock(1)), "would not be read back"),
        (float, float("nan"), "can't be written|would not be read back"),
        (str, "\ud800", "can't be written"),
        (ToolInvoked, tool_invoked(1, Stock(1)), "can't be written|would not be read back"),
    ],
)
def test_a_snapshot_refuses_values_that_can_not_be_read_back(kind: type[Any], value: Any, why: str) -> None:
    session = Session()
    session[kind].seed((value,))
    with pytest.raises(SnapshotError, match=why) as raised:
        session.snapshot(include_all=True).to_json()
    assert raised.value.code == "snapshot"


def test_a_snapshot_refuses_a_value_that_contains_itself() -> None:
    loose = Loose()
    loose.values.append(loose.values)
    session = Session()
    session[Loose].seed(loose)
    with pytest.raises(SnapshotError, match="can't be written"):
        session.snapshot().to_json()


# What can't be read.


def text_of_stock() -> str:
    session = Session(session_id="s")
    session[Stock].seed(Stock(1))
    return session.snapshot().to_json()


def test_a_slice_whose_type_the_reader_does_not_name_is_refused() -> None:
    for types in ([], [Delivered]):
        with pytest.raises(SnapshotRestoreError, match=r"tests\.sessions\.shop_events:Stock"):
            SessionSnapshot.from_json(text_of_stock(), types)


@pytest.mark.parametrize(
    "values",
    [
        [{"count": "1"}],
        [{"count": None}],
        [{"count": 1.5}],
        [{"count": 1, "colour": "red"}],
        [7],
        [None],
        [{"count": {}}],
    ],
)
def test_values_that_the_type_does_not_take_are_refused(values: list[Any]) -> None:
    written = json.loads(text_of_stock())
    written["slices"]["tests.sessions.shop_events:Stock"] = values
    with pytest.raises(SnapshotRestoreError, match="Stock does not"):
        SessionSnapshot.from_json(json.dumps(written), [Stock])


def test_a_field_that_is_unknown_deep_inside_is_refused() -> None:
    session = Session()
    session[Model].seed((Model(count=1, parts=[Stock(2)]),))
    text = session.snapshot().to_json()
    assert SessionSnapshot.from_json(text, [Model])[Model] == (Model(count=1, parts=[Stock(2)]),)
    with pytest.raises(SnapshotRestoreError, match="does not have"):
        SessionSnapshot.from_json(text.replace('"count":2', '"count":2,"x":1'), [Model])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "session-snapshot/2"},
        {"more": 1},
        {"slices": []},
        {"slices": {"tests.sessions.shop_events:Stock": {}}},
        {"taken_at": "yesterday"},
        {"tags": {"a": 1}},
        {"tag": 7},
    ],
)
def test_a_value_that_is_no_snapshot_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SnapshotRestoreError, match="not a snapshot"):
        SessionSnapshot.from_json(json.dumps({**json.loads(text_of_stock()), **change}), [Stock])


@pytest.mark.parametrize("text", ["", "7", "null", "{}", "[]", b"\xff", "{" * 10_000])
def test_a_value_that_is_no_text_of_one_is_refused(text: str | bytes) -> None:
    with pytest.raises(SnapshotRestoreError, match="not a snapshot"):
        SessionSnapshot.from_json(text, [Stock])


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    with pytest.raises(SnapshotRestoreError):
        SessionSnapshot.from_json(text, [Stock])
