"""Whatever happens in which order: no run uses more than it may, and what it lends is used or comes back."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.world.budget_worlds import ASKED, BUMP, B, C, Units, model_result, spending_manifest
from tests.world.small_world import A, Kernel, plain_data

from demiurge.stores.protocol import Snapshot
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets
from demiurge.values.refs import Ref, ref_of
from demiurge.world.budget import limits_of
from demiurge.world.effect_kinds import LLM, TOOL
from demiurge.world.snapshot import read_snapshot, snapshot_node
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

CALLS, TOKENS, UNIT_CALLS = 4, 100, 9
BUDGETS = Budgets(
    run=Allowance(max_tool_calls=CALLS, max_total_tokens=TOKENS), unit=Allowance(max_tool_calls=UNIT_CALLS)
)

Place = tuple[Unit, int]

shares = st.sampled_from(
    [{"max_tool_calls": 1}, {"max_tool_calls": 2}, {"max_tool_calls": 3, "max_total_tokens": 30}, {"max_tool_calls": 0}]
)
notes = st.lists(
    st.fixed_dictionaries({"text": st.sampled_from(["call", "pass", "reply", "nothing"])}, optional={"budget": shares}),
    max_size=2,
)


class Spending(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = Units(spending_manifest(BUDGETS))
        self.root: dict[Place, Place] = {}
        self.performed: dict[Place, int] = {}
        """Tool calls that were let go, by the run that they go back to."""
        self.stored: dict[Ref, bytes] = {}
        self.made: dict[Unit, int] = dict.fromkeys((A, B, C), 0)

    # -- what may happen ----------------------------------------------------------------------------------------------

    @rule(
        calls=st.sampled_from([[ASKED], [BUMP], [ASKED, BUMP], [BUMP, BUMP, BUMP], []]),
        think=st.lists(st.integers(1, 60), max_size=1),
        notes=notes,
    )
    def tell(self, calls: list[str], think: list[int], notes: list[Any]) -> None:
        self.world.tell(calls=calls, think=think, notes=notes)
        seq = self.world.a.last.records[0].unit_seq
        self.root[A, seq] = (A, seq)
        self._note(A)

    @precondition(lambda self: self.world.post)
    @rule()
    def deliver(self) -> None:
        _, sent = self.world.post[0]
        source = Unit.parse(sent.cause["unit"])
        lender = next((r.id for r in self.world.units[source].state.runs.values() if sent.cause["seq"] in r.lent), None)
        self.world.deliver()
        if lender is not None and sent.cause.get("lent"):
            seq = self.world.units[sent.target].last.records[0].unit_seq
            self.root[sent.target, seq] = self.root[source, lender]
        self._note(sent.target)

    @precondition(lambda self: self._open(asked=False))
    @rule(data=st.data(), tokens=st.integers(0, 60))
    def answer(self, data: st.DataObject, tokens: int) -> None:
        unit, intent = data.draw(st.sampled_from(self._open(asked=False)))
        used = min(tokens, intent.params.get("max_tokens", 0))
        self.world.answer(unit, intent, model_result(used // 2, used - used // 2) if intent.kind == LLM else None)
        self._note(unit)

    @precondition(lambda self: self._open(asked=True))
    @rule(data=st.data(), approve=st.booleans())
    def decide(self, data: st.DataObject, approve: bool) -> None:
        unit, intent = data.draw(st.sampled_from(self._open(asked=True)))
        self.world.decide(unit, intent, approve=approve)
        self._note(unit)

    @rule()
    def let_the_boards_finish(self) -> None:
        """What the room began elsewhere comes to its end, and its own calls go on."""
        while self.world.post or any(unit != A for unit, _ in self._open(asked=False)):
            if self.world.post:
                self.deliver()
            for unit, intent in [place for place in self._open(asked=False) if place[0] != A][:1]:
                self.world.answer(unit, intent)
                self._note(unit)

    @rule()
    def crash(self) -> None:
        """All that is in memory goes: a unit is read from a snapshot, or computed again; both are the same."""
        for unit, kernel in self.world.units.items():
            again = Kernel(kernel.manifest, unit)
            again.blobs = kernel.blobs
            for _, ingress in kernel.taken:
                again.step(ingress)
            assert plain_data(again.state) == plain_data(kernel.state)
            node, chunks = snapshot_node(kernel.state)
            self.stored |= {ref_of(node): node, **chunks}
            snapshot = Snapshot(str(unit), kernel.state.seq - 1, kernel.state.head, ref_of(node))
            kernel.state = read_snapshot(snapshot, kernel.state.world, unit, self.stored.__getitem__)
            assert plain_data(again.state) == plain_data(kernel.state)

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def no_run_is_over_its_limits(self) -> None:
        for unit, kernel in self.world.units.items():
            for run in kernel.state.runs.values():
                limits = limits_of(BUDGETS.run, run)
                assert (
                    run.used.tool_calls + self._held(unit, run.id) + run.reserved("tool_calls") <= limits["tool_calls"]
                )
                assert run.used.total_tokens + run.reserved("total_tokens") <= limits["total_tokens"]
            assert self.made[unit] <= UNIT_CALLS

    @invariant()
    def what_was_done_is_covered_by_the_run_that_began_it(self) -> None:
        for (unit, run_id), performed in self.performed.items():
            assert performed <= CALLS
            run = self.world.units[unit].state.runs.get(run_id)
            if run is not None:
                assert performed <= run.used.tool_calls + self._held(unit, run_id) + run.reserved("tool_calls")

    @invariant()
    def what_is_lent_is_in_one_place(self) -> None:
        """On its way, with a run that goes on, or on its way back."""
        places = [(sent.cause["unit"], sent.cause["seq"]) for _, sent in self.world.post if sent.cause.get("lent")]
        places += [(str(sent.target), sent.cause["settles"]) for _, sent in self.world.post if "settles" in sent.cause]
        for kernel in self.world.units.values():
            lenders = [run.lender for run in kernel.state.runs.values() if run.lender is not None]
            places += [(lender.unit, lender.seq) for lender in lenders]
        lent = [
            (str(unit), seq)
            for unit, kernel in self.world.units.items()
            for run in kernel.state.runs.values()
            for seq in run.lent
        ]
        assert sorted(places) == sorted(lent)

    def teardown(self) -> None:
        """Let everything come to its end: then nothing is reserved, and no run goes on."""
        while self.world.post or self._open(asked=True) or self._open(asked=False):
            if self.world.post:
                self.deliver()
            for unit, intent in self._open(asked=True)[:1]:
                self.world.decide(unit, intent, approve=False)
            for unit, intent in self._open(asked=False)[:1]:
                self.world.answer(unit, intent, model_result(0, 0) if intent.kind == LLM else None)
        assert all(kernel.state.runs == {} for kernel in self.world.units.values())
        for unit, kernel in self.world.units.items():
            assert (kernel.state.used.tool_calls if kernel.state.used is not None else 0) == self.made[unit]
        self.what_was_done_is_covered_by_the_run_that_began_it()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _open(self, *, asked: bool) -> list[tuple[Unit, OpenIntent]]:
        return [
            (unit, intent)
            for unit, kernel in self.world.units.items()
            for intent in kernel.intents
            if intent.awaits_approval == asked
        ]

    def _held(self, unit: Unit, run: int) -> int:
        return sum(intent.kind == TOOL and intent.run == run for intent in self.world.units[unit].intents)

    def _note(self, unit: Unit) -> None:
        for intent in self.world.units[unit].last.intents:
            if intent.kind == TOOL:
                self.made[unit] += 1
                assert intent.run is not None
                root = self.root.get((unit, intent.run))
                assert root is not None, "a run that was given nothing has made a call"
                self.performed[root] = self.performed.get(root, 0) + 1


TestSpending = Spending.TestCase
TestSpending.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
