"""What a ledger asks of its store, and what it makes of the store's answers and failures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from demiurge.errors import Damaged, InvalidValue, Unavailable
from demiurge.tools import EffectLedger, LedgerSlot, ToolResult, compute_params_hash, partition_of
from demiurge.tools.ledger.ledger import Claim
from demiurge.tools.ledger.store import BY_HAND, EntryState, LedgerRow, MemoryLedgerStore, Write
from demiurge.values.clock import FixedClock

SLOT = LedgerSlot("", "t", "k")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Store(MemoryLedgerStore):
    """Notes what it is asked for; its blocks of the kind `failing` end in an error; nobody works on claims that
    `workers` lacks; `damaged` rows can't be read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.failing: str | None = None
        self.workers: set[bytes] = set()
        self.damaged: set[LedgerSlot] = set()

    def writing(self, write: Write) -> Store:
        self.asked.append(write)
        if write == self.failing:
            raise Unavailable("The disk is gone.")
        return self

    def hold(self, effect_id: bytes) -> str:
        self.asked.append("hold")
        self.workers.add(effect_id)
        return "me"

    def drop(self, claim: LedgerRow, *, lost: bool) -> None:
        self.asked.append(("drop", lost))
        self.workers.discard(claim.effect_id)

    def claim(self, row: LedgerRow, *, changes: bool) -> None:
        self.asked.append(("changes", changes))
        super().claim(row, changes=changes)

    def runs(self, claim: LedgerRow) -> bool:
        return super().runs(claim) and claim.effect_id in self.workers

    def get(self, slot: LedgerSlot) -> LedgerRow | None:
        if slot in self.damaged:
            raise Damaged("The row can't be read.")
        return super().get(slot)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(100)


@pytest.fixture
def ledger(store: Store, clock: FixedClock) -> EffectLedger:
    return EffectLedger(store=store, clock=clock)


def claim(ledger: EffectLedger, slot: LedgerSlot = SLOT, **options: Any) -> Claim:
    return ledger.claim(slot, **{"params_hash": "h", "ttl_ns": 10, "now_ns": 100, **options})


def take(ledger: EffectLedger, slot: LedgerSlot = SLOT, **options: Any) -> LedgerRow:
    mine = claim(ledger, slot, **options).claimed
    assert mine is not None
    return mine


def settle(ledger: EffectLedger, row: LedgerRow) -> None:
    ledger.settle(row, message="m", value=b"1", excluded=False, ttl_ns=10, now_ns=100)


def record(ledger: EffectLedger, key: str | LedgerSlot = "k", **options: Any) -> None:
    ledger.record(**{"idempotency_key": key, "tool_name": "t", "params": None, "result": ToolResult("m"), **options})


def test_every_change_says_what_it_is_for(ledger: EffectLedger, store: Store) -> None:
    for change in (
        lambda: record(ledger),
        lambda: ledger.invalidate("k"),
        lambda: ledger.invalidate_by_tool("t"),
        ledger.clear,
        ledger.prune_expired,
        lambda: ledger.settle_doubt(SLOT, done=False),
    ):
        store.asked.clear()
        change()
        assert store.asked == ["edit"]


@pytest.mark.parametrize("end", ["settle", "release", "doubt"])
def test_a_claim_is_held_before_it_is_written_and_dropped_after_its_end(
    ledger: EffectLedger, store: Store, end: str
) -> None:
    mine = take(ledger)
    assert mine == LedgerRow(SLOT, EntryState.CLAIMED, mine.effect_id, "h", 100, 110, "me")
    assert len(mine.effect_id) == 16
    settle(ledger, mine) if end == "settle" else getattr(ledger, end)(mine)
    assert store.asked == ["hold", "claim", ("changes", True), end, ("drop", False)]


def test_the_store_is_told_that_a_call_changes_nothing(ledger: EffectLedger, store: Store) -> None:
    take(ledger, changes=False)
    assert ("changes", False) in store.asked


def test_a_call_that_got_no_claim_holds_none(ledger: EffectLedger, store: Store) -> None:
    first = take(ledger)
    store.asked.clear()
    assert claim(ledger, even_in_doubt=True) == Claim(None, first)
    assert store.asked == ["hold", "claim", ("drop", False)]


def test_a_claim_that_could_not_be_written_is_given_up_as_lost(ledger: EffectLedger, store: Store) -> None:
    store.failing = "claim"
    with pytest.raises(Unavailable):
        claim(ledger)
    assert store.asked == ["hold", "claim", ("drop", True)]


@pytest.mark.parametrize(
    ("end", "fails", "woken"),
    [
        ("settle", False, ["a1", "a2", "b"]),
        ("doubt", False, ["a1", "a2", "b"]),
        ("release", False, ["a1", "b"]),
        ("settle", True, ["a1", "a2", "b"]),
        ("doubt", True, ["a1", "a2", "b"]),
        ("release", True, ["a1", "a2", "b"]),
    ],
)
def test_a_free_slot_wakes_one_of_each_place_and_every_other_end_wakes_all(
    ledger: EffectLedger, store: Store, end: str, fails: bool, woken: list[str]
) -> None:
    mine, told = take(ledger), list[str]()
    for name in ("a1", "a2", "b"):
        ledger.watch(SLOT, lambda name=name: told.append(name), name[0])  # type: ignore[misc]
    store.failing = end if fails else None
    try:
        settle(ledger, mine) if end == "settle" else getattr(ledger, end)(mine)
    except Unavailable:
        assert fails
    assert (told, store.asked[-1]) == (woken, ("drop", fails))


def test_a_claim_that_ends_while_it_is_looked_at_is_looked_at_once_more(ledger: EffectLedger, store: Store) -> None:
    ending = [take(ledger)]

    def runs(claim: LedgerRow) -> bool:
        if ending:
            settle(ledger, ending.pop())
        return False

    store.runs = runs  # type: ignore[method-assign]
    found = ledger.find(SLOT, 100)
    assert found is not None
    assert (found.state, found.message) == (EntryState.DONE, "m")


def test_a_claim_that_nobody_works_on_is_a_doubt_until_it_is_over(ledger: EffectLedger, store: Store) -> None:
    mine = take(ledger)
    store.workers.clear()
    assert ledger.find(SLOT, 109) == mine._replace(state=EntryState.IN_DOUBT)
    assert ledger.in_doubt() == (SLOT,)
    assert ledger.slots("k") == (SLOT,)
    assert ledger.find(SLOT, 110) is None
    assert take(ledger, now_ns=110).created_ns == 110


def test_doubts_are_listed_in_order_without_what_runs_or_is_over(ledger: EffectLedger, clock: FixedClock) -> None:
    slots = [SLOT._replace(key=key) for key in "dcba"]
    for slot in slots[:3]:
        ledger.doubt(take(ledger, slot, ttl_ns=10 if slot.key == "d" else None))
    take(ledger, slots[3])
    clock.advance(10)
    assert [slot.key for slot in ledger.in_doubt()] == ["b", "c"]


def test_a_doubt_has_no_owner(ledger: EffectLedger) -> None:
    mine = take(ledger)
    ledger.doubt(mine)
    assert ledger.find(SLOT, 100) == mine._replace(state=EntryState.IN_DOUBT, owner="")


def test_a_settled_call_is_kept_with_all_that_is_said_of_it(ledger: EffectLedger) -> None:
    for ttl_ns, expires_ns in ((None, None), (10, 115)):
        mine = take(ledger, SLOT._replace(key=str(ttl_ns)))
        ledger.settle(
            mine, message="m", value=b"1", excluded=True, ttl_ns=ttl_ns, now_ns=105, rendering="1, for the model"
        )
        assert ledger.find(mine.slot, 105) == LedgerRow(
            mine.slot,
            EntryState.DONE,
            mine.effect_id,
            "h",
            105,
            expires_ns,
            message="m",
            value=b"1",
            excluded=True,
            rendering="1, for the model",
        )


def test_a_recorded_result_is_stored_with_all_its_fields(ledger: EffectLedger) -> None:
    result = ToolResult("no", {"n": 1}, success=False, exclude_value_from_context=True)
    for ttl, expires_ns in ((None, None), (timedelta(microseconds=1), 1100)):
        record(ledger, params={"a": 1}, result=result, ttl=ttl)
        found = ledger.find(SLOT, 100)
        assert found is not None
        assert len(found.effect_id) == 16
        assert found == LedgerRow(
            SLOT,
            EntryState.DONE,
            found.effect_id,
            compute_params_hash({"a": 1}),
            100,
            expires_ns,
            BY_HAND,
            "no",
            b'{"n":1}',
            success=False,
            excluded=True,
        )


@pytest.mark.parametrize("key", ["", 3, None, SLOT._replace(key="")])
def test_a_key_that_is_no_text_or_empty_is_refused(ledger: EffectLedger, key: Any) -> None:
    with pytest.raises(InvalidValue) as refused:
        record(ledger, key)
    assert (refused.value.path, str(refused.value)) == (
        "idempotency_key",
        "idempotency_key: a key is text that is not empty",
    )


def test_a_slot_of_another_tool_is_refused(ledger: EffectLedger) -> None:
    with pytest.raises(InvalidValue) as refused:
        record(ledger, SLOT, tool_name="other")
    assert (refused.value.path, str(refused.value)) == ("tool_name", "tool_name: the slot is of 't'")


def test_a_time_without_a_zone_is_refused(ledger: EffectLedger) -> None:
    naive = NOON.replace(tzinfo=None)
    uses = (
        lambda: ledger.lookup("k", now=naive),
        lambda: record(ledger, now=naive),
        lambda: ledger.prune_expired(naive),
    )
    for use in uses:
        with pytest.raises(InvalidValue) as refused:
            use()
        assert (refused.value.path, str(refused.value)) == ("now", "now: the time now needs a time zone")


def test_looking_up_removes_what_is_over_at_the_time_that_is_given(ledger: EffectLedger, store: Store) -> None:
    record(ledger, now=NOON, ttl=timedelta(hours=1))
    record(ledger, "later", now=NOON, ttl=timedelta(hours=3))
    store.asked.clear()
    assert ledger.lookup("k", now=NOON + timedelta(minutes=30)) is not None
    assert store.asked == []
    assert ledger.lookup("k", now=NOON + timedelta(hours=2)) is None
    assert store.asked == ["edit"]
    assert list(store._done) == [SLOT._replace(key="later")]


def test_a_key_is_found_under_the_tool_that_has_an_answer(ledger: EffectLedger) -> None:
    record(ledger, SLOT._replace(tool_name="a"), tool_name="a", now=NOON, ttl=timedelta(hours=1))
    record(ledger, now=NOON, ttl=timedelta(hours=3))
    found = ledger.lookup("k", now=NOON + timedelta(hours=2))
    assert found is not None
    assert found.tool_name == "t"


def test_invalidating_a_key_spares_the_call_that_runs(ledger: EffectLedger) -> None:
    running, done = SLOT._replace(tool_name="a"), SLOT
    take(ledger, running)
    record(ledger)
    assert ledger.invalidate("k")
    assert ledger.slots("k") == (running,)
    assert not ledger.invalidate("k")
    assert ledger.find(done, 100) is None


def test_invalidating_a_key_forgets_what_every_tool_left_under_it(ledger: EffectLedger, store: Store) -> None:
    for tool in ("a", "b", "c"):
        record(ledger, tool_name=tool)
    assert ledger.invalidate("k")
    assert not store._done


def test_a_row_that_can_not_be_read_is_invalidated(ledger: EffectLedger, store: Store) -> None:
    record(ledger)
    store.damaged.add(SLOT)
    assert ledger.invalidate("k")
    store.damaged.clear()
    assert ledger.find(SLOT, 100) is None


def test_nothing_is_there_to_invalidate_once_it_is_over(ledger: EffectLedger, store: Store, clock: FixedClock) -> None:
    record(ledger, ttl=timedelta(microseconds=1))
    clock.advance(1000)
    assert not ledger.invalidate("k")
    assert not store._done


def test_a_record_takes_no_place_that_is_over_or_another_tools(ledger: EffectLedger, clock: FixedClock) -> None:
    session = partition_of(session="s")
    for tool, ttl in (("t", timedelta(microseconds=1)), ("other", None)):
        record(ledger, LedgerSlot(session, tool, "k"), tool_name=tool, ttl=ttl)
    clock.advance(1000)
    record(ledger)
    assert set(ledger.slots("k")) == {LedgerSlot(session, "other", "k"), SLOT}


def test_a_call_of_a_session_has_what_was_recorded_by_hand_in_its_way(ledger: EffectLedger, clock: FixedClock) -> None:
    record(ledger, ttl=timedelta(microseconds=1))
    mine = SLOT._replace(partition=partition_of(session="s"))
    by_hand = ledger.find(SLOT, 100)
    assert ledger.find(mine, 100) == by_hand
    assert claim(ledger, mine) == Claim(None, by_hand)
    assert ledger.find(SLOT._replace(partition=partition_of(tenant="a")), 100) is None
    assert ledger.find(mine, 1100) is None
    assert take(ledger, mine, now_ns=1100)


def test_a_claim_tidies_what_is_over_at_its_time(ledger: EffectLedger, store: Store) -> None:
    record(ledger, "old", ttl=timedelta(microseconds=1))
    take(ledger, now_ns=1099)
    assert store._done
    take(ledger, SLOT._replace(key="next"), now_ns=1100)
    assert not store._done


def test_a_doubt_is_taken_over_with_its_own_times(ledger: EffectLedger) -> None:
    ledger.doubt(take(ledger, ttl_ns=None))
    there = ledger.find(SLOT, 100)
    assert claim(ledger, even_in_doubt=False) == Claim(None, there)
    over = claim(ledger, even_in_doubt=True, now_ns=105)
    assert over.found == there
    assert over.claimed is not None
    assert (over.claimed.created_ns, over.claimed.expires_ns) == (100, None)
