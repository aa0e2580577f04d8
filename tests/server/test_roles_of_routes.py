"""Each path for each role: what it may ask, and that a viewer is shown no private argument or result by any of them.

`ROWS` is a table of all paths of the application: a path without a row fails a test.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.bootstrap.backend.test_operations import ARGUMENTS
from tests.registry.proposals import proposal_of
from tests.server.conftest import Served
from tests.server.test_journal_stream import events

from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.server.routes.calls import LOCAL
from demiurge.values import cbor

CANARY = "canary-4111-0123456789"
ROLES = ("viewer", "agent", "approver", "chief", "user")
ALL = frozenset(ROLES)
RECORDS = ALL - {"viewer", "approver"}
WRITES = frozenset({"agent", "user"})
ASKED = frozenset({"agent", "approver", "user"})
DECIDES = frozenset({"approver", "user"})
CREATED = {"$tag": "ChatCreated", "$value": {"chat_id": "c9", "title": "T", "created_at_ms": 1}}
PROPOSES = frozenset({"agent", "chief", "user"})
JUDGES = frozenset({"chief", "user"})
READS_ISSUES = ALL - {"viewer"}
USER = frozenset({"user"})
PROPOSAL = proposal_of()
PROPOSAL["testCases"] = [*PROPOSAL["testCases"], {"id": "by_eye", "should": "pass", "check": "Look at it."}]
READ = {"digest": "{digest}"}
WHY = {"reason": "A test."}
ANSWERS = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
SAID = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "chatId": "c5"}


class Row(NamedTuple):
    """What a path answers: `status` to the roles that `may`, `refused` to the others. `query` and `body` (JSON, or
    bytes) are what is asked with; `{digest}` in a body stands for the digest of the proposal."""

    may: frozenset[str]
    status: int = 200
    query: str = ""
    body: Any = None
    refused: int = 403

    def answer(self, role: str) -> int:
        """The status for a role."""
        return self.status if role in self.may else self.refused


ROWS = {
    "GET /api/session": Row(ALL),
    "GET /api/openapi.json": Row(ALL),
    "POST /api/events": Row(WRITES, 202, body={"schema": "demiurge/ChatEvent@1", "value": CREATED}),
    "GET /api/events/{unit}/{seq}": Row(RECORDS),
    "POST /api/ai/chat": Row(WRITES, body=SAID),
    "GET /api/approvals": Row(ASKED),
    "GET /api/approvals/rules": Row(ASKED),
    "DELETE /api/approvals/rules/{rule_id}": Row(DECIDES, 404),
    "GET /api/approvals/{approval_id}": Row(ASKED),
    "POST /api/approvals/{approval_id}/rule": Row(DECIDES, body={"count": 1}),
    "POST /api/approvals/{approval_id}": Row(DECIDES, 409, body={"decision": "reject"}),
    "POST /api/approvals/{approval_id}/answer": Row(DECIDES, 409, body={"answer": "yes"}),
    "POST /api/blob": Row(WRITES, 201, body=b"bytes"),
    "GET /api/blob/{ref}": Row(RECORDS, refused=404),
    "HEAD /api/blob/{ref}": Row(RECORDS, refused=404),
    "POST /api/calls/{name}": Row(ALL, body=cbor.encode([])),
    "GET /api/chats": Row(ALL),
    "POST /api/chats": Row(WRITES, 201, body={}),
    "POST /api/chats/import": Row(USER, 201, body={"format": "demiurge.chat/1", "messages": []}),
    "GET /api/chats/{chat_id}": Row(ALL),
    "PATCH /api/chats/{chat_id}": Row(USER, body={"title": "New"}),
    "GET /api/chats/{chat_id}/messages": Row(ALL),
    "POST /api/chats/{chat_id}/messages": Row(WRITES, 202, body={"text": "x", "wait": True}),
    "GET /api/chats/{chat_id}/export": Row(RECORDS),
    "GET /api/chats/{chat_id}/claims": Row(RECORDS),
    "GET /api/chats/{chat_id}/turns/{request_id}": Row(ALL),
    "POST /api/chats/{chat_id}/cancel": Row(WRITES, 202),
    "GET /api/cost": Row(RECORDS),
    "GET /api/doubts": Row(ASKED),
    "POST /api/doubts/{doubt_id}": Row(DECIDES, 404, body={"outcome": "done", "reason": "seen"}),
    "GET /api/issues": Row(READS_ISSUES),
    "POST /api/issues": Row(READS_ISSUES, 201, body={"title": "Two endings"}),
    "GET /api/issues/{issue_id}": Row(READS_ISSUES),
    "POST /api/issues/{issue_id}/comments": Row(READS_ISSUES, 201, body={"body": "Seen."}),
    "POST /api/issues/{issue_id}/actions": Row(USER, body={"action": "reject", **WHY}),
    "POST /api/issues/{issue_id}/close": Row(JUDGES, 409),
    "POST /api/issues/{issue_id}/reopen": Row(JUDGES, 409),
    "GET /api/journal": Row(ALL),
    "GET /api/journal/rows": Row(ALL),
    "GET /api/journal/search": Row(ALL, query=f"?text={CANARY}"),
    "GET /api/journal/head": Row(ALL),
    "GET /api/journal/stream": Row(ALL, query="?from=0&frames=true"),
    "POST /api/journal/verify": Row(ALL),
    "GET /api/mcp": Row(USER),
    "POST /api/mcp": Row(USER, 201, body={"name": "wiki", "url": "https://wiki.example/mcp"}),
    "GET /api/mcp/{name}": Row(USER, 404),
    "POST /api/mcp/{name}/trust": Row(USER, 404, body={"tools": {"mcp__main__read": f"sha256:{'0' * 64}"}}),
    "POST /api/mcp/{name}/untrust": Row(USER, 404, body={}),
    "POST /api/mcp/{name}/refresh": Row(USER, 404),
    "POST /api/mcp/{name}/adopt": Row(USER, 404),
    "DELETE /api/mcp/{name}": Row(USER, 404),
    "GET /api/info": Row(ALL),
    "GET /api/manifest": Row(ALL),
    "GET /api/defs": Row(ALL),
    "GET /api/defs/{name}": Row(ALL),
    "GET /api/policy/explain": Row(ALL, query="?tool=order_part"),
    "GET /api/prompt-tools": Row(ALL),
    "GET /api/prompt-tools/{tool_id}": Row(ALL),
    "GET /api/prompt-tools/{tool_id}/history": Row(READS_ISSUES),
    "GET /api/prompt-tools/{tool_id}/versions/{version}": Row(READS_ISSUES),
    "GET /api/prompt-tools/{tool_id}/diff": Row(READS_ISSUES, query="?old=1&new=1"),
    "POST /api/prompt-tools/{tool_id}/rollback": Row(
        WRITES, 201, body={"version": 1, "rationale": "The first text was better."}
    ),
    "GET /api/prompt-tool-files": Row(USER),
    "POST /api/prompt-tool-files/sync": Row(USER),
    "POST /api/prompt-tool-files/export": Row(USER),
    "GET /api/proposals": Row(READS_ISSUES),
    "POST /api/proposals": Row(WRITES, 201, body=PROPOSAL),
    "GET /api/proposals/{proposal_id}": Row(READS_ISSUES),
    "GET /api/proposals/{proposal_id}/diff": Row(READS_ISSUES),
    "POST /api/proposals/{proposal_id}/checks": Row(PROPOSES),
    "POST /api/proposals/{proposal_id}/verdicts": Row(
        JUDGES, body={**READ, "case": "by_eye", "passed": True, "note": "Seen."}
    ),
    "POST /api/proposals/{proposal_id}/review": Row(
        frozenset({"chief"}), body={**READ, "recommend": "approve", **ANSWERS}
    ),
    "POST /api/proposals/{proposal_id}/skip-review": Row(USER, body={**READ, **WHY}),
    "POST /api/proposals/{proposal_id}/needs-changes": Row(JUDGES, body={**READ, **WHY}),
    "PUT /api/proposals/{proposal_id}": Row(USER, body=PROPOSAL),
    "POST /api/proposals/{proposal_id}/approve": Row(USER, 409, body={**READ, "read": True}),
    "POST /api/proposals/{proposal_id}/reject": Row(USER, body={**READ, **WHY}),
    "POST /api/proposals/{proposal_id}/withdraw": Row(USER, 409, body=READ),
    "POST /api/proposals/{proposal_id}/ask-model": Row(JUDGES, 409, body=READ),
    "POST /api/proposals/{proposal_id}/advisory-run": Row(JUDGES, 409, body=READ),
    "GET /api/state/{module}/cells": Row(ALL),
    "GET /api/state/{module}": Row(ALL, query="?key=c1"),
    "GET /api/tools": Row(ALL),
    "GET /api/tools/{tool_id}": Row(ALL),
    "POST /api/tools/{tool_id}/call": Row(WRITES, 202, body={"arguments": {"part": "bolt", "card": CANARY}}),
    "GET /api/tools/{tool_id}/calls/{call_id}": Row(ASKED, 404),
    "GET /api/trace": Row(ALL, query="?chat=c1"),
    "GET /api/workspace": Row(RECORDS),
    "GET /api/workspace/{name}/versions": Row(RECORDS),
    "GET /api/workspace/{name}/tree": Row(RECORDS),
    "GET /api/workspace/{name}/file": Row(RECORDS, query="?path=a.txt"),
    "GET /api/workspace/{name}/diff": Row(RECORDS, query="?old=1"),
    "PUT /api/workspace/{name}/file": Row(WRITES, query="?path=b.txt", body=b"text"),
    "DELETE /api/workspace/{name}/file": Row(WRITES, query="?path=b.txt"),
    "DELETE /api/chats/{chat_id}": Row(USER, query="?why=asked"),
}
"""The paths that take a token, in the order in which they are asked."""

OPEN = {
    "GET /api/health",
    "POST /api/login",
    "POST /api/logout",
    "GET /login",
    *(f"{method} {path}" for method in ("GET", "HEAD") for path in ("/assets/{name}", "/{_}")),
}
"""The paths that need no token, or end a session: other tests ask them."""

GATEWAY = {f"{method} /mcp" for method in ("DELETE", "GET", "HEAD", "POST")}
"""The path for MCP clients, which takes a token too: tests/mcp/gateway asks it."""


async def fill(served: Served) -> dict[str, str]:
    """A chat with a call that ran, one with a call that was rejected, one with a call that waits, a file, an approved
    prompt tool, a proposal that waits for its review, and one that waits for the user. Returns what stands for the
    parts of paths and bodies."""
    user, provider = await served.client(), served.provider
    await user.put("/api/workspace/main/file?path=a.txt", content=CANARY.encode())
    for chat, decision in (("c1", "approve"), ("c3", "reject"), ("c2", None)):
        call = provider.call("order_part", {"part": "bolt", "card": CANARY}, f"call_{chat}")
        provider.say(provider.answer(call), provider.answer(provider.text("So be it.")))
        await user.post(f"/api/chats/{chat}/messages", json={"text": "Order a bolt", "wait": True})
        [asked] = (await user.get("/api/approvals")).json()["approvals"]
        if decision is not None:
            await user.post(f"/api/approvals/{asked['id']}", json={"decision": decision})
            await served.world.settle()
    unit, ref = "demiurge/Demiurge@1/c1", (await user.get("/api/tools")).json()["tools_ref"]
    places = {"chat_id": "c1", "approval_id": asked["id"], "unit": unit, "seq": "0", "module": "demiurge/Demiurge@1"}
    places |= {"name": "main", "tool_id": "order_part", "ref": ref, "doubt_id": "00", "rule_id": "none"}
    return {**places, **await fill_proposals(user)}


async def fill_proposals(user: httpx.AsyncClient) -> dict[str, str]:
    made = [
        (await user.post("/api/proposals", json=given)).json()
        for given in (proposal_of(id="scene_timer", target="project"), proposal_of(id="scene_namer"), PROPOSAL)
    ]
    for one in made[:2]:
        await user.post(f"/api/proposals/{one['id']}/skip-review", json={"digest": one["digest"], **WHY})
    await user.post(f"/api/proposals/{made[0]['id']}/approve", json={"digest": made[0]["digest"], "read": True})
    waiting = made[2]
    return {
        "proposal_id": waiting["id"],
        "digest": waiting["digest"],
        "issue_id": made[1]["decision_issue"],
        "prompt_tool_id": "scene_timer",
    }


def routes_of(routes: Iterable[Any]) -> Iterator[str]:
    """Every method and path that an application has."""
    for route in routes:
        if (router := getattr(route, "original_router", None)) is not None:
            yield from routes_of(router.routes)
        else:
            path = re.sub(r":\w+}", "}", route.path)
            yield from (f"{method} {path}" for method in route.methods)


async def ask(served: Served, role: str, operation: str, places: dict[str, str]) -> tuple[int, str]:
    """Asks as a role; returns the status, and all that was answered. A stream is read to its first heartbeat."""
    client, row = await served.client(role), ROWS[operation]
    method, path = operation.split(" ", 1)
    place = {**places, "name": "read.info"} if path.startswith("/api/calls") else places
    place = {**place, "name": "demiurge/ChatState@1"} if path.startswith("/api/defs") else place
    place = {**place, "tool_id": places["prompt_tool_id"]} if path.startswith("/api/prompt-tools") else place
    url = re.sub(r"\{(\w+)\}", lambda part: place.get(part[1], "1"), path) + row.query
    if path == "/api/journal/stream":
        return await read_stream(client, url)
    body = (
        row.body | ({"digest": places["digest"]} if "digest" in row.body else {})
        if isinstance(row.body, dict)
        else row.body
    )
    given = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
    answer = await client.request(method, url, **given)
    return answer.status_code, answer.text + str(answer.headers)


async def read_stream(client: httpx.AsyncClient, url: str) -> tuple[int, str]:
    async with client.stream("GET", url) as response, asyncio.timeout(20):
        seen: list[Any] = []
        if response.status_code == 200:
            async for event in events(response):
                if event["event"] == "heartbeat":
                    break
                seen.append(event)
        return response.status_code, str(seen)


def test_every_path_has_a_row(served: Served) -> None:
    assert set(routes_of(served.app.routes)) == {*ROWS, *OPEN, *GATEWAY}


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_what_its_rows_say_and_no_more(served: Served, role: str) -> None:
    places = await fill(served)
    answered = {operation: (await ask(served, role, operation, places))[0] for operation in ROWS}
    assert answered == {name: row.answer(role) for name, row in ROWS.items()}


async def test_nobody_is_answered_without_a_token(served: Served) -> None:
    places = await fill(served)
    async with served.browser() as nobody:
        served.clients["nobody"] = nobody
        assert {(await ask(served, "nobody", operation, places))[0] for operation in ROWS} == {401}


@pytest.mark.parametrize("role", ["viewer", "chief", "agent"])
async def test_every_call_over_http_takes_its_role(served: Served, role: str) -> None:
    """`agent` and `chief` are refused what they lack; a `viewer` besides is shown no private part by what it may."""
    places = await fill(served)
    client = await served.client(role)
    real = {
        "read.state": ("demiurge/Demiurge@1", "c1"),
        "read.keys": ("demiurge/Demiurge@1",),
        "read.records": (None, 0, 1000),
        "read.attempts": ([places["approval_id"]],),
        "run.decide": (places["approval_id"], True, ""),
        "run.allow": (places["approval_id"], None, 1, 1.0, ""),
    }
    for name, operation in OPERATIONS.items():
        may_ask = role in operation.roles
        if name in LOCAL or (may_ask and operation.kind == "stream"):
            continue
        args = operation.dump_arguments(operation.bound(*{**ARGUMENTS, **real}.get(name, ())))
        answer = await client.post(f"/api/calls/{name}", content=cbor.encode(args))
        assert (answer.status_code == 403) != may_ask, (name, answer.status_code)
        if role == "viewer":
            assert CANARY.encode() not in answer.content, name
    assert [each["id"] for each in await served.world.approvals()] == [places["approval_id"]]


async def test_no_path_shows_a_viewer_a_private_part(served: Served) -> None:
    places = await fill(served)
    shown = [name for name in ROWS if CANARY in (await ask(served, "viewer", name, places))[1]]
    assert shown == []
    viewer = await served.client("viewer")
    journal = (await viewer.get("/api/journal?limit=1000")).json()["records"]
    for record in journal:
        query = {"unit": record["unit"], "kind": record["kind"]}
        for path in ("/api/journal", "/api/journal/rows"):
            assert CANARY not in (await viewer.get(path, params=query)).text, query
    refs = await addresses(served)
    assert [ref for ref in refs if CANARY in (await viewer.get(f"/api/blob/{ref}")).text] == []
    for ref in refs:
        answer = await viewer.post("/api/calls/read.message", content=cbor.encode([ref]))
        assert CANARY.encode() not in answer.content, ref
    user = await served.client()
    assert [ref for ref in refs if CANARY in (await user.get(f"/api/blob/{ref}")).text] != []


async def addresses(served: Served) -> set[str]:
    """Every address that a record of the world names."""
    text = (await (await served.client()).get("/api/journal?limit=1000")).text
    return set(re.findall(r"sha256:[0-9a-f]{64}", text))
