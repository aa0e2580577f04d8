import json
from collections.abc import Mapping

from demiurge import Redaction, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.tools import GraphRun, RunSummary, SpanSink, ToolSpan
from demiurge.values.clock import FixedClock

clock = FixedClock(0)  # stands still, so that this page can be checked


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("open"), inline=True)
def count_tickets(customer: str) -> ToolResult[Mapping[str, object]]:
    """Counts a customer's tickets."""
    clock.advance(20_000_000)  # 20 ms
    return ToolResult("Counted.", {"open": 2, "phone": "+49 170 555"})


class Spans:
    def put(self, span: ToolSpan, /) -> None:
        kept = ("effect", "decision", "outcome", "duration_ms", "args_bytes", "result_bytes")
        print(span.name, {name: span.attributes[name] for name in kept if name in span.attributes})


summary = RunSummary(GraphRun(graph_run_id="run-7", graph_name="support", graph_version="3"))
runner = ToolRunner(
    [count_tickets],
    policy=ToolPolicy(("count_tickets",)),
    resources={SpanSink: Spans(), RunSummary: summary},
    clock=clock,
)

records = [
    runner.exec_sync(name, arguments).record
    for name, arguments in (
        ("count_tickets", '{"customer": "ada@example.com"}'),
        ("count_tickets", '{"customer": "bob@example.com", "all": true}'),
        ("delete_customer", '{"customer": "ada@example.com"}'),
    )
]

for record in records:
    print(record.name, record.decision, record.error["code"] if record.error else record.result, record.ended_at_ms)
print("ada@example.com" in json.dumps([record.public() for record in records]))

figures = summary.to_json()
print({name: figures[name] for name in ("graph", "calls", "total_ms", "denied", "approved", "replayed")})
print({tool_id: list(each["outcomes"]) for tool_id, each in figures["tools"].items()})
