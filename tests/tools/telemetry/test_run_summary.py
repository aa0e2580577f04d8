"""The figures of a run: right, bounded, and without a word of what was said."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge import (
    Budgets,
    InMemoryApprovals,
    Tool,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolInvocationRecord,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.tools import GraphRun, RunSummary, SpanSink, ToolSpan
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.ledger.ledger import EffectLedger
from demiurge.values import canonical_json

RECORD = ToolInvocationRecord(
    "c", "t", {}, None, None, 0, 0, ToolEffect.READ_ONLY, "sha256:0", "sha256:1", "allow", None
)


def record(name: str, outcome: str, ms: int, replayed: bool = False, approved: bool = False) -> ToolInvocationRecord:
    error = None if outcome == "ok" else {"code": outcome, "message": "m"}
    approval_id = "apr_1" if approved else None
    return replace(RECORD, name=name, error=error, ended_at_ms=ms, replayed=replayed, approval_id=approval_id)


OUTCOMES = st.sampled_from(["ok", *(code.value for code in ToolErrorCode)])
RECORDS = st.lists(st.builds(record, st.sampled_from("abc"), OUTCOMES, st.integers(0, 9), st.booleans(), st.booleans()))


def figures(records: list[ToolInvocationRecord]) -> dict[str, int]:
    times = [record.ended_at_ms for record in records]
    return {"calls": len(times), "total_ms": sum(times), "longest_ms": max(times, default=0)}


def outcome_of(record: ToolInvocationRecord) -> str:
    return record.error["code"] if record.error else "ok"


@given(RECORDS)
def test_the_figures_are_those_of_the_records(records: list[ToolInvocationRecord]) -> None:
    summary = RunSummary()
    for entry in records:
        summary.add(entry)
    found = summary.to_json()
    assert {name: found[name] for name in figures([])} == figures(records)
    assert found["replayed"] == sum(entry.replayed for entry in records)
    assert found["approved"] == sum(entry.approval_id is not None for entry in records)
    refused = {"policy_denied", "approval_rejected", "authz_denied"}
    assert found["denied"] == sum(outcome_of(entry) in refused for entry in records)
    assert found["outcomes"] == {
        outcome: figures([entry for entry in records if outcome_of(entry) == outcome])
        for outcome in map(outcome_of, records)
    }
    for tool in {entry.name for entry in records}:
        own = [entry for entry in records if entry.name == tool]
        outcomes = {
            outcome: figures([entry for entry in own if outcome_of(entry) == outcome])
            for outcome in map(outcome_of, own)
        }
        assert found["tools"][tool] == {**figures(own), "outcomes": outcomes}
    canonical_json.encode(found)


def test_a_clock_that_went_back_adds_nothing() -> None:
    summary = RunSummary()
    summary.add(record("a", "ok", -5))
    assert (summary.to_json()["calls"], summary.to_json()["total_ms"]) == (1, 0)


@dataclass(frozen=True)
class Args:
    n: int


def half_handler(params: Args, *, context: ToolContext) -> ToolResult[int]:
    if params.n % 2:
        raise ValueError(params.n)
    return ToolResult("", params.n // 2)


HALF = Tool[Args, int](name="math__half", description="Halve.", handler=half_handler, effect=ToolEffect.READ_ONLY)


def test_a_runner_counts_its_own_calls() -> None:
    runner = ToolRunner([HALF], policy=ToolPolicy(("math__half", "absent")))
    for args in ('{"n": 2}', '{"n": 4}', '{"n": 3}', "{"):
        runner.exec_sync("math__half", args)
    runner.exec_sync("absent", "{}")
    runner.exec_sync("stranger", "{}")
    found = runner.summary.to_json()
    calls = {tool: {code: row["calls"] for code, row in of["outcomes"].items()} for tool, of in found["tools"].items()}
    assert calls == {
        "?": {"policy_denied": 1, "unavailable": 1},
        "math__half": {"execution": 1, "invalid_json": 1, "ok": 2},
    }
    assert (found["calls"], found["denied"], found["graph"]) == (6, 1, None)


def test_names_that_a_model_makes_up_take_no_room() -> None:
    runner = ToolRunner([HALF], policy=ToolPolicy(("math__half",)))
    for index in range(1000):
        runner.exec_sync(f"made_up_{index}", "{}")
    found = runner.summary.to_json()
    assert list(found["tools"]) == ["?"]
    assert (found["calls"], len(json.dumps(found)) < 600) == (1000, True)


def test_a_call_is_counted_before_its_result_is_told() -> None:
    seen: list[int] = []
    runner = ToolRunner(
        [HALF], policy=ToolPolicy(("math__half",)), emit=lambda event: seen.append(runner.summary.to_json()["calls"])
    )
    runner.exec_sync("math__half", '{"n": 2}')
    assert seen == [0, 1]


def test_a_persons_decisions_are_counted() -> None:
    store = InMemoryApprovals()
    policy = ToolPolicy(("math__half",), require_approval_for_tools=("math__half",))
    runner = ToolRunner([HALF], policy=policy, approvals=store)
    for call_id, decide in (("yes", store.approve), ("no", store.reject)):
        runner.exec_sync("math__half", '{"n": 2}', tool_call_id=call_id)
        decide(store.pending()[0].approval_id or "", by="user:1")
        runner.exec_sync("math__half", '{"n": 2}', tool_call_id=call_id)
    found = runner.summary.to_json()
    assert (found["calls"], found["approved"], found["denied"]) == (4, 1, 1)


class Spans(list[ToolSpan]):
    put = list.append


def test_an_answer_from_the_ledger_is_counted_as_one() -> None:
    kept = replace(HALF, idempotency=IdempotencyConfig(scope=""), effect=ToolEffect.STATE_CHANGE)
    spans = Spans()
    runner = ToolRunner([kept], policy=ToolPolicy(("math__half",)), ledger=EffectLedger(), resources={SpanSink: spans})
    records = [runner.exec_sync("math__half", {"n": n}).record for n in (2, 2, 4, 2)]
    assert [record.replayed for record in records] == [False, True, False, True]
    assert [span.attributes["replayed"] for span in spans] == [False, True, False, True]
    assert {span.attributes["result_bytes"] for span in spans} == {1}
    assert (runner.summary.to_json()["calls"], runner.summary.to_json()["replayed"]) == (4, 2)


def test_runners_may_share_a_summary_and_name_their_graph() -> None:
    graph = GraphRun(graph_run_id="r1", graph_name="poet", graph_version="3")
    shared = RunSummary(graph)
    for _ in range(2):
        runner = ToolRunner([HALF], policy=ToolPolicy(("math__half",)), resources={RunSummary: shared})
        runner.exec_sync("math__half", '{"n": 2}')
        assert runner.summary is shared
    assert (shared.to_json()["calls"], shared.to_json()["graph"]) == (2, graph.to_json())
    assert ToolRunner([HALF], resources={GraphRun: graph}).summary.graph == graph


@pytest.mark.parametrize("threads", [8])
def test_calls_of_many_threads_are_all_counted(threads: int) -> None:
    runner = ToolRunner([HALF], policy=ToolPolicy(("math__half",), budgets=Budgets(max_result_bytes=100)))

    def work() -> None:
        for n in range(50):
            runner.exec_sync("math__half", {"n": n})

    crew = [threading.Thread(target=work) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    outcomes: dict[str, Any] = runner.summary.to_json()["outcomes"]
    assert {code: row["calls"] for code, row in outcomes.items()} == {"ok": 25 * threads, "execution": 25 * threads}


def test_a_runner_and_its_summary_show_names_and_counts_only() -> None:
    tool = Tool[None, None](name="look", description="Looks.", handler=_done, effect=ToolEffect.READ_ONLY)
    runner = ToolRunner([tool], policy=ToolPolicy(("look",)), session="canary", resources={str: "canary"})
    for name in ("look", "look", "canary"):
        runner.exec_sync(name, {"text": "canary"} if name == "canary" else {}, tool_call_id="canary")
    assert repr(runner.summary) == "<RunSummary of 3 calls: {'?': 1, 'look': 2}>"
    assert repr(runner) == f"<ToolRunner that allows look: {runner.summary!r}>"
    assert repr(ToolRunner([])) == "<ToolRunner that allows nothing: <RunSummary of 0 calls: {}>>"


def _done(params: None, *, context: ToolContext) -> ToolResult[None]:
    return ToolResult("done")
