"""A session's state as blobs: it comes back, and what was written before is not written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from demiurge.errors import InvalidValue, NotFound
from demiurge.sessions import Session, reducer
from demiurge.sessions.codec import EventCodec
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.invoked import ToolInvoked
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.sessions.checkpoint import Checkpoint, Pieces, invoked_event, read_checkpoint, write_checkpoint


@dataclass(frozen=True)
class Seen:
    number: int


@dataclass(frozen=True)
class Sum:
    total: int = 0

    @reducer(on=Seen)
    def on_seen(self, event: Seen) -> Sum:
        return Sum(self.total + event.number)


@dataclass(frozen=True)
class Note:
    text: str


class Blobs:
    def __init__(self) -> None:
        self.held: dict[Ref, bytes] = {}
        self.codec = EventCodec([Sum, Note])

    def session(self) -> Session:
        session = Session(session_id="s")
        self.codec.prepare(session)
        return session

    def write(self, session: Session, next_seq: int, stored: Pieces) -> Checkpoint:
        made = write_checkpoint(session, self.codec, next_seq, stored)
        self.held |= {ref_of(data): data for data in (*made.blobs, made.data)}
        assert set(made.kept) <= set(self.held)
        return made

    def read(self, data: bytes) -> tuple[Session, int, Pieces]:
        session = self.session()
        found = read_checkpoint(data, self.codec, self.held.__getitem__, session)
        assert found is not None
        return session, *found


def call(number: int, code: str | None = None) -> ToolInvoked:
    return invoked_event(cbor.digest(number), "tool", f"c{number}", number * 1_000_000, "s", code, f"message {number}")


def contents(session: Session) -> dict[type[Any], tuple[Any, ...]]:
    return {kind: history.all() for kind, history in session.snapshot(include_all=True).held.items()}


@given(st.lists(st.lists(st.integers(0, 999), max_size=120), min_size=1, max_size=5))
def test_a_checkpoint_reads_back_after_any_number_of_rounds(rounds: list[list[int]]) -> None:
    blobs = Blobs()
    session = blobs.session()
    pieces: Pieces = {}
    for index, numbers in enumerate(rounds):
        for number in numbers:
            session.broadcast(call(number, "timeout" if number % 3 == 0 else None))
            session.broadcast(Seen(number))
            session.broadcast(Note(str(number)))
        made = blobs.write(session, index, pieces)
        again, next_seq, pieces = blobs.read(made.data)
        assert (contents(again), next_seq) == (contents(session), index)
        session = again if index % 2 else session
        pieces = pieces if index % 2 else made.pieces


def test_a_checkpoint_costs_what_is_new() -> None:
    blobs = Blobs()
    session, sizes = blobs.session(), []
    pieces: Pieces = {}
    for number in range(1000):
        session.broadcast(Note("x" * 100))
        if number % 100 == 99:
            made = blobs.write(session, number, pieces)
            pieces = made.pieces
            sizes.append(sum(map(len, made.blobs)))
    assert max(sizes[1:]) < 2 * min(sizes[1:])


def test_the_log_entry_of_a_call_holds_its_error_code_and_no_values() -> None:
    done, failed, strange = call(1), call(2, "timeout"), call(3, "gave_up")
    assert (done.result.success, done.error_code, done.name, done.call_id) == (True, None, "tool", "c1")
    assert (failed.result.success, failed.error_code) == (False, ToolErrorCode.TIMEOUT)
    assert (strange.result.success, strange.error_code) == (False, ToolErrorCode.EXECUTION)
    assert (done.params, done.result.value, done.rendered_output) == (None, None, "")
    assert len({event.event_id for event in (done, failed, strange)}) == 3
    assert done == call(1)


def test_one_of_other_types_is_passed_over() -> None:
    blobs = Blobs()
    made = blobs.write(blobs.session(), 1, {})
    assert read_checkpoint(made.data, EventCodec([Note]), blobs.held.__getitem__, Session()) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": "other"}'])
def test_a_value_that_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValue):
        read_checkpoint(data, EventCodec(), lambda ref: b"", Session())


def test_a_slice_of_an_unknown_type_can_not_be_written() -> None:
    session = Session()
    session.broadcast(Note("x"))
    with pytest.raises(InvalidValue, match="Note"):
        write_checkpoint(session, EventCodec([Sum]), 1, {})


def test_a_session_is_not_touched_by_a_checkpoint_whose_pieces_are_lost() -> None:
    blobs = Blobs()
    session = blobs.session()
    for number in range(100):
        session.broadcast(Note(str(number)))
    made = blobs.write(session, 1, {})
    assert from_json(made.data)["slices"]

    def lost(ref: Ref) -> bytes:
        raise NotFound("gone")

    empty = blobs.session()
    with pytest.raises(NotFound):
        read_checkpoint(made.data, blobs.codec, lost, empty)
    assert contents(empty) == {}
