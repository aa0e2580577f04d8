"""One governed tool call through `ToolRunner.exec`, against the least that any loop does: parse, call, dump."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from bench.timing import cpu_us, cpu_us_async
from demiurge import Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner

ARGS = '{"a": 2, "b": 3}'


@dataclass(frozen=True)
class Params:
    a: int
    b: int


@dataclass(frozen=True)
class Sum:
    total: int


async def add(params: Params, *, context: ToolContext) -> ToolResult[Sum]:
    return ToolResult(message="added", value=Sum(params.a + params.b))


def bare() -> str:
    args = json.loads(ARGS)
    return json.dumps({"total": args["a"] + args["b"]})


def run() -> list[tuple[str, str, str]]:
    tool = Tool[Params, Sum](
        name="math__add",
        description="Add two integers.",
        handler=add,
        effect=ToolEffect.READ_ONLY,
        redaction=Redaction.allow("total"),
    )
    runner = ToolRunner([tool], policy=ToolPolicy(allowed_tools=("math__add",)))
    baseline = cpu_us(bare, calls=5000)
    governed = asyncio.run(cpu_us_async(lambda: runner.exec("math__add", ARGS, tool_call_id="c"), calls=2000))
    return [
        ("parse, call, dump by hand", f"{baseline:.1f} µs", "1.0"),
        ("ToolRunner.exec: decided, validated, redacted, recorded", f"{governed:.1f} µs", f"{governed / baseline:.1f}"),
    ]
