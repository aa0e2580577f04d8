"""A recorded chat world: chats that grow long, with a model that answers from a script and a tool that runs."""

from __future__ import annotations

import asyncio
from typing import Any

from demiurge.apps.demiurge import CHAT, app
from demiurge.models.request import GenerateRequest
from demiurge.stores import Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import StaticToolSource
from demiurge.values.clock import SystemClock
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.items import Completion, Message, Text, ToolCall, Usage
from demiurge.world.effect import Adapter
from demiurge.world.effects.llm import LlmGenerate
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.messages import user_blob
from demiurge.world.secrets import Secrets
from demiurge.world.toolset import encode_toolset
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE, workspace_reducer

__all__ = ["chat_unit", "chats_manifest", "host_of", "put_tools", "record", "say"]

SYSTEM = user_blob("Be brief.", role="system")
ADD = "add"
EVERY = 4
"""One turn of so many calls the tool."""


async def _add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SOURCE = StaticToolSource([Tool.wrap(_add, name=ADD, effect=ToolEffect.READ_ONLY)])


class Script:
    """Answers in a sentence; a message that ends in `?` gets so many tool calls at once first."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once, self.calls = at_once, 0

    def call(self) -> ToolCall:
        self.calls += 1
        return ToolCall(f"call_{self.calls}", ADD, f'{{"a": 2, "b": {self.calls}}}')

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        last = request.items[-1]
        text = last.content[0].text if isinstance(last, Message) and isinstance(last.content[0], Text) else ""
        if text.endswith("?"):
            calls = tuple(self.call() for _ in range(self.at_once))
            return Completion("", calls, "tool_calls", Usage(200, 20), calls, "resp_1", "m1")
        answer = f"That is answer {len(request.items)}, in about as many words as an answer to a short question has."
        message = Message("assistant", (Text(answer),))
        return Completion(answer, (), "stop", Usage(200, 20), (message,), "resp_1", "m1")


def chats_manifest(*, asks_a_person: bool = False) -> Manifest:
    """The shipped app under a policy that allows the tool, if a person does where it `asks_a_person`."""
    reducers = {**app().reducers, WORKSPACE: workspace_reducer()}
    policy = ToolPolicy(allowed_tools=(ADD,), require_approval_for_tools=(ADD,) if asks_a_person else ())
    settings = {"system_ref": ref_of(SYSTEM)}
    return Manifest.build(
        app().definitions, app().root, reducers, tool_policy=policy, toolset=SOURCE.specs(), settings=settings
    )


def host_of(store: Store, at_once: int = 1, *, asks_a_person: bool = False) -> Host:
    """A host that is not started yet; the model asks for `at_once` tool calls when it asks for any."""
    store.put_blob(SYSTEM)
    adapters: list[Adapter] = [
        LlmGenerate(Script(at_once), Secrets({"LLM_API_KEY": "none"})),
        ToolCalls(SOURCE, SystemClock()),
    ]
    return Host(store, chats_manifest(asks_a_person=asks_a_person), adapters)


def chat_unit(number: int) -> Unit:
    return Unit(CHAT, f"chat-{number}")


async def say(host: Host, chat: int, turn: int, tools: Ref, *, asks: bool | None = None) -> None:
    """One turn of a chat, from the message to its answer; with a tool call if it `asks`."""
    unit = chat_unit(chat)
    asks = turn % EVERY == 0 if asks is None else asks
    text = f"This is message {turn} of the chat; what is 2 and {turn}" + ("?" if asks else ".")
    value = {
        "chat_id": unit.key,
        "request_id": turn,
        "text": text,
        "message_ref": await host.put_blob(user_blob(text)),
        "model": "m1",
        "provider": "openai-responses",
        "max_tokens": 100,
        "tools_ref": tools,
        "tool_choice": None,
    }
    await host.submit("demiurge/UserMessage@1", value)
    await host.settle(unit)


async def put_tools(host: Host) -> Ref:
    return await host.put_blob(encode_toolset("openai-responses", SOURCE.specs()))


async def record(store: Store, records: int, chats: int) -> int:
    """Let `chats` chats talk until the world has at least this many records; the number of turns."""
    host = host_of(store)
    await host.start()
    tools = await put_tools(host)
    turns = 0

    async def one(chat: int) -> None:
        nonlocal turns
        unit = chat_unit(chat)
        cell = host.state(unit).cell
        if cell is None:
            await host.submit("demiurge/ChatCreated@1", {"chat_id": unit.key, "title": "t", "created_at_ms": 1})
        turn = 0 if cell is None else cell["last_request_id"]
        while host.state(unit).seq < records // chats:
            turn += 1
            await say(host, chat, turn, tools)
            turns += 1

    await asyncio.gather(*(one(chat) for chat in range(chats)))
    await host.close()
    return turns
