"""What every ledger does, in memory and in SQLite: one suite for both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from demiurge import SqliteEffectLedger
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.tools import EffectLedger, LedgerSlot, ToolResult, compute_params_hash, partition_of
from demiurge.tools.ledger.ledger import Claim
from demiurge.tools.ledger.store import EntryState, LedgerRow
from demiurge.values.clock import FixedClock

START_NS = 1_800_000_000 * 10**9
SECOND = 10**9
KEY = "session:create_order:abc"
SLOT = LedgerSlot("", "create_order", KEY)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START_NS)


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path, clock: FixedClock) -> Iterator[EffectLedger]:
    if request.param == "memory":
        yield EffectLedger(clock=clock)
        return
    with SqliteEffectLedger(tmp_path / "ledger.db", clock=clock) as made:
        yield made


@dataclass(frozen=True)
class Receipt:
    order_id: str
    lines: tuple[int, ...] = (1, 2)


def record(ledger: EffectLedger, key: str = KEY, tool_name: str = "create_order", **options: Any) -> Any:
    options.setdefault("result", ToolResult("ordered", Receipt("o")))
    return ledger.record(idempotency_key=key, tool_name=tool_name, params={"order_id": "o"}, **options)


def take(ledger: EffectLedger, clock: FixedClock, slot: LedgerSlot = SLOT, **options: Any) -> LedgerRow:
    got = claim(ledger, clock, slot, **options)
    assert got.claimed is not None
    return got.claimed


def claim(ledger: EffectLedger, clock: FixedClock, slot: LedgerSlot = SLOT, **options: Any) -> Claim:
    options.setdefault("ttl_ns", 10 * SECOND)
    return ledger.claim(slot, params_hash="h", now_ns=clock.now_ns(), **options)


def row_in_the_way(ledger: EffectLedger, clock: FixedClock, slot: LedgerSlot = SLOT, **options: Any) -> LedgerRow:
    """What is in the way of a claim."""
    got = claim(ledger, clock, slot, **options)
    assert got.claimed is None
    assert got.found is not None
    return got.found


def settle(ledger: EffectLedger, row: LedgerRow, clock: FixedClock, ttl_ns: int | None = 10 * SECOND) -> None:
    ledger.settle(row, message="done", value=b'{"n":1}', excluded=True, ttl_ns=ttl_ns, now_ns=clock.now_ns())


# The seed's operations


def test_lookup_returns_all_fields_of_a_recorded_entry(ledger: EffectLedger) -> None:
    entry = record(ledger)
    assert ledger.lookup(KEY) == entry
    assert asdict(entry) == {
        "idempotency_key": KEY,
        "tool_name": "create_order",
        "params_hash": compute_params_hash({"order_id": "o"}),
        "result_message": "ordered",
        "result_value": {"order_id": "o", "lines": [1, 2]},
        "result_success": True,
        "created_at": datetime.fromtimestamp(START_NS // SECOND, UTC),
        "expires_at": datetime.fromtimestamp(START_NS // SECOND, UTC) + timedelta(hours=24),
        "effect_id": entry.effect_id,
        "exclude_value_from_context": False,
    }
    assert isinstance(entry.effect_id, UUID)
    assert entry.effect_id != record(ledger).effect_id
    assert ledger.lookup("other") is None


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (3, 3),
    (2.5, 2.5),
    ("text", "text"),
    (True, True),
    ([1, [2]], [1, [2]]),
    ({"a": {"b": None}}, {"a": {"b": None}}),
    ((1, "x"), [1, "x"]),
    (Receipt("o", ()), {"order_id": "o", "lines": []}),
]


@pytest.mark.parametrize(("value", "kept"), VALUES)
def test_any_value_that_is_json_is_kept(ledger: EffectLedger, value: Any, kept: Any) -> None:
    entry = record(ledger, result=ToolResult("m", value))
    assert entry.result_value == kept
    assert ledger.lookup(KEY) == entry


def test_a_failure_and_a_hidden_value_are_kept_as_they_are(ledger: EffectLedger) -> None:
    entry = record(ledger, result=ToolResult("no", None, success=False, exclude_value_from_context=True))
    assert (entry.result_success, entry.exclude_value_from_context, entry.result_value) == (False, True, None)
    assert ledger.lookup(KEY) == entry


def test_nobody_can_change_the_ledger_through_what_it_gives(ledger: EffectLedger) -> None:
    mine: dict[str, Any] = {"items": [1]}
    entry = record(ledger, result=ToolResult("m", mine))
    mine["items"].append(2)
    entry.result_value["items"].append(3)
    found = ledger.lookup(KEY)
    assert found is not None
    found.result_value.clear()
    assert ledger.lookup(KEY).result_value == {"items": [1]}  # type: ignore[union-attr]
    with pytest.raises(FrozenInstanceError):
        found.tool_name = "other"  # type: ignore[misc]


def test_an_entry_counts_until_it_expires_and_not_a_moment_longer(ledger: EffectLedger, clock: FixedClock) -> None:
    entry = record(ledger, ttl=timedelta(seconds=5))
    clock.advance(5 * SECOND - 1)
    assert ledger.lookup(KEY) == entry
    assert (KEY in ledger, len(ledger)) == (True, 1)
    clock.advance(1)
    assert (KEY in ledger, len(ledger)) == (False, 0)
    assert ledger.lookup(KEY) is None
    assert ledger.prune_expired() == 0, "looking it up has removed it"


def test_an_entry_without_a_ttl_never_expires(ledger: EffectLedger, clock: FixedClock) -> None:
    assert record(ledger, ttl=None).expires_at is None
    clock.advance(10**9 * SECOND)
    assert KEY in ledger
    assert ledger.prune_expired() == 0


def test_the_time_may_be_given(ledger: EffectLedger) -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    entry = record(ledger, ttl=timedelta(hours=1), now=noon)
    assert (entry.created_at, entry.expires_at) == (noon, noon + timedelta(hours=1))
    assert (entry.is_expired(noon), entry.is_expired(noon + timedelta(hours=1))) == (False, True)
    assert ledger.lookup(KEY, now=noon + timedelta(minutes=59)) == entry
    assert ledger.prune_expired(noon) == 0
    assert ledger.prune_expired(noon + timedelta(hours=1)) == 1
    with pytest.raises(InvalidValue, match="time zone"):
        ledger.lookup(KEY, now=datetime(2026, 6, 1))  # noqa: DTZ001


@pytest.mark.parametrize("ttl", [timedelta(), timedelta(seconds=-1), 60])
def test_a_ttl_that_can_not_be_is_refused(ledger: EffectLedger, ttl: Any) -> None:
    with pytest.raises(InvalidValue, match="ttl"):
        record(ledger, ttl=ttl)
    assert len(ledger) == 0


def test_a_value_that_is_no_json_is_refused(ledger: EffectLedger) -> None:
    with pytest.raises(InvalidValue):
        record(ledger, result=ToolResult("m", float("nan")))
    with pytest.raises(InvalidValue):
        record(ledger, result=ToolResult("m", threading.Lock()))
    with pytest.raises(InvalidValue):
        record(ledger, "")
    assert len(ledger) == 0


def test_invalidating_removes_one_entry_of_the_default_partition(ledger: EffectLedger, clock: FixedClock) -> None:
    record(ledger, "one")
    record(ledger, "two")
    elsewhere = LedgerSlot(partition_of(tenant="t"), "create_order", "one")
    settle(ledger, take(ledger, clock, elsewhere), clock)
    assert (ledger.invalidate("one"), ledger.invalidate("one")) == (True, False)
    assert ("one" in ledger, "two" in ledger, elsewhere in ledger) == (False, True, True)
    assert ledger.invalidate(elsewhere)
    assert elsewhere not in ledger


def test_an_entry_that_has_expired_was_not_there_to_invalidate(ledger: EffectLedger, clock: FixedClock) -> None:
    record(ledger, ttl=timedelta(seconds=1))
    clock.advance(SECOND)
    assert not ledger.invalidate(KEY)


def test_a_tool_and_all_can_be_forgotten(ledger: EffectLedger, clock: FixedClock) -> None:
    for number in range(3):
        record(ledger, f"a{number}", "a")
        record(ledger, f"b{number}", "b")
    settle(ledger, take(ledger, clock, LedgerSlot(partition_of(session="s"), "a", "k")), clock)
    ledger.doubt(take(ledger, clock, LedgerSlot("", "a", "in doubt")))
    record(ledger, "old", "a", ttl=timedelta(microseconds=1), now=datetime(2026, 1, 1, tzinfo=UTC))
    assert (ledger.invalidate_by_tool("a"), ledger.invalidate_by_tool("none")) == (5, 0)
    assert len(ledger) == 3
    assert (ledger.clear(), len(ledger), ledger.clear()) == (3, 0, 0)


def test_only_keys_are_in_a_ledger(ledger: EffectLedger) -> None:
    record(ledger)
    assert 3 not in ledger
    assert LedgerSlot("", "other", KEY) not in ledger
    assert bool(ledger)


# Claims


def test_a_claim_is_given_once_and_ends_as_done(ledger: EffectLedger, clock: FixedClock) -> None:
    assert ledger.find(SLOT, START_NS) is None
    mine = take(ledger, clock)
    blocked = row_in_the_way(ledger, clock), row_in_the_way(ledger, clock, even_in_doubt=True)
    for found in (ledger.find(SLOT, START_NS), *blocked):
        assert found is not None
        assert (found.state, found.effect_id) == (EntryState.CLAIMED, mine.effect_id)
    assert (len(ledger), KEY in ledger, ledger.lookup(KEY)) == (0, False, None)
    clock.advance(SECOND)
    settle(ledger, mine, clock)
    there = row_in_the_way(ledger, clock)
    assert (there.state, there.value, there.excluded) == (EntryState.DONE, b'{"n":1}', True)
    entry = ledger.lookup(KEY)
    assert entry is not None
    assert (entry.result_message, entry.result_value, entry.exclude_value_from_context) == ("done", {"n": 1}, True)
    assert entry.effect_id == UUID(bytes=mine.effect_id, version=4)
    assert entry.created_at == datetime.fromtimestamp(START_NS // SECOND + 1, UTC)


def test_a_released_claim_leaves_nothing(ledger: EffectLedger, clock: FixedClock) -> None:
    ledger.release(take(ledger, clock))
    assert ledger.find(SLOT, START_NS) is None
    assert take(ledger, clock)


def test_a_doubt_is_taken_over_only_by_who_may(ledger: EffectLedger, clock: FixedClock) -> None:
    first = take(ledger, clock)
    ledger.doubt(first)
    assert ledger.in_doubt() == (SLOT,)
    assert (ledger.lookup(KEY), len(ledger)) == (None, 0)
    assert row_in_the_way(ledger, clock).state is EntryState.IN_DOUBT
    clock.advance(SECOND)
    over = claim(ledger, clock, even_in_doubt=True)
    assert over.found is not None
    assert over.claimed is not None
    assert over.found.state is EntryState.IN_DOUBT
    assert (over.claimed.created_ns, over.claimed.expires_ns) == (first.created_ns, first.expires_ns), (
        "it is no younger"
    )
    assert ledger.in_doubt() == ()
    ledger.doubt(over.claimed)
    assert ledger.in_doubt() == (SLOT,)
    assert ledger.invalidate(KEY)
    assert ledger.in_doubt() == ()


def test_a_doubt_ends_with_the_ttl_that_counts_from_the_claim(ledger: EffectLedger, clock: FixedClock) -> None:
    mine = take(ledger, clock)
    clock.advance(9 * SECOND)
    ledger.doubt(mine)
    assert claim(ledger, clock).claimed is None
    clock.advance(SECOND)
    assert ledger.in_doubt() == ()
    got = claim(ledger, clock)
    assert got.claimed is not None
    assert got.found is None


def test_a_call_that_runs_keeps_its_claim_whatever_happens_meanwhile(ledger: EffectLedger, clock: FixedClock) -> None:
    mine = take(ledger, clock)
    clock.advance(1000 * SECOND)
    assert (ledger.prune_expired(), ledger.invalidate(KEY), ledger.clear()) == (0, False, 0)
    assert ledger.invalidate_by_tool("create_order") == 0
    assert claim(ledger, clock).claimed is None
    settle(ledger, mine, clock)
    assert KEY in ledger


def test_a_claim_ends_once(ledger: EffectLedger, clock: FixedClock) -> None:
    mine = take(ledger, clock)
    settle(ledger, mine, clock)
    ledger.release(mine)
    ledger.doubt(mine)
    assert KEY in ledger
    again = take(ledger, clock, LedgerSlot("", "create_order", "again"))
    ledger.release(again)
    other = take(ledger, clock, again.slot)
    ledger.release(again)
    ledger.doubt(again)
    assert row_in_the_way(ledger, clock, again.slot).effect_id == other.effect_id


def test_a_late_settlement_does_not_replace_a_newer_entry(ledger: EffectLedger, clock: FixedClock) -> None:
    late = take(ledger, clock)
    ledger.doubt(late)
    settle(ledger, late, clock, ttl_ns=100 * SECOND)
    assert KEY in ledger, "it was the doubt's own call"
    clock.advance(50 * SECOND)
    assert (ledger.prune_expired(), KEY in ledger) == (0, True), "and no longer ends with the doubt"
    ledger.invalidate(KEY)
    late = take(ledger, clock)
    entry = record(ledger)
    settle(ledger, late, clock)
    assert ledger.lookup(KEY) == entry


def test_equal_keys_of_two_tools_and_in_two_partitions_are_two_entries(ledger: EffectLedger, clock: FixedClock) -> None:
    partitions = [
        "",
        partition_of(tenant="a"),
        partition_of(session="a"),
        partition_of(connection_id="a"),
        partition_of(connection_id=""),
        partition_of(tenant="a", session="a"),
        partition_of(tenant='a", null, "'),
    ]
    slots = {LedgerSlot(partition, tool, "k") for partition in partitions for tool in ("one", "two")}
    assert len(slots) == 14
    for slot in slots:
        take(ledger, clock, slot)


def test_of_many_threads_one_gets_the_claim(ledger: EffectLedger, clock: FixedClock) -> None:
    start = threading.Barrier(8)

    def race(_: int) -> list[str]:
        start.wait()
        return [
            key for key in map(str, range(10)) if claim(ledger, clock, LedgerSlot("", "t", key)).claimed is not None
        ]

    with ThreadPoolExecutor(8) as pool:
        won = [key for keys in pool.map(race, range(8)) for key in keys]
    assert sorted(won) == [str(number) for number in range(10)]


@pytest.mark.parametrize("end", ["settle", "release", "doubt", "record"])
def test_a_watcher_is_woken_when_the_claim_ends(ledger: EffectLedger, clock: FixedClock, end: str) -> None:
    ends: dict[str, Callable[[LedgerRow], object]] = {
        "settle": lambda row: settle(ledger, row, clock),
        "release": ledger.release,
        "doubt": ledger.doubt,
        "record": lambda row: record(ledger),
    }
    woken: list[str] = []
    mine = take(ledger, clock)
    ledger.watch(SLOT, lambda: woken.append("watches"))
    stop = ledger.watch(SLOT, lambda: woken.append("gave up"))
    ledger.watch(LedgerSlot("", "other", KEY), lambda: woken.append("elsewhere"))
    stop()
    stop()
    assert woken == []
    ends[end](mine)
    assert woken == ["watches"]


def test_a_doubt_that_was_done_answers_from_then_on(ledger: EffectLedger, clock: FixedClock) -> None:
    ledger.doubt(take(ledger, clock, ttl_ns=60 * SECOND))
    clock.advance(50 * SECOND)
    ledger.settle_doubt(SLOT, done=True, result=ToolResult("ordered", {"order_id": "o"}))
    assert ledger.in_doubt() == ()
    clock.advance(50 * SECOND)
    found = ledger.lookup(SLOT)
    assert found is not None
    assert (found.result_message, found.result_value) == ("ordered", {"order_id": "o"})
    clock.advance(10 * SECOND)
    assert ledger.lookup(SLOT) is None, "it counts as long as the doubt would have, from when it was settled"


def test_a_doubt_that_was_not_done_frees_its_claim(ledger: EffectLedger, clock: FixedClock) -> None:
    ledger.doubt(take(ledger, clock))
    ledger.settle_doubt(SLOT, done=False)
    assert ledger.in_doubt() == ()
    assert claim(ledger, clock).claimed is not None


def test_only_a_doubt_can_be_settled(ledger: EffectLedger, clock: FixedClock) -> None:
    running = take(ledger, clock)
    with pytest.raises(Conflict) as refused:
        ledger.settle_doubt(SLOT, done=False)
    assert refused.value.code == "running"
    ledger.release(running)
    record(ledger)
    with pytest.raises(Conflict) as known:
        ledger.settle_doubt(SLOT, done=False)
    assert known.value.code == "known"
    with pytest.raises(UsageError):
        ledger.settle_doubt(SLOT, done=False, result=ToolResult("x"))
    assert SLOT in ledger
