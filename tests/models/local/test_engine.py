from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demiurge.errors import Unavailable
from demiurge.models.client import ModelClient
from demiurge.models.local import LocalEngine, Progress, fetch, locate
from demiurge.models.request import GenerateRequest
from demiurge.tools.spec import ToolSpec
from demiurge.wire.items import Item, Message, NamedTool, Text, ToolCall, ToolChoice, ToolOutput

SYSTEM = Message(
    "system",
    (
        Text(
            "You are a helpful assistant. Answer greetings, thanks, small talk, general knowledge and maths yourself "
            "in plain text, without any function. Call a function only when the request is about files or the time."
        ),
    ),
)


def spec(name: str, description: str, argument: str, about: str) -> ToolSpec:
    return ToolSpec(
        name,
        description,
        {
            "type": "object",
            "properties": {argument: {"type": "string", "description": about}},
            "required": [argument],
            "additionalProperties": False,
        },
    )


SPECS = (
    spec("files__read", "Read the text of one file.", "path", "Path of the file"),
    spec("clock__now", "Get the current time in a time zone.", "timezone", "IANA name of the time zone"),
)


def test_without_the_weights_it_says_how_to_get_them(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "nothing.gguf")
    with pytest.raises(Unavailable, match="demiurge model fetch"):
        engine.start()
    assert not engine.running


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "m.gguf"
    weights.write_bytes(b"GGUF")
    bare = tmp_path / "python-without-packages"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(Unavailable, match=r"demiurge-runtime\[local\]"):
        LocalEngine(weights).start()


def test_a_file_that_is_no_model_is_said_to_be_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "m.gguf"
    weights.write_bytes(b"no model")
    engine = LocalEngine(weights)
    with pytest.raises(Unavailable, match=r"m\.gguf"):
        engine.start()
    assert not engine.running
    assert capfd.readouterr() == ("", "")


def test_stopping_an_engine_that_was_not_started_does_nothing() -> None:
    LocalEngine().stop()


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    """The real model; where it is not in the cache it is fetched (1.1 GB), which DEMIURGE_TEST_LOCAL_MODEL=1 allows."""
    if locate() is None:
        assert os.environ.get("DEMIURGE_TEST_LOCAL_MODEL") == "1", "fetch the model first: demiurge model fetch"
        fetch()
    running = LocalEngine(context=4096)
    running.start()
    yield running
    running.stop()


def ask(engine: LocalEngine, *items: Item, choice: ToolChoice | None = None, limit: int = 200) -> GenerateRequest:
    return GenerateRequest(
        provider="local",
        model=engine.model,
        items=(SYSTEM, *items),
        specs=SPECS,
        tool_choice=choice,
        temperature="0",
        max_tokens=limit,
        api_key=engine.api_key,
        base_url=engine.base_url,
    )


def user(text: str) -> Message:
    return Message("user", (Text(text),))


@pytest.mark.local_model
class TestTheRealModel:
    async def test_the_local_model_calls_a_tool_and_answers_with_the_result(self, engine: LocalEngine) -> None:
        async with ModelClient() as client:
            asked = user("Read notes/todo.txt")
            first = await client.generate(ask(engine, asked))
            (call,) = first.tool_calls
            assert (call.name, json.loads(call.arguments_json)) == ("files__read", {"path": "notes/todo.txt"})
            assert first.finish_reason == "tool_calls"
            assert first.usage is not None
            output = ToolOutput(call.id, "buy twelve oranges")
            second = await client.generate(ask(engine, asked, *first.items, output))
        assert second.tool_calls == ()
        assert "oranges" in second.text

    async def test_the_local_model_greets_without_a_tool(self, engine: LocalEngine) -> None:
        async with ModelClient() as client:
            completion = await client.generate(ask(engine, user("hello")))
        assert completion.tool_calls == ()
        assert completion.text

    async def test_a_tool_choice_makes_the_local_model_call_that_tool(self, engine: LocalEngine) -> None:
        async with ModelClient() as client:
            completion = await client.generate(ask(engine, user("I am in Lisbon."), choice=NamedTool("clock__now")))
        (call,) = completion.tool_calls
        assert isinstance(call, ToolCall)
        assert call.name == "clock__now"
        assert set(json.loads(call.arguments_json)) == {"timezone"}

    async def test_a_call_that_the_limit_cuts_is_not_valid(self, engine: LocalEngine) -> None:
        async with ModelClient() as client:
            completion = await client.generate(
                ask(engine, user("Read the file notes/a-rather-long-name-of-a-file.txt"), limit=22)
            )
        assert completion.finish_reason == "length"
        assert all(call.invalid for call in completion.tool_calls)

    def test_the_engine_answers_only_requests_with_its_key(self, engine: LocalEngine) -> None:
        assert engine.base_url.startswith("http://127.0.0.1:")
        body = {"messages": [{"role": "user", "content": "hi"}]}
        assert httpx.post(f"{engine.base_url}/chat/completions", json=body, timeout=60).status_code == 401
        root = engine.base_url.removesuffix("/v1")
        assert httpx.get(root, timeout=60).status_code in (401, 404)
        origin = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        allowed = httpx.options(f"{engine.base_url}/chat/completions", headers=origin, timeout=60)
        assert allowed.headers.get("access-control-allow-origin", "") in ("", "http://127.0.0.1")

    def test_loading_the_engine_reports_progress_and_prints_nothing(
        self, engine: LocalEngine, capfd: pytest.CaptureFixture[str]
    ) -> None:
        seen: list[Progress] = []
        second = LocalEngine(context=512)
        second.start(seen.append)
        assert second.running
        second.stop()
        assert [report.phase for report in seen] == ["load", "load"]
        assert capfd.readouterr() == ("", "")

    def test_an_engine_process_that_died_is_started_again(self) -> None:
        engine = LocalEngine(context=512)
        engine.start()
        killed = engines_of(os.getpid())[-1]
        os.kill(killed, signal.SIGKILL)
        while engine.running:
            time.sleep(0.01)
        engine.start()
        assert engines_of(os.getpid())[-1] != killed
        engine.stop()

    def test_the_engine_process_ends_with_a_parent_that_is_killed(self) -> None:
        code = (
            "from demiurge.models import LocalEngine as E; e = E(context=512); e.start(); print(1, flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"1\n"
            (child,) = engines_of(parent.pid)
            parent.kill()
        while Path(f"/proc/{child}").exists():
            time.sleep(0.01)


def engines_of(parent: int) -> list[int]:
    """The engine processes of one process, oldest first (Linux)."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"serve.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
