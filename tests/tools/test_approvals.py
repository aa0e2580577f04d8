"""A decision is used once, and only for what it was made for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.tools import ApprovalRequest, InMemoryApprovals
from demiurge.values.clock import FixedClock

REQUEST = ApprovalRequest("call_1", "tool", "sha256:spec", "sha256:args", "user:1", "sha256:rule")


def decided(request: ApprovalRequest = REQUEST) -> tuple[InMemoryApprovals, str]:
    store = InMemoryApprovals()
    assert store.take(request) is None
    approval_id = store.pending()[0].approval_id
    assert approval_id is not None
    store.approve(approval_id, by="user:2", reason="fine")
    return store, approval_id


@pytest.mark.parametrize(
    "field",
    [
        "tool_call_id",
        "tool_id",
        "spec_hash",
        "args_digest",
        "actor",
        "rule_digest",
        "connection_id",
        "tenant",
        "run_id",
    ],
)
def test_any_change_is_another_question(field: str) -> None:
    store, approval_id = decided()
    changed = replace(REQUEST, **{field: "other"})  # type: ignore[arg-type]
    assert store.take(changed) is None
    assert store.take(replace(changed, approval_id=approval_id)) is None
    taken = store.take(replace(REQUEST, approval_id=approval_id))
    assert taken is not None
    assert (taken.outcome, taken.by, taken.reason) == ("approved", "user:2", "fine")


def test_of_many_takers_one_gets_it() -> None:
    store, _ = decided()
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(store.take, [REQUEST] * 32))
    assert sum(decision is not None for decision in taken) == 1


def test_deciding_twice_or_what_nobody_asked() -> None:
    store, approval_id = decided()
    with pytest.raises(Conflict):
        store.reject(approval_id, by="user:3")
    with pytest.raises(NotFound):
        store.approve("apr_none", by="user:3")
    with pytest.raises(InvalidValue):
        InMemoryApprovals(ttl_ms=0)


def test_asking_again_is_still_one_pending_request() -> None:
    store = InMemoryApprovals()
    store.take(REQUEST)
    store.take(REQUEST)
    assert len(store.pending()) == 1


def test_undecided_approval_requests_are_forgotten_after_their_ttl() -> None:
    clock = FixedClock(0)
    store = InMemoryApprovals(clock, ttl_ms=10)
    for number in range(1_000):
        store.take(replace(REQUEST, tool_call_id=f"call_{number}"))
        clock.advance(1_000_000)
        assert len(store.pending()) <= 11
    approval_id = store.pending()[0].approval_id
    assert approval_id is not None
    clock.advance(11_000_000)
    assert store.pending() == ()
    with pytest.raises(NotFound):
        store.approve(approval_id, by="user:2")


def test_a_decision_nobody_takes_is_void_and_then_forgotten() -> None:
    clock = FixedClock(0)
    store = InMemoryApprovals(clock, ttl_ms=10)
    for passed_ms, outcome in ((9, "approved"), (10, "expired"), (20, "expired"), (21, None)):
        store.take(REQUEST)
        approval_id = store.pending()[0].approval_id
        assert approval_id is not None
        store.approve(approval_id, by="user:2")
        clock.advance(passed_ms * 1_000_000)
        taken = store.take(REQUEST)
        assert (taken.outcome if taken is not None else None) == outcome
