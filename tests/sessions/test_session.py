"""A session: what it holds, whom it listens to, and to whom it belongs."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from tests.sessions.shop_events import Call, Delivered, Sold, Stock, shop_session, tool_invoked

from demiurge.errors import DemiurgeError, InvalidValue, UsageError
from demiurge.sessions import (
    InProcessEventBus,
    Session,
    SlicePolicy,
    SnapshotRestoreError,
    replace_latest,
)
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.clock import FixedClock, SeededEntropy


def test_a_session_has_an_id_a_creation_time_and_tags() -> None:
    clock, entropy = FixedClock(1_000_000_000), SeededEntropy(1)
    session = Session(clock=clock, entropy=entropy, tags={"run": "7"})
    assert session.created_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert session.session_id == Session(entropy=SeededEntropy(1)).session_id != Session().session_id
    assert session.tags == {"run": "7"}
    named = Session(session_id="chat-7", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert (named.session_id, named.created_at.year, named.tags, named.parent) == ("chat-7", 2026, {}, None)


def test_a_session_copies_its_tags_and_they_are_read_only() -> None:
    tags = {"run": "7"}
    session = Session(tags=tags)
    tags["run"] = "8"
    assert session.tags == {"run": "7"}
    with pytest.raises(TypeError):
        session.tags["run"] = "9"  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"created_at": datetime(2026, 1, 1)}, "created_at"),  # noqa: DTZ001
        ({"created_at": 7}, "created_at"),
        ({"tags": {"a": 1}}, "tags"),
    ],
)
def test_a_session_with_invalid_options_is_refused(given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        Session(**given)
    assert raised.value.path == path


def test_an_event_that_nobody_registered_is_appended_to_its_slice() -> None:
    session = Session()
    session.broadcast(Sold("nut"))
    session[Sold].append(Sold("bolt"))
    assert session[Sold].all() == (Sold("nut"), Sold("bolt"))
    assert session[Sold].latest() == Sold("bolt")
    assert session[Sold].where(lambda sale: sale.part == "nut") == (Sold("nut"),)
    assert (session[Stock].all(), session[Stock].latest()) == ((), None)


def test_append_is_a_broadcast() -> None:
    session = shop_session()
    session[Delivered].append(Delivered("nut", 3))
    assert session[Stock].latest() == Stock(3)


def test_a_slice_is_seeded_and_cleared() -> None:
    session = Session()
    words = session[str]
    words.seed("ab")
    assert words.all() == ("ab",)
    words.seed(letter for letter in "abc")
    assert words.all() == ("a", "b", "c")
    words.clear(lambda letter: letter > "b")
    assert words.all() == ("a", "b")
    words.clear()
    assert words.all() == ()
    words.seed([])
    assert words.all() == ()


def test_a_predicate_that_fails_changes_nothing() -> None:
    session = Session()
    session[str].seed(("ab", "c"))
    with pytest.raises(IndexError):
        session[str].clear(lambda word: word[1] == "b")
    assert session[str].all() == ("ab", "c")


@pytest.mark.parametrize("values", [7, None, Stock(1), [Sold("nut"), Stock(1)], {"a": 1}, Sold])
def test_a_slice_refuses_values_of_another_type(values: Any) -> None:
    session = Session()
    with pytest.raises(InvalidValue, match="slice Sold can't hold"):
        session[Sold].seed(values)
    assert session[Sold].all() == ()


def test_only_what_has_exactly_the_type_is_appended() -> None:
    class Returned(Sold):
        pass

    session = Session()
    for value in (Returned("nut"), Stock(1), None):
        with pytest.raises(InvalidValue, match="Only a Sold"):
            session[Sold].append(value)  # type: ignore[arg-type]
    session[Sold].seed(Returned("nut"))
    assert session[Sold].all() == (Returned("nut"),)


@pytest.mark.parametrize("event", [None, Sold, int])
def test_a_value_that_is_no_event(event: Any) -> None:
    with pytest.raises(InvalidValue, match="An event"):
        Session().broadcast(event)


@pytest.mark.parametrize("name", ["Plan", None, list[int], Stock(1)])
def test_a_slice_is_named_by_a_class(name: Any) -> None:
    for use in (lambda: Session()[name], lambda: Session().install(name), lambda: Session().observe(name, print)):
        with pytest.raises(UsageError, match="found by its class"):
            use()


def test_a_policy_is_for_good() -> None:
    session = Session()
    session[str].register(str, replace_latest, policy=SlicePolicy.LOG)
    session[str].register(Sold, lambda values, event, /, *, context: values)
    session[str].register(bytes, lambda values, event, /, *, context: values, policy=SlicePolicy.LOG)
    for kind in (str, ToolInvoked):
        with pytest.raises(UsageError, match="other policy"):
            session[kind].register(kind, replace_latest, policy=SlicePolicy.STATE)
    word: Any = "log"
    with pytest.raises(UsageError, match="SlicePolicy"):
        session[Sold].register(Sold, replace_latest, policy=word)


def test_a_slice_is_shown_without_its_values() -> None:
    session = Session()
    session[str].seed(["secret", "secret"])
    assert repr(session[str]) == "<slice str: 2 values>"


def test_reset_empties_all_and_keeps_the_reducers() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut")))
    session.reset()
    assert (session[Stock].all(), session[ToolInvoked].all()) == ((), ())
    session.broadcast(Delivered("nut", 2))
    assert session[Stock].latest() == Stock(2)


# The event of a call.


class Weight(BaseModel):
    grams: int


@pytest.mark.parametrize("value", [Sold("nut"), Weight(grams=3)])
def test_a_successful_call_is_logged_and_its_value_is_an_event(value: Any) -> None:
    session = Session()
    result = session.event_bus.publish(tool_invoked(1, value))
    assert (result.ok, result.handled_count) == (True, 1)
    assert session[ToolInvoked].all() == (tool_invoked(1, value),)
    assert session[type(value)].all() == (value,)


def test_the_value_of_a_failed_call_reaches_no_slice() -> None:
    session = Session()
    session.event_bus.publish(tool_invoked(1, Sold("nut"), success=False))
    assert session[ToolInvoked].all() == (tool_invoked(1, Sold("nut"), success=False),)
    assert session[Sold].all() == ()


@pytest.mark.parametrize("value", [None, "text", 7, [Sold("nut")], {"part": "nut"}, Sold])
def test_a_value_that_is_no_record_reaches_no_slice(value: Any) -> None:
    session = Session()
    assert session.event_bus.publish(tool_invoked(1, value)).ok
    assert session[type(value)].all() == ()
    assert len(session[ToolInvoked].all()) == 1


def test_sessions_on_one_bus_take_their_own_calls_and_those_of_nobody() -> None:
    bus = InProcessEventBus()
    identity = UUID(int=5)
    one, other = Session(bus=bus, session_id=identity), Session(bus=bus, session_id="other")
    bus.publish(tool_invoked(1, session_id=identity))
    bus.publish(tool_invoked(2, session_id=str(identity)))
    bus.publish(tool_invoked(3, session_id="other"))
    bus.publish(tool_invoked(4))
    assert [event.event_id.int for event in one[ToolInvoked].all()] == [1, 2, 4]
    assert [event.event_id.int for event in other[ToolInvoked].all()] == [3, 4]


def test_a_reducer_that_raises_is_an_error_of_the_publication_and_leaves_all_as_it_was() -> None:
    session = shop_session()
    result = session.event_bus.publish(tool_invoked(1, Sold("nut")))
    assert [str(failure.error) for failure in result.errors] == ["sold out"]
    assert (session[ToolInvoked].all(), session[Stock].all()) == ((), ())


def test_a_reducer_of_tool_calls_sees_each_call() -> None:
    session = Session()
    session[Stock].register(ToolInvoked, lambda values, event, /, *, context: (Stock(len(values) + 1),))
    session[ToolInvoked].register(ToolInvoked, replace_latest)
    call = Call(session)
    with call.running():
        session.event_bus.publish(tool_invoked(1))
        session.event_bus.publish(tool_invoked(2))
    assert call.transaction.events == (tool_invoked(1), tool_invoked(2))
    assert (session[ToolInvoked].all(), session[Stock].latest()) == ((tool_invoked(2),), Stock(2))


def test_the_log_is_corrected_in_place() -> None:
    session = Session()
    for number in range(1, 101):
        session.event_bus.publish(tool_invoked(number))
    call = Call(session)
    with call.running():
        session.correct(tool_invoked(50, success=False))
    call.roll_back()
    log = session[ToolInvoked].all()
    assert [event.event_id.int for event in log] == [*range(1, 101)]
    assert [event.event_id.int for event in log if not event.result.success] == [50]


def test_a_call_that_the_log_missed_comes_last_and_its_value_is_not_folded() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1))
    session.correct(tool_invoked(2, Delivered("nut")))
    assert [event.event_id.int for event in session[ToolInvoked].all()] == [1, 2]
    assert session[Stock].all() == ()


# Families.


def test_a_parent_knows_its_children_and_does_not_keep_them() -> None:
    parent = Session()
    children = [Session(parent=parent) for _ in range(3)]
    assert parent.children == tuple(children)
    assert all(child.parent is parent for child in children)
    del children[1]
    gc.collect()
    assert parent.children == tuple(children)


def test_a_bus_does_not_keep_its_sessions() -> None:
    bus = InProcessEventBus()
    gone = weakref.ref(Session(bus=bus))
    gc.collect()
    assert gone() is None
    assert bus.publish(tool_invoked(1)).ok
    assert bus.publish(tool_invoked(2)).handled_count == 0


def test_a_slice_keeps_its_session() -> None:
    words = Session()[str]
    gc.collect()
    words.seed("still here")
    assert words.all() == ("still here",)


def test_a_clone_goes_its_own_way() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut", 2)))
    told: list[Any] = []
    session.observe(Stock, lambda old, new: told.append(new))
    parent = Session()
    twin = session.clone(parent=parent, tags={"copy": "yes"})
    assert (twin.parent, parent.children, twin.tags) == (parent, (twin,), {"copy": "yes"})
    assert twin.session_id != session.session_id
    twin.event_bus.publish(tool_invoked(2, Delivered("bolt", 5)))
    session.broadcast(Sold("nut"))
    assert (twin[Stock].latest(), session[Stock].latest()) == (Stock(7), Stock(1))
    assert (len(twin[ToolInvoked].all()), len(session[ToolInvoked].all())) == (2, 1)
    assert told == [(Stock(1),)]
    with pytest.raises(UsageError, match="other policy"):
        twin[ToolInvoked].register(ToolInvoked, replace_latest, policy=SlicePolicy.STATE)


def test_a_clone_of_a_session_in_a_call_is_not_in_the_call() -> None:
    session = shop_session()
    call = Call(session)
    with call.running():
        session.broadcast(Delivered("nut"))
        twin = session.clone(session_id="twin", bus=session.event_bus)
    call.roll_back()
    assert (session[Stock].all(), twin[Stock].all()) == ((), (Stock(1),))
    assert twin.event_bus is session.event_bus


# Snapshots in one process; as text, in test_snapshot.py.


def test_a_restored_session_is_as_it_was_but_for_its_logs() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut")))
    snapshot = session.snapshot(tag="before")
    session.event_bus.publish(tool_invoked(2, Delivered("bolt")))
    session[str].seed("new")
    session.restore(snapshot)
    assert (session[Delivered].all(), session[Stock].all(), session[str].all()) == (
        (Delivered("nut"),),
        (Stock(1),),
        (),
    )
    assert session[ToolInvoked].all() == (tool_invoked(1, Delivered("nut")), tool_invoked(2, Delivered("bolt")))
    assert (snapshot.tag, snapshot.session_id, snapshot[Stock]) == ("before", session.session_id, (Stock(1),))


def test_a_snapshot_holds_the_slices_of_the_chosen_policies() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut")))

    def held(**given: Any) -> tuple[int, int]:
        snapshot = session.snapshot(**given)
        return len(snapshot[Stock]), len(snapshot[ToolInvoked])

    assert held() == held(policies=[SlicePolicy.STATE]) == (1, 0)
    assert held(policies={SlicePolicy.LOG}) == (0, 1)
    assert held(policies=SlicePolicy) == held(include_all=True) == held(policies=(), include_all=True) == (1, 1)
    assert held(policies=()) == (0, 0)
    with pytest.raises(ValueError, match="SlicePolicy"):
        held(policies=["log of sales"])


def test_logs_are_restored_when_asked_for() -> None:
    session = shop_session()
    session.event_bus.publish(tool_invoked(1, Delivered("nut")))
    snapshot = session.snapshot(include_all=True)
    session.event_bus.publish(tool_invoked(2))
    session.restore(snapshot, preserve_logs=False)
    assert session[ToolInvoked].all() == (tool_invoked(1, Delivered("nut")),)
    session.restore(Session().snapshot(), preserve_logs=False)
    assert session[ToolInvoked].all() == ()


def test_a_snapshot_can_be_restored_again_and_elsewhere() -> None:
    session = shop_session()
    session.broadcast(Delivered("nut"))
    snapshot = session.snapshot()
    other = shop_session()
    for target in (session, other, session):
        target.broadcast(Delivered("nut"))
        target.restore(snapshot)
        assert target[Stock].all() == (Stock(1),)


@pytest.mark.parametrize("given", [None, {}, "{}", Session()])
def test_only_a_snapshot_can_be_restored(given: Any) -> None:
    with pytest.raises(SnapshotRestoreError) as raised:
        Session().restore(given)
    assert isinstance(raised.value, DemiurgeError)
