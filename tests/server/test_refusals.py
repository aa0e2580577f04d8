"""Requests that the HTTP API answers with an error: each has its HTTP status and its error code."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from tests.server.conftest import Served

from demiurge import World
from demiurge.values import cbor

JSON = {"content-type": "application/json"}
HASH = f"sha256:{'0' * 64}"
REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/api/chats/none", {}, 404, "chat_unknown"),
    ("GET", "/api/approvals/00ff", {}, 404, "no_approval"),
    ("GET", "/api/tools/none", {}, 404, "no_tool"),
    ("GET", "/api/defs/none", {}, 404, "no_definition"),
    ("GET", "/api/state/demiurge/Demiurge@1?key=none", {}, 404, "no_cell"),
    ("GET", "/api/policy/explain", {}, 422, "validation"),
    ("GET", "/api/trace", {}, 422, "validation"),
    ("GET", f"/api/trace?event_hash={HASH}&chat=c1", {}, 422, "validation"),
    ("GET", "/api/trace?chat=c1&count=0", {}, 422, "validation"),
    ("GET", "/assets/none.js", {}, 404, "no_path"),
    ("GET", "/api/chats", {"headers": {"host": "elsewhere.example"}}, 400, "bad_host"),
    ("POST", "/api/chats", {"headers": {"origin": "http://elsewhere.example"}, "json": {}}, 403, "bad_origin"),
    ("POST", "/api/chats", {"headers": {"authorization": "Bearer none"}, "json": {}}, 401, "unauthorized"),
    ("POST", "/api/chats", {"content": b'{"title": ', "headers": JSON}, 400, "invalid_json"),
    ("POST", "/api/chats", {"content": b'{"title": "a", "title": "b"}', "headers": JSON}, 400, "invalid_json"),
    ("POST", "/api/login", {"json": {"code": "none"}}, 401, "bad_login"),
    ("POST", "/api/calls/none", {"content": cbor.encode([])}, 404, "unknown_op"),
    ("POST", "/api/calls/read.info", {"content": b"\xff"}, 400, "bad_body"),
    ("POST", "/api/calls/read.info", {"content": cbor.encode({})}, 400, "bad_body"),
]


async def test_every_refusal_has_its_status_and_its_code(served: Served) -> None:
    user = await served.client()
    found = []
    for method, path, options, _, _ in REFUSED:
        answer = await user.request(method, path, **options)
        found.append((method, path, options, answer.status_code, answer.json().get("code")))
    assert found == REFUSED


async def test_the_key_of_an_event_has_1_to_200_characters(served: Served) -> None:
    user = await served.client()
    made = {"chat_id": "c1", "title": "T", "created_at_ms": 1}
    body = {"schema": "demiurge/ChatEvent@1", "value": {"$tag": "ChatCreated", "$value": made}}
    found = []
    for key in ("", "k" * 200, "k" * 201):
        answer = await user.post("/api/events", json=body, headers={"idempotency-key": key})
        found.append((answer.status_code, answer.json().get("code")))
    assert found == [(422, "validation"), (202, None), (422, "validation")]


async def test_a_failure_that_nobody_expected_is_in_the_log_alone(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_world: World) -> None:
        raise RuntimeError("canary-8c21")

    monkeypatch.setattr(World, "manifest", fail)
    user = await served.client()
    answer = await user.get("/api/manifest")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "canary" not in answer.text
    [logged] = [record for record in caplog.records if record.name == "demiurge.server.errors"]
    assert logged.getMessage() == "A request failed unexpectedly (RuntimeError)."
    assert "canary-8c21" in str(logged.exc_info)


async def test_a_length_that_is_no_number_is_refused_whatever_server_passes_it_on(served: Served) -> None:
    headers = {"content-length": "1x", "host": "127.0.0.1"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(served.app), base_url=served.base) as client:
        answer = await client.post("/api/chats", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()) == (
        400,
        {"code": "bad_length", "message": "Content-Length is no number."},
    )


async def test_a_token_is_found_behind_its_scheme(served: Served) -> None:
    secret = (await served.world.tokens.add("user:ada", ["user"])).secret
    found = {}
    async with served.browser() as browser:
        for given in (f"Bearer {secret}", f"bearer   {secret}", f"Basic {secret}", secret, f"Bearer x {secret}", ""):
            answer = await browser.get("/api/session", headers={"authorization": given})
            found[given.replace(secret, "...")] = answer.status_code
    assert found == {"Bearer ...": 200, "bearer   ...": 200, "Basic ...": 401, "...": 401, "Bearer x ...": 401, "": 401}


async def test_the_log_names_who_asked_and_nobody_as_a_dash(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    user = await served.client()
    with caplog.at_level(logging.INFO, "demiurge.server.guard"):
        await user.get("/api/info?code=canary")
        async with served.browser() as nobody:
            await nobody.get("/api/info")
    lines = [record.getMessage() for record in caplog.records if record.name == "demiurge.server.guard"]
    ends = [
        (line.partition(" ms ")[2], line.startswith(f"GET /api/info {status} "))
        for line, status in zip(lines, (200, 401), strict=True)
    ]
    assert ends == [("user:user", True), ("-", True)]
    assert "canary" not in "".join(lines)
