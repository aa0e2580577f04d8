"""Demiurge: the least that any loop does, the layer below the runner, and `ToolRunner.exec`, bare and with all stages.

`governed` has an approval store, a ledger on an idempotent tool (each call has arguments of its own, so each is
performed), an allowlist of public fields, a listener, and a journal that each call's record is appended to. Its
history is that many calls before the timed ones, in the same runner, ledger and journal.
"""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any

from demiurge import (
    EffectLedger,
    IdempotencyConfig,
    InMemoryApprovals,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.prompts import MarkdownSection, Prompt, PromptTemplate, ToolExecutor
from demiurge.sessions import Session, replace_latest
from demiurge.stores import Batch, MemoryStore, Row
from demiurge.values import cbor

PACKAGE = "demiurge-runtime"
ARGS = '{"a": 2, "b": 3}'
POLICY = ToolPolicy(allowed_tools=("math__add",))


@dataclass(frozen=True)
class Params:
    a: int
    b: int


@dataclass(frozen=True)
class Sum:
    total: int


def add(params: Params, *, context: ToolContext) -> ToolResult[Sum]:
    return ToolResult(message="added", value=Sum(params.a + params.b))


async def add_async(params: Params, *, context: ToolContext) -> ToolResult[Sum]:
    return ToolResult(message="added", value=Sum(params.a + params.b))


def _tool(handler: str, **options: Any) -> Tool[Params, Sum]:
    return Tool[Params, Sum](
        name="math__add",
        description="Add two integers.",
        handler=add if handler == "def" else add_async,
        redaction=Redaction.allow("total"),
        **options,
    )


async def by_hand(handler: str, history: int) -> Callable[[], Any]:
    def call() -> str:
        args = json.loads(ARGS)
        return json.dumps({"total": args["a"] + args["b"]})

    async def call_async() -> str:
        return call()

    return call if handler == "def" else call_async


async def layer(handler: str, history: int) -> Callable[[], Any]:
    """What `BoundTool` offers, called one after the other."""
    bound, context = _tool(handler).bound, ToolContext()

    def call() -> str:
        result = bound.call(bound.parse(ARGS), context)
        return f"{result.message}\n\n{bound.dump(result.value).decode()}"

    async def call_async() -> str:
        result = await bound.call(bound.parse(ARGS), context)
        return f"{result.message}\n\n{bound.dump(result.value).decode()}"

    return call if handler == "def" else call_async


def _bare(tool: Tool[Any, Any]) -> Callable[[], Awaitable[str]]:
    runner = ToolRunner([tool], policy=POLICY)

    async def call() -> str:
        return (await runner.exec("math__add", ARGS, tool_call_id="c1")).content

    return call


async def bare(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    return _bare(_tool(handler, effect=ToolEffect.READ_ONLY))


async def inline(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    """A `def` handler that says it is quick enough to run on the event loop."""
    return _bare(_tool(handler, effect=ToolEffect.READ_ONLY, inline=True))


class Journal:
    """A chain of public records in one unit of an in-memory store."""

    unit = "bench/Calls@1/one"

    def __init__(self) -> None:
        self._store = MemoryStore("bench")
        self._last = bytes(32)
        self._next = 0

    def append(self, answer: ToolExecResult) -> None:
        data = cbor.encode([self._last, answer.record.public()])
        self._last = sha256(data).digest()
        row = Row(self.unit, self._next, "tool_call", self._last, data)
        self._store.append([Batch(self.unit, self._next, (row,), open=False)])
        self._next += 1


async def governed(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    heard: deque[object] = deque(maxlen=100)
    runner = ToolRunner(
        [_tool(handler, idempotency=IdempotencyConfig())],
        policy=POLICY,
        ledger=EffectLedger(),
        approvals=InMemoryApprovals(),
        emit=heard.append,
    )
    journal, numbers = Journal(), count()

    async def call() -> str:
        number = next(numbers)
        args = f'{{"a": {number}, "b": {5 - number}}}'
        answer = await runner.exec("math__add", args, tool_call_id=f"c{number}")
        journal.append(answer)
        return answer.content

    for _ in range(history):
        await call()
    return call


async def session(handler: str, history: int) -> Callable[[], Any]:
    """Through a rendered prompt, an executor and a session that folds each result with a reducer."""
    board = Session()
    board[Sum].register(Sum, replace_latest)
    section = MarkdownSection[None](title="Tools", key="tools", template="Use add.", tools=[_tool(handler)])
    prompt = Prompt(PromptTemplate[None](ns="bench", key="add", sections=[section]))
    executor = ToolExecutor(prompt=prompt, session=board, policy=POLICY)
    asked = [("c1", "math__add", ARGS)]

    def call() -> str:
        return executor.execute(asked)[0][0]["content"]

    async def call_async() -> str:
        return (await executor.execute_async(asked))[0][0]["content"]

    for _ in range(history):
        call()
    return call if handler == "def" else call_async


ENTRIES = {
    "by hand": by_hand,
    "layer": layer,
    "bare": bare,
    "inline": inline,
    "governed": governed,
    "session": session,
}
