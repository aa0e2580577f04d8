from dataclasses import dataclass, replace

from demiurge import Tool, ToolContext, ToolPolicy, ToolResult, ToolRunner
from demiurge.sessions import Session, append_all, reducer
from demiurge.tools import ToolUserError
from demiurge.tools.invoked import ToolInvoked


@dataclass(frozen=True)
class Sale:
    part: str
    count: int


@dataclass(frozen=True)
class Stock:
    left: int

    @reducer(on=Sale)
    def on_sale(self, event: Sale) -> "Stock":
        return replace(self, left=self.left - event.count)


def sell(params: Sale, *, context: ToolContext) -> ToolResult[Sale]:
    context.session[str].append(f"packing {params.count}")
    if params.count > context.session[Stock].latest().left:
        raise ToolUserError("There are not so many.")
    return ToolResult("Sold.", params)


session = Session(tags={"shop": "main street"})
session.install(Stock)
session[Sale].register(Sale, append_all)
session[Stock].seed(Stock(left=100))

tool = Tool[Sale, Sale](name="sell", description="Sells some of a part.", handler=sell)
runner = ToolRunner([tool], policy=ToolPolicy(("sell",)), session=session)
for count in (30, 80, 20):
    runner.exec_sync("sell", {"part": "nut", "count": count})

print(session[Stock].latest())
print(session[Sale].all())
print(session[str].all())
print([(event.name, event.params.count, event.result.success) for event in session[ToolInvoked].all()])
