"""Any calls, on every ledger, against a model too simple to be wrong; SQLite is also opened twice, and again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from demiurge import SqliteEffectLedger
from demiurge.errors import InvalidValue
from demiurge.tools import EffectLedger, LedgerSlot, ToolResult, partition_of
from demiurge.tools.ledger.store import EntryState, LedgerRow
from demiurge.values.clock import FixedClock, SeededEntropy

SLOTS = [
    LedgerSlot(partition, tool, key)
    for partition in ("", partition_of(session="s"))
    for tool in ("a", "b")
    for key in ("k", "l")
]
TTLS = [None, 1_000, 5_000, 50_000]
CLAIMED, DONE, IN_DOUBT = EntryState.CLAIMED, EntryState.DONE, EntryState.IN_DOUBT


@dataclass(frozen=True)
class Known:
    """What the model knows of one slot."""

    state: EntryState
    effect_id: bytes
    expires_ns: int | None
    number: int = 0
    by_hand: bool = False


class Model(RuleBasedStateMachine):
    make: Callable[[Path, FixedClock, SeededEntropy], EffectLedger]
    reopens = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock, self.entropy = FixedClock(10**18), SeededEntropy(1)
        self.ledgers = [self.opened()]
        self.known: dict[LedgerSlot, Known] = {}
        self.claims: list[tuple[EffectLedger, LedgerRow]] = []
        self.number = 0

    def opened(self) -> EffectLedger:
        return type(self).make(self.folder, self.clock, self.entropy)

    def teardown(self) -> None:
        for ledger in self.ledgers:
            self.close(ledger)
        shutil.rmtree(self.folder)

    def close(self, ledger: EffectLedger) -> None:
        if isinstance(ledger, SqliteEffectLedger):
            ledger.close()

    # the model

    @property
    def now(self) -> int:
        return self.clock.now_ns()

    def standing(self, slot: LedgerSlot) -> Known | None:
        known = self.known.get(slot)
        over = known is not None and known.expires_ns is not None and known.expires_ns <= self.now
        return None if known is None or (over and known.state is not CLAIMED) else known

    def answering(self, slot: LedgerSlot) -> Known | None:
        """What a call with this slot is answered from: its own, or what was recorded under the key alone."""
        by_hand = self.standing(slot._replace(partition=""))
        return self.standing(slot) or (by_hand if by_hand is not None and by_hand.by_hand else None)

    def with_key(self, key: str, tools: str = "ab") -> list[LedgerSlot]:
        return [slot for slot in self.all_standing(*EntryState) if slot.key == key and slot.tool_name in tools]

    def all_standing(self, *states: EntryState) -> dict[LedgerSlot, Known]:
        found = {slot: self.standing(slot) for slot in SLOTS}
        return {slot: known for slot, known in found.items() if known is not None and known.state in states}

    def forget(self, slots: list[LedgerSlot]) -> int:
        gone = [slot for slot in slots if slot in self.all_standing(DONE, IN_DOUBT)]
        for slot in gone:
            del self.known[slot]
        return len(gone)

    def later(self, ttl: int | None) -> int | None:
        return None if ttl is None else self.now + ttl

    # claims

    @rule(slot=st.sampled_from(SLOTS), ttl=st.sampled_from(TTLS), even=st.booleans(), which=st.integers(0, 1))
    def claim(self, slot: LedgerSlot, ttl: int | None, even: bool, which: int) -> None:
        ledger, there = self.ledgers[which % len(self.ledgers)], self.answering(slot)
        got = ledger.claim(slot, params_hash="h", ttl_ns=ttl, now_ns=self.now, even_in_doubt=even)
        assert (got.found and got.found.state) == (there and there.state)
        free = there is None or (even and there.state is IN_DOUBT)
        assert (got.claimed is not None) == free
        if got.claimed is not None:
            expires_ns = self.later(ttl) if there is None else there.expires_ns
            self.known[slot] = Known(CLAIMED, got.claimed.effect_id, expires_ns)
            self.claims.append((ledger, got.claimed))

    def end_of_a_claim(self, index: int) -> tuple[EffectLedger, LedgerRow, Known | None]:
        ledger, claim = self.claims.pop(index % len(self.claims))
        known = self.known.get(claim.slot)
        return ledger, claim, known if known is not None and known.effect_id == claim.effect_id else None

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 9), ttl=st.sampled_from(TTLS), again=st.booleans())
    def settle(self, index: int, ttl: int | None, again: bool) -> None:
        ledger, claim, known = self.end_of_a_claim(index)
        self.number += 1
        value = b"%d" % self.number
        ledger.settle(claim, message="m", value=value, excluded=False, ttl_ns=ttl, now_ns=self.now)
        if known is not None or self.standing(claim.slot) is None:
            self.known[claim.slot] = Known(DONE, claim.effect_id, self.later(ttl), self.number)
        if again:
            ledger.release(claim)
            ledger.doubt(claim)

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 9))
    def release(self, index: int) -> None:
        ledger, claim, known = self.end_of_a_claim(index)
        ledger.release(claim)
        if known is not None and known.state is CLAIMED:
            del self.known[claim.slot]

    @precondition(lambda self: self.claims)
    @rule(index=st.integers(0, 9))
    def doubt(self, index: int) -> None:
        ledger, claim, known = self.end_of_a_claim(index)
        ledger.doubt(claim)
        if known is not None and known.state is CLAIMED:
            self.known[claim.slot] = replace(known, state=IN_DOUBT)

    # edits

    @rule(tool=st.sampled_from("ab"), key=st.sampled_from("kl"), ttl=st.sampled_from(TTLS), which=st.integers(0, 1))
    def record(self, tool: str, key: str, ttl: int | None, which: int) -> None:
        ledger, there = self.ledgers[which % len(self.ledgers)], self.with_key(key, tool)
        self.number += 1
        lasts = None if ttl is None else timedelta(microseconds=ttl // 1000)
        result = ToolResult("m", self.number)
        options: dict[str, Any] = {"tool_name": tool, "params": None, "result": result, "ttl": lasts}
        if len(there) > 1:
            with pytest.raises(InvalidValue, match="Several sessions"):
                ledger.record(idempotency_key=key, **options)
            return
        slot = there[0] if there else LedgerSlot("", tool, key)
        ledger.record(idempotency_key=key, **options)
        row = ledger.find(slot, self.now)
        assert row is not None
        self.known[slot] = Known(DONE, row.effect_id, self.later(ttl), self.number, by_hand=True)

    @rule(slot=st.sampled_from(SLOTS))
    def invalidate(self, slot: LedgerSlot) -> None:
        assert self.ledgers[0].invalidate(slot) == bool(self.forget([slot]))

    @rule(key=st.sampled_from("kl"))
    def invalidate_by_key(self, key: str) -> None:
        slots = self.with_key(key)
        if len({slot.partition for slot in slots}) > 1:
            with pytest.raises(InvalidValue, match="Several sessions"):
                self.ledgers[0].invalidate(key)
        else:
            assert self.ledgers[0].invalidate(key) == bool(self.forget(slots))

    @rule(tool=st.sampled_from("ab"))
    def invalidate_by_tool(self, tool: str) -> None:
        count = self.forget([slot for slot in SLOTS if slot.tool_name == tool])
        assert self.ledgers[0].invalidate_by_tool(tool) == count

    @rule()
    def clear(self) -> None:
        assert self.ledgers[0].clear() == self.forget(SLOTS)

    @rule()
    def prune(self) -> None:
        self.ledgers[0].prune_expired()
        assert self.ledgers[0].prune_expired() == 0

    @rule(ns=st.sampled_from([1_000, 3_000, 10_000]))
    def time_passes(self, ns: int) -> None:
        self.clock.advance(ns)

    @precondition(lambda self: self.reopens)
    @rule()
    def open_another(self) -> None:
        if len(self.ledgers) == 1:
            self.ledgers.append(self.opened())

    @precondition(lambda self: self.reopens)
    @rule(which=st.integers(0, 1))
    def close_and_open(self, which: int) -> None:
        """Who has gone leaves its claims in doubt."""
        ledger = self.ledgers.pop(which % len(self.ledgers))
        self.close(ledger)
        for _, claim in [pair for pair in self.claims if pair[0] is ledger]:
            known = self.known.get(claim.slot)
            if known is not None and known.effect_id == claim.effect_id and known.state is CLAIMED:
                self.known[claim.slot] = replace(known, state=IN_DOUBT)
        self.claims = [pair for pair in self.claims if pair[0] is not ledger]
        self.ledgers.append(self.opened())

    # what shows

    @invariant()
    def agree(self) -> None:
        for ledger in self.ledgers:
            for slot in SLOTS:
                answer, found = self.answering(slot), ledger.find(slot, self.now)
                assert (found and (found.state, found.effect_id)) == (answer and (answer.state, answer.effect_id))
                known = self.standing(slot)
                entry = ledger.lookup(slot)
                done = known is not None and known.state is DONE
                assert (entry is not None, slot in ledger) == (done, done)
                assert entry is None or known is None or entry.result_value == known.number
            for key in "kl":
                assert ledger.slots(key) == tuple(sorted(self.with_key(key)))
                done_slots = [slot for slot in self.all_standing(DONE) if slot.key == key]
                assert (key in ledger) == bool(done_slots)
                if len({slot.partition for slot in self.with_key(key)}) < 2:
                    first = ledger.lookup(min(done_slots)) if done_slots else None
                    assert ledger.lookup(key) == first
            assert len(ledger) == len(self.all_standing(DONE))
            assert ledger.in_doubt() == tuple(sorted(self.all_standing(IN_DOUBT)))


class MemoryModel(Model):
    make = staticmethod(lambda folder, clock, entropy: EffectLedger(clock=clock, entropy=entropy))


class SqliteModel(Model):
    make = staticmethod(
        lambda folder, clock, entropy: SqliteEffectLedger(folder / "ledger.db", clock=clock, entropy=entropy)
    )
    reopens = True


@pytest.mark.parametrize("machine", [MemoryModel, SqliteModel])
def test_every_ledger_agrees_with_the_model(machine: type[Model]) -> None:
    options: dict[str, Any] = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=25, deadline=None, **options)
    )
