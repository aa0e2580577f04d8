"""Any order of calls, ends of calls and changes, against a model that folds what was not taken back from the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.sessions.shop_events import Call, Delivered, Sold, Stock, shop_session

from demiurge.errors import Conflict
from demiurge.sessions import Session, SessionReducerContext, SlicePolicy, replace_latest, upsert_by
from demiurge.tools.execution.scope import CallScope, entered

PARTS = st.sampled_from(["nut", "bolt", "cog"])


@dataclass(frozen=True)
class Price:
    part: str
    cents: int


def log_parts(values: tuple[bytes, ...], event: Any, /, *, context: SessionReducerContext) -> tuple[bytes, ...]:
    return (*values, event.part.encode())


def several_slices() -> Session:
    session = shop_session()
    session[Price].register(Price, upsert_by(lambda price: price.part))
    session[Sold].register(Sold, replace_latest)
    session[bytes].register(Delivered, log_parts, policy=SlicePolicy.LOG)
    session[bytes].register(Sold, log_parts)
    return session


def state_of(session: Session) -> tuple[tuple[Any, ...], ...]:
    kinds: tuple[type[Any], ...] = (Delivered, Stock, Price, Sold, str)
    return tuple(session[kind].all() for kind in kinds)


Work = Callable[[Session], object]


class OverlappingCalls(RuleBasedStateMachine):
    """`done`: every change that was not taken back, with the call that it belongs to. `log`: what the log has."""

    def __init__(self) -> None:
        super().__init__()
        self.session = several_slices()
        self.open: list[Call] = []
        self.over: list[Call] = []
        self.done: list[tuple[CallScope | None, object, Work]] = []
        self.log: list[bytes] = []

    def change(self, who: int, event: object, work: Work) -> None:
        calls: list[Call | None] = [None, *self.open, *self.over]
        call = calls[who % len(calls)]
        if call is None:
            self.try_to(None, event, work)
            return
        with entered(call.scope):
            scope: CallScope | None = call.scope
            above = []
            while scope is not None:
                above.append(scope)
                scope = scope.parent
            if any(scope.state.value == "rolled_back" for scope in above):
                with pytest.raises(Conflict):
                    work(self.session)
            else:
                owner = next((scope for scope in above if scope.state.value == "open"), None)
                self.try_to(owner, event, work)

    def try_to(self, owner: CallScope | None, event: object, work: Work) -> None:
        model = self.folded()
        try:
            work(model)
        except ValueError:
            with pytest.raises(ValueError, match="sold out"):
                work(self.session)
            return
        work(self.session)
        self.done.append((owner, event, work))
        if isinstance(event, Delivered | Sold):
            self.log.append(event.part.encode())

    def folded(self) -> Session:
        """And forgets what can't be done any more."""
        model = several_slices()
        kept = []
        for entry in self.done:
            try:
                entry[2](model)
            except ValueError:
                continue
            kept.append(entry)
        self.done = kept
        return model

    @rule(within=st.none() | st.integers(0, 9))
    def begin(self, within: int | None) -> None:
        parent = self.open[within % len(self.open)] if within is not None and self.open else None
        self.open.append(Call(self.session, parent.scope if parent else None))

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 9), keep=st.booleans())
    def end(self, which: int, keep: bool) -> None:
        call = self.open.pop(which % len(self.open))
        self.over.append(call)
        events = tuple(self.events(call))
        if keep:
            call.commit()
            assert call.transaction.events == events
        else:
            self.done = [entry for entry in self.done if entry[0] is None or not entry[0].within(call.scope)]
            call.roll_back()
            assert call.transaction.events == ()

    @rule(who=st.integers(0, 9), part=PARTS, count=st.integers(1, 3))
    def deliver(self, who: int, part: str, count: int) -> None:
        event = Delivered(part, count)
        self.change(who, event, lambda session: session.broadcast(event))

    @rule(who=st.integers(0, 9), part=PARTS, count=st.integers(1, 3))
    def sell(self, who: int, part: str, count: int) -> None:
        event = Sold(part, count)
        self.change(who, event, lambda session: session[Sold].append(event))

    @rule(who=st.integers(0, 9), part=PARTS, cents=st.integers(1, 3))
    def price(self, who: int, part: str, cents: int) -> None:
        event = Price(part, cents)
        self.change(who, event, lambda session: session.broadcast(event))

    @rule(who=st.integers(0, 9), word=PARTS)
    def note(self, who: int, word: str) -> None:
        self.change(who, word, lambda session: session.broadcast(word))

    @rule(who=st.integers(0, 9), count=st.integers(0, 9))
    def seed(self, who: int, count: int) -> None:
        self.change(who, None, lambda session: session[Stock].seed(Stock(count)))

    @rule(who=st.integers(0, 9), part=PARTS)
    def clear(self, who: int, part: str) -> None:
        self.change(who, None, lambda session: session[Delivered].clear(lambda event: event.part == part))

    @rule(who=st.integers(0, 9))
    def restore(self, who: int) -> None:
        snapshot = self.session.snapshot()
        self.change(who, None, lambda session: session.restore(snapshot))

    def events(self, call: Call) -> list[object]:
        return [
            event
            for scope, event, _ in self.done
            if event is not None and scope is not None and scope.within(call.scope)
        ]

    @invariant()
    def the_state_is_that_of_the_model(self) -> None:
        assert state_of(self.session) == state_of(self.folded())
        assert self.session[bytes].all() == tuple(self.log)
        for call in self.open:
            assert list(call.transaction.events) == self.events(call)


OverlappingCalls.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_any_order_of_calls_and_changes = OverlappingCalls.TestCase
