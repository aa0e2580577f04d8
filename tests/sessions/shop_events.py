"""A small shop, for the tests of sessions: events, the slices they are folded into, and calls."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from demiurge.sessions import Session, SessionTransaction, append_all, reducer
from demiurge.tools.execution.scope import CallScope, ScopeState, entered, innermost_scope
from demiurge.tools.invoked import ToolInvoked
from demiurge.tools.result import ToolResult


@dataclass(frozen=True)
class Delivered:
    part: str
    count: int = 1


@dataclass(frozen=True)
class Sold:
    part: str
    count: int = 1


@dataclass(frozen=True)
class Stock:
    """How many of all parts there are: at least none."""

    count: int = 0

    @reducer(on=Delivered)
    def on_delivered(self, event: Delivered) -> Stock:
        return replace(self, count=self.count + event.count)

    @reducer(on=Sold)
    def on_sold(self, event: Sold) -> Stock:
        if event.count > self.count:
            raise ValueError("sold out")
        return replace(self, count=self.count - event.count)


def shop_session() -> Session:
    """Deliveries are kept one by one, and in the stock; sales in the stock alone."""
    session = Session()
    session[Delivered].register(Delivered, append_all)
    session.install(Stock, initial=Stock)
    return session


class Call:
    """What a runner does around a handler."""

    def __init__(self, session: Session, parent: CallScope | None = None) -> None:
        self.scope = CallScope(innermost_scope() if parent is None else parent)
        self.transaction: SessionTransaction = session.begin(self.scope)

    @contextmanager
    def running(self) -> Iterator[None]:
        with entered(self.scope):
            yield

    def commit(self) -> None:
        self.scope.state = ScopeState.COMMITTED
        self.transaction.commit()

    def roll_back(self) -> None:
        self.scope.state = ScopeState.ROLLED_BACK
        self.transaction.roll_back()


def tool_invoked(
    number: int, value: Any = None, *, success: bool = True, session_id: UUID | str | None = None
) -> ToolInvoked:
    return ToolInvoked(
        prompt_name="p",
        adapter="a",
        name="t",
        params=None,
        result=ToolResult("said", value, success=success),
        session_id=session_id,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        event_id=UUID(int=number),
    )


def count_lines(call: Callable[[], object]) -> int:
    """How many lines of Python it runs. Without the collector's, which may strike anywhere and has callbacks of other
    tools."""
    lines = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines
