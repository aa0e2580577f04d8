from datetime import UTC, datetime, timedelta

from demiurge import (
    Budget,
    Budgets,
    BudgetTracker,
    Deadline,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolRunner,
    tool,
)
from demiurge.tools import TokenUsage
from demiurge.values.clock import FixedClock

SECOND = 1_000_000_000
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
clock = FixedClock(int(NOON.timestamp()) * SECOND)  # stands still; outside examples it is the machine's


@tool(effect=ToolEffect.READ_ONLY, inline=True)
def fetch(page: str, seconds: int, context: ToolContext) -> str:
    """Fetches a page."""
    clock.advance(seconds * SECOND)
    assert context.deadline is not None
    return f"{page}; {context.deadline.remaining().seconds} s left for the rest of the run"


def show(what: str) -> None:
    page, _, seconds = what.partition(" in ")
    result = runner.exec_sync("fetch", {"page": page, "seconds": int(seconds)})
    print(what, "|", result.error_code or result.content)


tracker = BudgetTracker(Budget(max_total_tokens=1000, max_cost_micros=50_000))
runner = ToolRunner(
    [fetch],
    policy=ToolPolicy(("fetch",), budgets=Budgets(max_runtime_ms=30_000)),
    resources={Deadline: Deadline(NOON + timedelta(minutes=1), clock=clock), BudgetTracker: tracker},
    clock=clock,
)

show("page 1 in 10")
tracker.record_cumulative("answer-1", TokenUsage(input_tokens=400, output_tokens=20))  # while it streams
tracker.record_cumulative("answer-1", TokenUsage(input_tokens=400, output_tokens=90), cost_micros=3_100)
tracker.record_cumulative("answer-2", TokenUsage(input_tokens=500, output_tokens=10))
print(tracker.consumed.total_tokens, "tokens,", tracker.cost_micros, "millionths of a dollar")
show("page 2 in 5")
show("page 3 in 31")  # more than the policy gives one call
tracker.record_cumulative("answer-2", TokenUsage(input_tokens=500, output_tokens=11))
show("page 4 in 1")
clock.advance(14 * SECOND)
show("page 5 in 1")
