"""A desk with tools of every effect, models that say what they are told to, and what must hold of every run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from demiurge import (
    AgentLoop,
    InMemoryApprovals,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolUserError,
    tool,
)
from demiurge.models import ScriptedModel
from demiurge.tools import LoopSignal
from demiurge.tools.events import (
    AiEvent,
    AssistantFinal,
    Done,
    ErrorEvent,
    ToolCallResult,
    ToolCallStart,
)
from demiurge.values.clock import SeededEntropy
from demiurge.wire import anthropic, openai_chat, openai_responses
from demiurge.wire.items import Completion, Item, Message, Text, ToolCall, ToolOutput, Usage


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def text_answer(text: str, usage: Usage | None = None) -> Completion:
    return Completion(text, (), "stop", usage, (Message("assistant", (Text(text),)),))


def call_answer(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> Completion:
    words = (Message("assistant", (Text(text),)),) if text else ()
    return Completion(text, calls, "tool_calls", usage, (*words, *calls))


def call(call_id: str, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


class Desk:
    """`done` is what the tools did, `heard` what the runner's own listener heard."""

    def __init__(self, *, approvals: bool = False, **runner: Any) -> None:
        self.done: list[str] = []
        self.heard: list[AiEvent] = []
        self.waits = asyncio.Event()
        self.let_go = asyncio.Event()
        self.approvals = InMemoryApprovals() if approvals else None
        tools = self._tools()
        names = tuple(entry.name for entry in tools if entry.name != "hidden")
        policy = ToolPolicy(names, require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
        runner = {"policy": policy, "approvals": self.approvals, "emit": self.heard.append, **runner}
        self.runner = ToolRunner(tools, **runner)

    def _tools(self) -> list[Any]:
        done = self.done

        @tool(effect=ToolEffect.READ_ONLY)
        async def look(at: str) -> ToolResult[None]:
            """Looks at something."""
            done.append(f"+{at}")
            await asyncio.sleep(0)
            done.append(f"-{at}")
            return ToolResult(f"saw {at}")

        @tool(effect=ToolEffect.STATE_CHANGE, inline=True)
        def write(text: str) -> ToolResult[None]:
            """Writes something."""
            done.append(f"wrote {text}")
            return ToolResult(f"wrote {text}")

        @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, inline=True)
        def send(to: str) -> ToolResult[None]:
            """Sends something."""
            done.append(f"sent to {to}")
            return ToolResult(f"sent to {to}")

        @tool(effect=ToolEffect.READ_ONLY, inline=True)
        def fail() -> ToolResult[None]:
            """Fails."""
            raise ToolUserError("There is none.")

        @tool(effect=ToolEffect.STATE_CHANGE)
        async def wait() -> ToolResult[None]:
            """Waits until it is let go."""
            self.waits.set()
            await self.let_go.wait()
            return ToolResult("waited")

        @tool(effect=ToolEffect.READ_ONLY)
        async def signal() -> ToolResult[None]:
            """Speaks to the loop."""
            raise LoopSignal("Render again.", code="render_again")

        @tool(effect=ToolEffect.READ_ONLY, inline=True)
        def hidden() -> ToolResult[None]:
            """Is not for models."""
            raise AssertionError

        return [look, write, send, fail, wait, signal, hidden]

    def loop(self, *answers: Any, **settings: Any) -> Desk:
        """With a model that gives these answers."""
        self.model = ScriptedModel(answers)
        settings = {"provider": "openai-chat", "model_name": "m", "entropy": SeededEntropy(1), **settings}
        self.agent = AgentLoop(self.model, self.runner, **settings)
        return self

    def decide(self, how: Literal["approve", "reject"] = "approve") -> None:
        """All that waits."""
        assert self.approvals is not None
        for request in self.approvals.pending():
            assert request.approval_id is not None
            getattr(self.approvals, how)(request.approval_id, by="ada")


async def events_of(run: Any) -> list[AiEvent]:
    return [event async for event in run]


async def close_abandoned_tasks() -> None:
    """Gives the event loop the turns that it needs to close what was left by `break`."""
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)


def results(events: Iterable[AiEvent]) -> dict[str, str]:
    """By call id: `ok` or the error code."""
    return {e.tool_call_id: e.result["error_code"] if e.is_error else "ok" for e in events if type(e) is ToolCallResult}


def outputs(items: Sequence[Item]) -> dict[str, Any]:
    """What the model is told of each call, in order; of a failure its code."""
    told: dict[str, Any] = {}
    for item in items:
        if isinstance(item, ToolOutput):
            assert item.id not in told
            told[item.id] = json.loads(item.content)["error_code"] if item.is_error else item.content
    return told


def check_events(events: Sequence[AiEvent]) -> None:
    """One `done`, last; each call starts once, then has its one result; one final answer, or one error."""
    kinds = [type(event) for event in events]
    assert kinds.count(Done) == 1
    assert kinds[-1] is Done
    started: list[str] = []
    ended: list[str] = []
    for event in events:
        if isinstance(event, ToolCallStart):
            started.append(event.tool_call_id)
        if isinstance(event, ToolCallResult):
            assert event.tool_call_id in started
            ended.append(event.tool_call_id)
    assert len(set(started)) == len(started)
    assert sorted(started) == sorted(ended)
    assert kinds.count(AssistantFinal) + kinds.count(ErrorEvent) <= 1


def check_paired(items: Sequence[Item]) -> None:
    """Each call has an id of its own and one result, after it and in order, in every format that is sent."""
    calls = [item.id for item in items if isinstance(item, ToolCall)]
    assert len(set(calls)) == len(calls)
    chat = openai_chat.encode_messages(items)["messages"]
    sent = [entry["id"] for message in chat for entry in message.get("tool_calls") or ()]
    told = [message["tool_call_id"] for message in chat if message["role"] == "tool"]
    assert sent == told == calls
    for at, message in enumerate(chat):
        wanted = [entry["id"] for entry in message.get("tool_calls") or ()]
        assert [after.get("tool_call_id") for after in chat[at + 1 : at + 1 + len(wanted)]] == wanted
    blocks = [block for message in anthropic.encode_messages(items)["messages"] for block in message["content"]]
    assert _ids(blocks, "tool_use", "id") == _ids(blocks, "tool_result", "tool_use_id") == calls
    entries = openai_responses.encode_messages(items)["input"]
    sent = _ids(entries, "function_call", "call_id")
    assert sent == _ids(entries, "function_call_output", "call_id") == calls


def _ids(entries: Sequence[Mapping[str, Any]], kind: str, key: str) -> list[Any]:
    return [entry[key] for entry in entries if entry["type"] == kind]
