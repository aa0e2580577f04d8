"""A model reads a large result of its own chat in pages, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import Budgets, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.tools import File
from demiurge.values.refs import ref_of

LOG = "\n".join(f"{number:04} canary of the log" for number in range(200))
TABLE = b"month,sales\n1,20\n"
NAME = "core__read_result"
UNIT = "demiurge/Demiurge@1/"


@tool(effect=ToolEffect.READ_ONLY)
def read_log() -> str:
    """Read the log."""
    return LOG


@tool(effect=ToolEffect.READ_ONLY)
def export_table() -> ToolResult[None]:
    """Export the table."""
    return ToolResult("Exported.", parts=[File(data=TABLE, name="a.csv"), File(data=b"\x80\x81")])


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider) -> World:
    policy = ToolPolicy(("read_log", "export_table", NAME), budgets=Budgets(max_result_bytes=1_000))
    return World.open(
        folder,
        [read_log, export_table],
        policy,
        provider="openai-responses",
        base_url=provider.url,
        environment={"LLM_API_KEY": "sk-test"},
    )


async def called(world: World, provider: Provider, chat: str, name: str, **arguments: Any) -> tuple[Any, str]:
    """Lets the model make one call. Returns the call as the chat shows it, and the text that the model got."""
    provider.say(provider.answer(provider.call(name, arguments)), provider.answer(provider.text("Done.")))
    reply = await world.chat(chat).send("Go on.")
    assert reply.status == "done"
    [call] = reply.tool_calls
    return call, [entry["output"] for entry in provider.seen[-1]["input"] if "output" in entry][-1]


async def test_a_model_reads_all_pages_of_a_result_that_was_too_large(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        _, told = await called(world, provider, "a", "read_log")
        ref = ref_of(LOG.encode())
        assert told.endswith(f"It is stored as {ref}. Read it in pages with {NAME}.")
        read, offset = "", 0
        for _ in LOG:
            call, text = await called(world, provider, "a", NAME, ref=ref, offset=offset, limit=700)
            assert call.ok
            assert "text" not in call.result
            read, offset = read + text.partition("\n\n")[2], call.result["next_offset"]
            if offset is None:
                break
        assert read == LOG
        _, told = await called(world, provider, "a", "export_table")
        assert ref_of(TABLE) in told
        _, text = await called(world, provider, "a", NAME, ref=ref_of(TABLE))
        assert text.endswith(TABLE.decode())
        assert (await world.replay())["ok"]


async def test_every_other_address_is_refused_alike(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await called(world, provider, "a", "read_log")
        await called(world, provider, "a", "export_table")
        state = await world.chat("a").state()
        assert state is not None
        blob = world.blobs.put(b"a blob that is no result")
        others = {
            "of another chat": ("b", ref_of(LOG.encode())),
            "that does not exist": ("a", ref_of(b"nothing")),
            "of a blob that is no result": ("a", blob),
            "of a message of this chat": ("a", state["messages"][0]["message_ref"]),
            "of a result's message": ("a", state["messages"][2]["message_ref"]),
            "of a result's view": ("a", state["messages"][2]["tool"]["view_ref"]),
        }
        for chat, ref in others.values():
            call, _ = await called(world, provider, chat, NAME, ref=ref)
            assert (call.error_code, call.message) == ("execution", f"This chat was given no result {ref}.")
        for ref in ("", "sha256:12", "../../etc/passwd"):
            call, _ = await called(world, provider, "a", NAME, ref=ref)
            assert call.error_code == "execution"
        call, _ = await called(world, provider, "a", NAME, ref=ref_of(b"\x80\x81"))
        assert "is not text" in call.message


async def test_an_erased_result_can_not_be_read(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await called(world, provider, "a", "read_log")
        ref = ref_of(LOG.encode())
        assert (await world.erase(ref, "asked to")).done
        call, text = await called(world, provider, "a", NAME, ref=ref)
        assert call.error_code == "execution"
        assert "canary" not in text + json.dumps(provider.seen[-1])


async def test_the_tool_is_offered_where_a_result_may_need_it(tmp_path: Path, provider: Provider) -> None:
    keys: dict[str, Any] = {"base_url": provider.url, "environment": {"LLM_API_KEY": "sk-test"}}
    limited = ToolPolicy(("workspace__read", NAME), budgets=Budgets(max_result_bytes=1_000))
    worlds = {
        "shipped tools alone": (World.open(tmp_path / "a", provider="openai-responses", **keys), False),
        "a limit": (World.open(tmp_path / "b", policy=limited, provider="openai-responses", **keys), True),
        "a tool of one's own": (World.open(tmp_path / "c", [export_table], provider="openai-responses", **keys), True),
    }
    for opening, is_offered in worlds.values():
        async with opening as world:
            provider.say(provider.answer(provider.text("Hello.")))
            await world.chat("a").send("Hello")
            assert (NAME in {each["name"] for each in provider.seen[-1]["tools"]}) == is_offered


async def test_a_fork_reads_what_its_chat_was_given_before(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await called(world, provider, "a", "read_log")
        await world.fork(tmp_path / "fork")
    async with opened(tmp_path / "fork", provider) as world:
        call, _ = await called(world, provider, "a", NAME, ref=ref_of(LOG.encode()))
        assert call.ok
