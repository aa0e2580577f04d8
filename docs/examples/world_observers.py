import asyncio

from own_tools import stock_count

from demiurge import ToolPolicy, World
from demiurge.tools import GraphRun, RunSummary, SpanSink, ToolSpan

POLICY = ToolPolicy(allowed_tools=("stock_count",))


class Spans:
    def put(self, span: ToolSpan, /) -> None:
        print(span.name, span.attributes["decision"], span.attributes["outcome"])


async def main() -> None:
    summary = RunSummary(GraphRun(graph_run_id="run-7", graph_name="stock", graph_version="3"))
    resources = {SpanSink: Spans(), RunSummary: summary}
    async with World.open(
        "seen.world", [stock_count], POLICY, emit=lambda e: print(e.type), resources=resources
    ) as world:
        await world.call("stock_count", '{"part": "bolt"}')
        await world.call("workspace__list", "{}")
        await world.replay()
    print(summary)


asyncio.run(main())
