import asyncio
from dataclasses import dataclass

from demiurge import Redaction, Tool, ToolCatalog, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner


@dataclass(frozen=True)
class Params:
    a: int
    b: int


@dataclass(frozen=True)
class Sum:
    total: int


def add(params: Params, *, context: ToolContext) -> ToolResult[Sum]:
    return ToolResult(message="added", value=Sum(params.a + params.b))


math_add = Tool[Params, Sum](
    name="math__add",
    description="Add two integers.",
    handler=add,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("total"),
)

policy = ToolPolicy(allowed_tools=("math__add",))
runner = ToolRunner([math_add], policy=policy)


async def main() -> None:
    print([spec.name for spec in ToolCatalog.compile([math_add], policy).specs()])

    good = await runner.exec("math__add", '{"a": 2, "b": 3}', tool_call_id="call_1")
    print(good.ok, good.value, good.record.decision)

    wrong = await runner.exec("math__add", '{"a": "two", "b": 3}')
    print(wrong.error_code, "-", wrong.safe_message)

    stranger = await runner.exec("shell__run", '{"command": "ls"}')
    print(stranger.error_code, "-", stranger.safe_message)


asyncio.run(main())
