"""Each path for each role: what it may ask, and that a viewer is shown no private argument or result by any of them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from tests.server.conftest import Served
from tests.server.test_journal_stream import events

CANARY = "canary-4111-0123456789"
ROLES = ("viewer", "agent", "approver", "chief", "user")
READERS = frozenset(ROLES)

MAY = {
    "GET /api/approvals": {"agent", "approver", "user"},
    "GET /api/doubts": {"agent", "approver", "user"},
    "POST /api/events": {"agent", "user"},
    "POST /api/blob": {"agent", "user"},
    "POST /api/chats": {"agent", "user"},
    "POST /api/chats/{chat_id}/messages": {"agent", "user"},
    "POST /api/chats/{chat_id}/cancel": {"agent", "user"},
    "POST /api/ai/chat": {"agent", "user"},
    **{f"GET /api/workspace{rest}": {"agent", "chief", "user"} for rest in ("", "/{name}/file", "/{name}/tree")},
    **{f"GET /api/workspace/{{name}}/{what}": {"agent", "chief", "user"} for what in ("versions", "diff")},
    "PUT /api/workspace/{name}/file": {"agent", "user"},
    "DELETE /api/workspace/{name}/file": {"agent", "user"},
}
"""Who may use a path, where not every role may. A path that is not here is asked by every role all the same."""

QUERIES = {
    "/api/policy/explain": "?tool=order_part",
    "/api/workspace/{name}/file": "?path=a.txt",
    "/api/workspace/{name}/diff": "?old=1",
}
BODIES: dict[str, Any] = {
    "POST /api/events": {
        "schema": "demiurge/ChatEvent@1",
        "value": {"$tag": "ChatCreated", "$value": {"chat_id": "c9", "title": "T", "created_at_ms": 1}},
    },
    "POST /api/chats": {},
    "POST /api/chats/{chat_id}/messages": {"text": "x"},
    "POST /api/ai/chat": {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "chatId": "c1"},
    "POST /api/login": {"token": "x"},
}
STREAM = "/api/journal/stream"


async def fill(served: Served) -> dict[str, str]:
    """A chat with a call that ran, one with a call that waits, a file. Returns what stands for the parts of paths."""
    user, provider = await served.client(), served.provider
    await user.put("/api/workspace/main/file?path=a.txt", content=CANARY.encode())
    call = provider.call("order_part", {"part": "bolt", "card": CANARY})
    provider.say(provider.answer(call), provider.answer(provider.text("Ordered.")))
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    await served.world.settle()
    provider.say(provider.answer(provider.call("order_part", {"part": "nut", "card": CANARY}, "call_2")))
    await user.post("/api/chats/c2/messages", json={"text": "Order a nut", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    unit, ref = "demiurge/Demiurge@1/c1", (await user.get("/api/tools")).json()["tools_ref"]
    places = {"chat_id": "c1", "approval_id": asked["id"], "unit": unit, "seq": "0", "module": "demiurge/Demiurge@1"}
    return {**places, "name": "main", "tool_id": "order_part", "ref": ref, "doubt_id": "none"}


def operations(served: Served) -> list[tuple[str, str]]:
    """Every method and path of the API, as the application has them."""
    paths = served.app.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods if path != STREAM]


async def ask(served: Served, role: str, method: str, path: str, places: dict[str, str]) -> tuple[int, str]:
    client = await served.client(role)
    place = {**places, "name": "read.info"} if path.startswith("/api/calls") else places
    place = {**place, "name": "demiurge/ChatState@1"} if path.startswith("/api/defs") else place
    url = re.sub(r"\{(\w+)\}", lambda part: place.get(part[1], "1"), path) + QUERIES.get(path, "")
    url = url.replace("/c1/cancel", "/c2/cancel")  # whose turn is open
    body = BODIES.get(f"{method} {path}")
    content = {"json": body} if body is not None else {"content": b"\x80" if "calls" in path else b""}
    if path == "/api/state/{module}":
        url += "?key=c1"
    answer = await client.request(method, url, **content)
    return answer.status_code, answer.text + str(answer.headers)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_is_said_and_no_more(served: Served, role: str) -> None:
    places = await fill(served)
    found = operations(served)
    assert set(MAY) <= {f"{method} {path}" for method, path in found}
    wrong = []
    for method, path in found:
        if path in ("/api/logout", "/api/login", "/api/health"):
            continue
        status, _ = await ask(served, role, method, path, places)
        allowed = role in MAY.get(f"{method} {path}", READERS)
        if status >= 500 or ((status == 403) == allowed and f"{method} {path}" in MAY) or status == 401:
            wrong.append((method, path, status))
    assert wrong == []


async def test_nobody_is_answered_without_a_token(served: Served) -> None:
    places = await fill(served)
    async with httpx.AsyncClient(base_url=served.base) as nobody:
        served.clients["nobody"] = nobody
        for method, path in [*operations(served), ("GET", STREAM)]:
            if path not in ("/api/health", "/api/login"):
                assert (await ask(served, "nobody", method, path, places))[0] == 401, (method, path)


async def test_no_path_shows_a_viewer_a_private_part(served: Served) -> None:
    places = await fill(served)
    shown: list[str] = []
    for method, path in operations(served):
        if path != "/api/logout" and CANARY in (await ask(served, "viewer", method, path, places))[1]:
            shown.append(f"{method} {path}")
    viewer = await served.client("viewer")
    journal = (await viewer.get("/api/journal?limit=1000")).json()["records"]
    for record in journal:
        page = await viewer.get("/api/journal", params={"unit": record["unit"], "kind": record["kind"]})
        if CANARY in page.text:
            shown.append(f"journal {record['unit']} {record['kind']}")
    bodies = {ref: (await viewer.get(f"/api/blob/{ref}")).text for ref in await addresses(served)}
    shown += [f"blob {ref}" for ref, text in bodies.items() if CANARY in text]
    async with viewer.stream("GET", f"{STREAM}?from=0&frames=true") as response, asyncio.timeout(20):
        seen = 0
        async for event in events(response):
            if event["event"] == "heartbeat":
                break
            seen += 1
            if CANARY in str(event):
                shown.append(f"stream {event['id']}")
    assert seen == len(journal)
    assert shown == []
    user = await served.client()
    assert CANARY in (await user.get("/api/journal?limit=1000")).text or CANARY in (await blobs_of(served))


async def addresses(served: Served) -> set[str]:
    """Every address that a record of the world names."""
    text = (await (await served.client()).get("/api/journal?limit=1000")).text
    return set(re.findall(r"sha256:[0-9a-f]{64}", text))


async def blobs_of(served: Served) -> str:
    user = await served.client()
    return "".join([(await user.get(f"/api/blob/{ref}")).text for ref in await addresses(served)])
