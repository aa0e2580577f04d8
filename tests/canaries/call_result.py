"""Results of tools, returned in each form, are asked for by every role, in Python and over HTTP: only the roles that
see records are given them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.canaries.search import Traces, find_values
from tests.server.conftest import LONGEST_S, served_on

from demiurge import Redaction, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.bootstrap.trace_view import records_of_chat, trace_trees
from demiurge.testing import ScriptedModel, call
from demiurge.values.caller import Caller

VALUES = {
    "text": "canary/text+0123456789=%",
    "mapping": "canary/mapping+0123456789=%",
    "value after a message": "canary/value+0123456789=%",
    "value that the model is not told": "canary/untold+0123456789=%",
    "value that renders itself": "canary/rendered+0123456789=%",
    "what a rendering leaves out": "canary/unrendered+0123456789=%",
    "words of a failure": "canary/failure+0123456789=%",
}
ROLES = ("viewer", "approver", "agent", "chief", "user")
HELLO = {"role": "user", "content": [{"type": "text", "text": "Call them all."}]}
SURFACES = {
    f"{where} of a{'n' * (role == 'approver')} {role}"
    for role in ("viewer", "approver")
    for where in (
        *("replies", "messages", "traces", "calls", "answers of the API", "blobs"),
        *("frames", "live stream", "AI chat"),
    )
}


@dataclass(frozen=True)
class Page:
    shown: str
    hidden: str

    def render(self) -> str:
        return f"Page: {self.shown}"


@tool(effect=ToolEffect.READ_ONLY)
def a_text() -> str:
    """A text."""
    return VALUES["text"]


@tool(effect=ToolEffect.READ_ONLY)
def a_mapping() -> dict[str, str]:
    """A mapping."""
    return {"found": VALUES["mapping"]}


@tool(effect=ToolEffect.READ_ONLY)
def a_value() -> ToolResult[dict[str, str]]:
    """A message and a value."""
    return ToolResult("Found one.", {"found": VALUES["value after a message"]})


@tool(effect=ToolEffect.READ_ONLY)
def an_untold_value() -> ToolResult[dict[str, str]]:
    """A value that the model does not read."""
    return ToolResult("Loaded.", {"f": VALUES["value that the model is not told"]}, exclude_value_from_context=True)


@tool(effect=ToolEffect.READ_ONLY)
def a_page() -> Page:
    """A value that renders itself."""
    return Page(VALUES["value that renders itself"], VALUES["what a rendering leaves out"])


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.drop_all())
def a_failure() -> ToolResult[None]:
    """A failure that the tool reports."""
    return ToolResult(VALUES["words of a failure"], success=False)


TOOLS = (a_text, a_mapping, a_value, an_untold_value, a_page, a_failure)
NAMES = tuple(made.name for made in TOOLS)


async def run_journey(tmp_path: Path) -> Traces:
    """Has a model call each tool, and a person call each of them; asks for all results as every role, while they come
    and afterwards."""
    model = ScriptedModel()
    surfaces: dict[str, list[bytes | str]] = {}
    async with (
        World.open(tmp_path / "w", TOOLS, ToolPolicy(NAMES), model=model) as world,
        served_on(world, None) as served,
    ):
        callers = {role: Caller(f"user:{role}", roles=(role,)) for role in ROLES}
        frames: dict[str, list[str]] = {role: [] for role in ROLES}
        lines: dict[str, list[str]] = {role: [] for role in ROLES}
        clients = {role: await served.client(role) for role in ROLES}
        watching = [
            *(asyncio.create_task(_watch(world.acting_as(callers[role]), frames[role])) for role in ROLES),
            *(asyncio.create_task(_stream(clients[role], lines[role])) for role in ROLES),
        ]
        await _until(lambda: all(lines.values()))
        model.say([call(name) for name in NAMES], "Done.")
        await world.chat("main").send("Call them all.")
        for number, name in enumerate(NAMES):
            await world.call(name, {}, f"call-{number}")
        turns = {}
        for role in ROLES:
            if role in ("agent", "user"):
                model.say([call(name) for name in NAMES], "Done.")
            turns[role] = await clients[role].post("/api/ai/chat", json={"messages": [HELLO], "chatId": f"of-{role}"})
        refs = [ref for record in world.journal.views() for ref in record["refs"]]
        await world.call(NAMES[0], {}, "last")
        await _until(lambda: all(map(_has_last, (*frames.values(), *lines.values()))))
        for role in ROLES:
            seen = await _seen(world.acting_as(callers[role]), clients[role], refs)
            seen |= {"frames": [*frames[role]], "live stream": [*lines[role]], "AI chat": [turns[role].text]}
            if role in ("viewer", "approver"):
                assert turns[role].status_code == 403
                surfaces |= {f"{where} of a{'n' * (role == 'approver')} {role}": seen[where] for where in seen}
                continue
            has_turn = ("AI chat",) * (role in ("agent", "user"))
            for where in ("replies", "messages", "traces", "answers of the API", "frames", "live stream", *has_turn):
                for place, value in VALUES.items():
                    assert find_values([value], *seen[where]), f"a{role}: {place} in {where}"
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return Traces(VALUES, surfaces)


async def _watch(world: World, seen: list[str]) -> None:
    async with aclosing(world.watch()) as frames:
        async for frame in frames:
            seen += [json.dumps(frame)]


async def _stream(client: Any, seen: list[str]) -> None:
    async with client.stream("GET", "/api/journal/stream?from=0&frames=true") as answer:
        async for line in answer.aiter_lines():
            seen += [line]


def _has_last(seen: list[str]) -> bool:
    """Returns whether frames hold the end of the last call."""
    return any("/last" in text and "closed" in text for text in seen)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_S):
        while not holds():
            await asyncio.sleep(0.01)


async def _seen(world: World, client: Any, refs: list[str]) -> dict[str, list[bytes | str]]:
    """Returns what a caller is told about the results, by the place."""
    chat = world.chat("main")
    backend = world.backend
    paths = [
        *("chats/main", "chats/main/messages", "chats/main/messages?max_result=100000", "chats/main/turns/1"),
        *("trace?chat=main", "journal?limit=1000", "state/demiurge%2FDemiurge@1/main"),
        *(f"tools/{name}/calls/call-{number}" for number, name in enumerate(NAMES)),
    ]
    answers = [await client.get(f"/api/{path}") for path in paths]
    trees = await trace_trees(backend, await asyncio.to_thread(records_of_chat, backend, "main"))
    return {
        "replies": [repr(await chat.reply()), repr(asdict(await chat.reply())), str((await chat.reply())._view())],
        "messages": [repr(await chat.messages())],
        "traces": [repr([tree.nodes for tree in trees])],
        "calls": [answer.text for answer in answers[-len(NAMES) :]],
        "answers of the API": [answer.text for answer in answers],
        "blobs": [(await client.get(f"/api/blob/{ref}")).text for ref in dict.fromkeys(refs)],
    }
