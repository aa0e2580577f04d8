"""Images and files of tools over HTTP: only the public ones reach a viewer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_result_parts import NOTES, PNG, opened
from tests.bootstrap.test_result_parts import provider as provider  # the fixture with the turn of both tools
from tests.provider import Provider
from tests.server.conftest import Served, served_on

from demiurge.values.refs import ref_of


@pytest.fixture
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    async with opened(tmp_path / "w", provider) as world, served_on(world, provider) as found:
        await world.chat("c").send("Plot it.")
        yield found


@pytest.mark.parametrize("role", ["viewer", "approver"])
async def test_a_public_image_is_read_and_a_private_file_is_not(served: Served, role: str) -> None:
    caller, user = await served.client(role), await served.client()
    image = await caller.get(f"/api/blob/{ref_of(PNG)}")
    assert (image.status_code, image.content, image.headers["content-type"]) == (200, PNG, "image/png")
    assert (await user.get(f"/api/blob/{ref_of(NOTES)}")).content == NOTES
    for method in ("GET", "HEAD"):
        hidden = await caller.request(method, f"/api/blob/{ref_of(NOTES)}")
        assert hidden.status_code == 404


async def test_no_route_tells_a_viewer_of_a_private_file(served: Served) -> None:
    viewer = await served.client("viewer")
    unit = "demiurge/Demiurge@1/c"
    told = ""
    for path in ("chats", "chats/c", "chats/c/messages", "journal", f"journal?unit={unit}", "trace?chat=c", "info"):
        answer = await viewer.get(f"/api/{path}")
        told += answer.text
    assert ref_of(PNG) in told
    assert "notes.txt" not in told
    assert NOTES.decode() not in told


async def test_the_journal_stream_has_the_public_image_alone(served: Served) -> None:
    viewer, told = await served.client("viewer"), ""
    async with viewer.stream("GET", "/api/journal/stream?from=0") as response:
        async for line in response.aiter_lines():
            told += line
            if line.startswith("data:") and '"TurnDone"' in line:
                break
            if len(told) > 20_000 or "Here it is" in line or line.startswith(":"):
                break
    assert "record" in told
    assert "notes.txt" not in told
    assert NOTES.decode() not in told


async def test_a_long_result_is_cut_for_a_client_that_says_how_much_it_takes(served: Served) -> None:
    user = await served.client()

    async def tool_answers(**query: int) -> list[dict[str, Any]]:
        said = (await user.get("/api/chats/c/messages", params=query)).json()["messages"]
        return [message["tool"] for message in said if "tool" in message]

    whole, cut = await tool_answers(), await tool_answers(max_result=1)
    assert len(whole) == len(cut) > 0
    for full, short in zip(whole, cut, strict=True):
        text = json.dumps(full["result"], ensure_ascii=False, separators=(",", ":"))
        assert "result_cut" not in full
        assert short["result_cut"] == {"bytes": len(text.encode()), "head": text[:4000]}
        assert short["content"] == full["content"][:4000]
        assert short["content_cut"] == {"bytes": len(full["content"].encode())}
        assert short["result"] == ({"parts": full["result"]["parts"]} if "parts" in (full["result"] or {}) else None)
        assert short["view_ref"] == full["view_ref"]
    assert await tool_answers(max_result=10**6) == whole
