"""The web app of docs/how-to/web-app.md: two users, calls that wait, a busy chat, a stream, and who sees what."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.provider import Provider, serving

from demiurge.values.caller import Caller

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "web_app.py"
ORDER = Provider.call("order_part", {"part": "bolt", "count": 20})


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving() as running:
        monkeypatch.setenv("LLM_API_KEY", "sk-example")
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
async def app(provider: Provider) -> AsyncIterator[Any]:
    spec = importlib.util.spec_from_file_location("web_app", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    async with module.app.router.lifespan_context(module.app):
        yield module.app


def browser(app: Any, name: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer token-of-{name}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop.test", headers=headers)


def events(text: str) -> list[tuple[str, Any]]:
    """Returns the events of a stream, `(kind, data)`."""
    found = [each.removeprefix("event: ").split("\ndata: ") for each in text.split("\n\n") if each]
    return [(kind, json.loads(data)) for kind, data in found]


async def test_a_call_waits_for_its_user_and_the_answer_streams(app: Any, provider: Provider) -> None:
    provider.say(Provider.answer(ORDER), Provider.answer(Provider.text("20 bolts are on their way.")))
    async with browser(app, "ada") as ada, browser(app, "bob") as bob:
        said = await ada.post("/chats/main/messages", json={"text": "Order 20 bolts."})
        assert (said.status_code, said.json()) == (202, {"request_id": 1})
        [(kind, ended)] = events((await ada.get("/chats/main/turns/1/stream")).text)
        assert (kind, ended["status"]) == ("end", "awaiting_approval")

        [call] = (await ada.get("/chats/main/waiting")).json()
        assert (call["tool"], call["arguments"]) == ("order_part", {"part": "bolt", "count": 20})
        busy = await ada.post("/chats/main/messages", json={"text": "And nuts."})
        assert (busy.status_code, busy.json()["code"]) == (409, "chat_busy")

        assert (await bob.get("/chats/main/waiting")).json() == []
        place = f"/chats/main/waiting/{call['id']}"
        assert (await bob.post(place, json={"approve": True})).status_code == 404
        assert (await bob.get("/chats/main/messages")).status_code == 404
        assert (await bob.get("/chats/ada.main/messages")).status_code == 422

        assert (await ada.post(place, json={"approve": True})).status_code == 202
        *texts, (kind, ended) = events((await ada.get("/chats/main/turns/1/stream")).text)
        assert (kind, ended["status"], ended["text"]) == ("end", "done", "20 bolts are on their way.")
        assert "".join(text for _, text in texts) in ("", ended["text"])
        [result] = [each["tool"] for each in (await ada.get("/chats/main/messages")).json() if "tool" in each]
        assert (result["value"], result["result"]) == ({"bolt": 20}, {"message": "Ordered 20 of bolt."})
        again = await ada.post(place, json={"approve": True})
        assert again.status_code == 404


async def test_nobody_is_served_without_a_login(app: Any) -> None:
    async with browser(app, "eve") as eve:
        assert (await eve.get("/chats/main/messages")).status_code == 401
        assert "<form>" in (await eve.get("/")).text


async def test_users_of_one_world_are_kept_apart_by_the_app_alone(app: Any, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Hello, Ada.")))
    async with browser(app, "ada") as ada:
        await ada.post("/chats/main/messages", json={"text": "Hello."})
        await ada.get("/chats/main/turns/1/stream")
    bob = app.state.world.acting_as(Caller("user:bob", tenant="other", roles=("agent",)))
    assert [message["text"] for message in await bob.chat("ada.main").messages()] == ["Hello.", "Hello, Ada."]
