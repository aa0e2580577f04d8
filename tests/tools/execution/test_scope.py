"""Whose change is it, and may it still be made?"""

from __future__ import annotations

import asyncio
import threading

import pytest

from demiurge.errors import Conflict
from demiurge.tools.execution.scope import CallScope, ScopeState, current_scope, entered, innermost_scope


def test_outside_of_calls_a_change_is_nobodys() -> None:
    assert current_scope() is None
    assert innermost_scope() is None


def test_a_change_belongs_to_the_innermost_open_call() -> None:
    outer = CallScope()
    with entered(outer):
        inner = CallScope(innermost_scope())
        assert inner.parent is outer
        with entered(inner):
            assert current_scope() is inner
            inner.state = ScopeState.COMMITTED
            assert current_scope() is outer
        outer.state = ScopeState.COMMITTED
        assert current_scope() is None
    assert current_scope() is None


@pytest.mark.parametrize("which", ["inner", "outer"])
def test_in_what_is_left_of_a_call_nothing_can_be_changed(which: str) -> None:
    outer = CallScope()
    inner = CallScope(outer)
    with entered(inner):
        {"inner": inner, "outer": outer}[which].state = ScopeState.ROLLED_BACK
        with pytest.raises(Conflict) as refused:
            current_scope()
        assert refused.value.code == "call_over"


def test_a_scope_is_within_itself_and_what_is_around_it() -> None:
    outer = CallScope()
    inner, other = CallScope(outer), CallScope()
    assert inner.within(inner)
    assert inner.within(outer)
    assert not outer.within(inner)
    assert not inner.within(other)


def test_a_new_call_is_made_in_the_innermost_one_that_is_not_committed() -> None:
    """However many calls have each begun the next one: those that are over are held by nobody."""
    outer = CallScope()
    scope = outer
    for _ in range(50):
        with entered(scope):
            following = CallScope(innermost_scope())
        if scope is not outer:
            scope.state = ScopeState.COMMITTED
        scope = following
    with entered(scope):
        assert innermost_scope() is scope
        assert scope.parent is outer
        outer.state = ScopeState.ROLLED_BACK
        with pytest.raises(Conflict):
            current_scope()
    scope.state = ScopeState.COMMITTED
    with entered(scope):
        assert innermost_scope() is outer


async def test_tasks_and_threads_take_it_along() -> None:
    scope = CallScope()
    with entered(scope):
        assert await asyncio.create_task(_here()) is scope
        assert await asyncio.to_thread(current_scope) is scope
    assert await _here() is None


async def _here() -> CallScope | None:
    return current_scope()


def test_a_bare_thread_has_none() -> None:
    seen: list[CallScope | None] = []
    with entered(CallScope()):
        thread = threading.Thread(target=lambda: seen.append(current_scope()))
        thread.start()
        thread.join()
    assert seen == [None]
