"""The local model is good for something: it calls the right tool with the right arguments (the real weights)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demiurge import ToolEffect, World, tool
from demiurge.apps.demiurge import app
from demiurge.models import GenerateRequest, LocalEngine, ModelClient
from demiurge.models.local import fetch
from demiurge.tools import CORE_TOOLS
from demiurge.wire.items import Message, Text

REQUESTS = [
    ("What time is it in Tokyo? Use the tool.", "core__get_current_time", {"timezone": "Asia/Tokyo"}),
    ("Tell me the current time in Paris", "core__get_current_time", {"timezone": "Europe/Paris"}),
    ("What time is it in UTC?", "core__get_current_time", {"timezone": "UTC"}),
    ("List my files", "workspace__list", {}),
    ("What is in the folder src?", "workspace__list", {"path": "src"}),
    ("Read README.md", "workspace__read", {"path": "README.md"}),
    ("Show me notes/today.txt", "workspace__read", {"path": "notes/today.txt"}),
    ('Write "buy milk" into list.txt', "workspace__write", {"path": "list.txt", "text": "buy milk"}),
    ("Show the manifest of this world", "introspect__manifest", {}),
    ("Look at the stored state of this chat", "introspect__state", {}),
]
ENOUGH = 9

IN_WORDS = ["Hello!", "Thanks, that helped.", "What is the capital of France?", "Write a haiku about rain."]
"""Messages that no tool is about."""


@tool(effect=ToolEffect.READ_ONLY)
def look_up_issues(query: str) -> str:
    """Search the issues of our tracker."""
    return f"#12 {query}: the button does nothing"


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    running = LocalEngine(fetch())
    running.start()
    yield running
    running.stop()


@pytest.mark.local_model
async def test_the_local_model_calls_the_right_tool_with_the_right_arguments(engine: LocalEngine) -> None:
    right = []
    async with ModelClient() as client:
        for say, tool, arguments in REQUESTS:
            request = GenerateRequest(
                provider="local",
                model=engine.model,
                items=(Message("system", (Text(app().system_prompt),)), Message("user", (Text(say),))),
                specs=tuple(tool.spec for tool in CORE_TOOLS),
                temperature="0",
                max_tokens=256,
                api_key=engine.api_key,
                base_url=engine.base_url,
            )
            calls = (await client.generate(request)).tool_calls
            if [call.name for call in calls] == [tool] and arguments.items() <= json.loads(
                calls[0].arguments_json
            ).items():
                right.append(say)
    assert len(right) >= ENOUGH, [say for say, _, _ in REQUESTS if say not in right]


@pytest.mark.local_model
async def test_a_tool_of_the_users_own_is_called_in_a_fresh_world_and_words_are_answered_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"HOME": str(tmp_path), "DEMIURGE_CACHE": os.environ["DEMIURGE_CACHE"]}
    async with World.open(tmp_path / "w", [look_up_issues], environment=environment, provider="local") as world:
        reply = await world.chat("main").send("Are there open issues about the login page?")
        assert [call.name for call in reply.tool_calls] == ["look_up_issues"]
        assert "login" in json.loads(reply.tool_calls[0].arguments_json or "{}")["query"]
        in_words = [await world.chat(f"chat-{n}").send(said) for n, said in enumerate(IN_WORDS)]
        assert [reply.tool_calls for reply in in_words] == [()] * len(IN_WORDS)
