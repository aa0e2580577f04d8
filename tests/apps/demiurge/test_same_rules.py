"""A world's chat and the loop in a program play a turn by the same rules, whatever the model says."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agents.desk_tools import call_answer, outputs, text_answer
from tests.apps.demiurge.test_reducer import LIST, READ, Chat

from demiurge import AgentLoop, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.models import ScriptedModel
from demiurge.wire.items import ToolCall

CALLS = st.builds(
    lambda name, arguments: ToolCall("", name, arguments, invalid=not arguments.endswith("}")),
    st.sampled_from([READ, LIST, "no__such"]),
    st.sampled_from(['{"path":"a"}', '{ "path": "a" }', '{"path":"b"}', '{"path":"a']),
)


@tool(effect=ToolEffect.READ_ONLY, inline=True)
def read_it(path: str) -> ToolResult[None]:
    """Reads."""
    return ToolResult("fine")


@tool(effect=ToolEffect.READ_ONLY, inline=True)
def list_it(path: str) -> ToolResult[None]:
    """Lists."""
    return ToolResult("fine")


NAMES = {READ: "read_it", LIST: "list_it"}


def in_a_world(answers: list[list[ToolCall]], rounds: int) -> Any:
    chat = Chat(settings={"max_tool_rounds": rounds})
    chat.say("Go")
    for calls in answers:
        chat.answer("" if calls else "Done.", *calls)
        while chat.tools:
            chat.result(chat.tools[0])
        if chat.turn["status"] != "model":
            break
    told = {m["tool"]["id"]: m["tool"]["error_code"] or "fine" for m in chat.cell["messages"] if m["role"] == "tool"}
    choices = [request["tool_choice"] and request["tool_choice"]["$tag"].lower() for request in chat.requests]
    return list(told.items()), choices, chat.turn["status"], chat.turn["code"]


async def in_a_loop(answers: list[list[ToolCall]], rounds: int) -> Any:
    named = [[replace(call, name=NAMES.get(call.name, call.name)) for call in calls] for calls in answers]
    model = ScriptedModel([call_answer(*calls) if calls else text_answer("Done.") for calls in named])
    runner = ToolRunner([read_it, list_it], policy=ToolPolicy(("read_it", "list_it")))
    loop = AgentLoop(model, runner, provider="openai-chat", model_name="m", max_tool_rounds=rounds)
    turn = await loop.complete("Go")
    told = outputs(turn.items)
    return list(told.items()), [request.tool_choice for request in model.requests], turn.status, turn.error_code


@settings(max_examples=40)
@given(st.lists(st.lists(CALLS, max_size=4), max_size=5), st.integers(0, 3))
def test_the_same_calls_run_and_the_turn_ends_alike(answers: list[list[ToolCall]], rounds: int) -> None:
    ids = iter(range(100))
    numbered = [[replace(call, id=f"c{next(ids)}") for call in calls] for calls in [*answers, []]]
    assert asyncio.run(in_a_loop(numbered, rounds)) == in_a_world(numbered, rounds)
