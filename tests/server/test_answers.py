"""The answers of the HTTP API, whole: each field, header and sentence, in one world with something of everything.

`answers.json` has what was answered to each of `asked`, in order. What differs from run to run (hashes, times, ids made
by chance, places in the journal) is left out. After a change that is meant, `python -m tests.server.test_answers`
writes the file again: read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.provider import Answer, Provider, serving
from tests.server.conftest import Served, serving_world
from tests.server.test_roles_of_routes import fill
from tests.wire.test_attachments import PNG

from demiurge.server.guard import POLICY as PAGE_POLICY
from demiurge.values import cbor

ANSWERS = Path(__file__).with_name("answers.json")
HEADERS = frozenset(
    {
        *("accept-ranges", "allow", "cache-control", "content-disposition", "content-range", "content-type", "etag"),
        *("location", "x-demiurge-chat", "x-vercel-ai-data-stream", "content-security-policy", "set-cookie"),
    }
)
PLACES = frozenset({"position", "next", "before", "looked_at", "length", "records"})
"""Fields that say where in the journal something is: they move with each record that is written before."""

RECORDS = frozenset({"nodes", "rows", "records"})
"""Lists of records, of which the first is kept: which others there are is for the tests of what writes them."""

BY_CHANCE = (
    (r"\b[0-9a-f]{24,}\b", "<hash>"),
    (r"\b[0-9a-f]{16}\b", "<short hash>"),
    (r"\b(p|issue-)[0-9a-f]{10}\b", r"\1<id>"),
    (r"\bcall_[0-9a-z]{24}\b", "call_<id>"),
    (r"\b[0-9]{13,19}\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "<time>"),
    (r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b", "<weekday>"),
    (r"\b\d\d:\d\d on <weekday>, \d+ \w+ \d{4}\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)", "<time>"),
    (r"\b\d{4}-\d\d-\d\d\b", "<day>"),
    (r"\b\d+ \w{3} \d\d:\d\d\b", "<time>"),
    (r"http://127\.0\.0\.1:\d+", "<server>"),
    (r"\bdemiurge_\d+=", "demiurge_<port>="),
)


NO_ARGUMENTS = cbor.encode([])
NO_ANSWERS: tuple[dict[str, Any], ...] = (
    {},
    {"answer": ""},
    {"answer": "x", "action": "accept"},
    {"answer": "x", "content": {}},
    {"action": "accept", "answers": {}},
)


class Ask(NamedTuple):
    """A request. `more`: keyword arguments of httpx; `role`: of the token that it comes with; `says`: the answers that
    the model gives."""

    method: str
    path: str
    more: Mapping[str, Any] = {}
    role: str = "user"
    says: Sequence[Answer] = ()


def turn(chat: str, *items: Mapping[str, Any]) -> Ask:
    """Returns a request for a whole turn as a stream, in which the model gives these items, one in each answer."""
    said = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "chatId": chat}
    return Ask("POST", "/api/ai/chat", {"json": said}, says=[Provider.answer(item) for item in items])


def without_chance(value: Any) -> Any:
    """Returns JSON-ready data with a name in place of each part that differs from run to run."""
    if isinstance(value, dict):
        return {
            without_chance(name): "<place>"
            if name in PLACES and type(part) is int
            else without_chance(part[:1] if name in RECORDS and isinstance(part, list) else part)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [without_chance(part) for part in value]
    if isinstance(value, str):
        for pattern, name in BY_CHANCE:
            value = re.sub(pattern, name, value)
    return "<time>" if type(value) is int and value > 10**12 else value


def asked(places: Mapping[str, str]) -> list[Ask]:
    """Returns the requests, in order: a later one may depend on an earlier one."""
    chat, approval, proposal = "/api/chats/c1", f"/api/approvals/{places['approval_id']}", places["proposal_id"]
    files, blob = "/api/workspace/main", f"/api/blob/{places['text_ref']}"
    order = {"part": "nut", "card": "4111-secret"}
    clock = "core__get_current_time"
    return [
        *(Ask("GET", path) for path in ("/api/session", "/api/approvals", "/api/approvals/rules")),
        *(Ask("GET", "/api/session", role=role) for role in ("viewer", "approver")),
        *(Ask("GET", path, role="approver") for path in (approval, "/api/approvals", "/api/doubts")),
        *(Ask("GET", f"/api/chats{query}") for query in ("", "?limit=1", "?search=BOLTS", "?archived=true")),
        *(
            Ask("GET", f"/api/chats{query}")
            for query in ("?prefix=c2", f"?before={places['before']}", "?search=nothing")
        ),
        *(Ask("GET", f"{chat}{rest}") for rest in ("", "/messages", "/messages?since=2", "/messages?max_result=20")),
        *(Ask("GET", f"{chat}{rest}") for rest in ("/turns/1", "/turns/1?max_result=20", "/turns/2", "/claims")),
        *(Ask("GET", f"{chat}/export{query}") for query in ("", "?format=markdown")),
        *(Ask("GET", f"/api/chats/{name}/messages") for name in ("failed", "c3", "c2")),
        *(Ask("GET", f"/api/chats/{name}/turns/1") for name in ("failed", "c3", "c2")),
        *(Ask("GET", path, role="viewer") for path in (f"{chat}/messages", f"{chat}/turns/1", "/api/chats")),
        *(Ask("GET", f"/api/cost{query}") for query in ("", "?chat=c1", "?days=1&chat=none")),
        *(Ask("GET", f"/api/issues{query}") for query in ("", "?status=open", "?status=closed", "?assignee=ada")),
        *(Ask("GET", f"/api/issues{query}") for query in ("?tag=plot", "?priority=high", "?limit=1", "?priority=low")),
        *(Ask("GET", f"/api/journal?unit=demiurge/Demiurge@1/c3{more}") for more in ("&limit=2", "&from=2&limit=1")),
        Ask("GET", "/api/journal?unit=demiurge/Demiurge@1/c3&kind=approval"),
        Ask("GET", "/api/journal/rows?unit=demiurge/Demiurge@1/c3"),
        *(Ask("GET", f"/api/journal/search?unit=demiurge/Demiurge@1/c3{more}") for more in ("", "&limit=1&before=9")),
        *(Ask("GET", f"/api/journal/search?{more}") for more in ("calls=true", "attention=true", "text=bolts")),
        *(Ask("GET", f"/api/journal/search?{more}") for more in ("kind=approval", "before=3", "text=nothing")),
        *(Ask("GET", f"/api/journal/head?{more}") for more in ("prefix=demiurge/Demiurge", "prefix=no", "limit=1")),
        Ask("POST", "/api/journal/verify"),
        Ask("POST", "/api/journal/verify", {"json": {"seal": "none"}}),
        *(
            Ask("GET", f"/api/defs?{more}")
            for more in ("prefix=demiurge/Chat&kind=module", "prefix=demiurge/ChatEvent")
        ),
        *(Ask("GET", f"/api/policy/explain?tool=order_part{more}") for more in ("", "&actor=ada", "&role=viewer")),
        *(Ask("GET", f"/api/policy/explain?tool=order_part{more}") for more in ("&tenant=t", "&role=a&role=b&actor=b")),
        *(Ask("GET", f"/api/policy/explain?{more}") for more in ("tool=none", "tool=a b", "effect=none")),
        Ask("GET", "/api/policy/explain?effect=http.request&origin=plan&name=demiurge/chat_plan@1"),
        Ask("GET", "/api/policy/explain?effect=timer.set&origin=tool&name=order_part"),
        *(
            Ask("GET", f"/api/prompt-tools/scene_timer{rest}")
            for rest in ("", "/history", "/versions/1", "/versions/9")
        ),
        Ask("GET", "/api/prompt-tools/scene_timer/diff?old=1&new=1"),
        *(Ask("GET", path) for path in ("/api/proposals", "/api/proposals?limit=1", f"/api/proposals/{proposal}")),
        Ask("GET", f"/api/proposals/{proposal}/diff"),
        *(Ask("GET", f"/api/state/demiurge/Demiurge@1{rest}") for rest in ("", "/cells", "?key=none", "?key=c9")),
        *(Ask("GET", f"/api/state/{rest}") for rest in ("no/Module@1", "no/Module@1/cells", "sys/Timer@1?at=3")),
        *(Ask("GET", f"/api/tools?tool=order_part{more}") for more in ("", "&uses=true", "&tool=none")),
        *(Ask("GET", f"/api/tools/{name}") for name in ("order_part", "long_report", "none")),
        *(Ask("GET", f"/api/trace?{more}") for more in ("chat=c3", "chat=c2&count=1", "unit=no/M@1/x&seq=0")),
        *(Ask("GET", f"/api/trace?{more}") for more in ("unit=demiurge/Demiurge@1/c3&seq=3", "event_hash=sha256:00")),
        *(Ask("GET", f"/api/events/demiurge/Demiurge@1/{rest}") for rest in ("c3/0", "c2/3", "c3/99", "c3/x")),
        *(Ask("GET", f"{files}{rest}") for rest in ("/versions", "/tree", "/tree?version=1", "/tree?path=notes")),
        *(Ask("GET", f"{files}{rest}") for rest in ("/diff?old=1", "/diff?old=1&new=2", "/diff?old=1&path=notes")),
        *(Ask("GET", f"{files}{rest}") for rest in ("/file?path=a.txt", "/file?path=a.txt&version=1", "/file?path=no")),
        *(Ask("GET", path) for path in ("/api/workspace", "/api/workspace/no/versions", f"{files}/tree?path=a.txt")),
        *(Ask("GET", path) for path in (blob, f"{blob}?name=my%20%22file%22.txt", "/api/blob/sha256:00")),
        *(Ask(method, f"/api/blob/{places['png_ref']}") for method in ("HEAD", "GET")),
        Ask("GET", f"/api/blob/{places['octets_ref']}"),
        *(Ask("GET", blob, {"headers": {"range": f"bytes={given}"}}) for given in ("0-3", "2-", "-3", "90-", "3-1")),
        Ask("GET", blob, {"headers": {"if-none-match": f'W/"{places["text_ref"]}"'}}),
        Ask("GET", blob, {"headers": {"if-none-match": '"a", *'}}),
        Ask("GET", blob, {"headers": {"range": "bytes=0-3", "if-range": '"another"'}}),
        Ask("POST", "/api/blob", {"content": b"bytes"}),
        Ask("POST", "/api/chats", {"json": {"chat_id": "made", "title": "Made"}}),
        Ask("POST", "/api/chats", {"json": {"chat_id": "made"}}),
        Ask("PATCH", "/api/chats/made", {"json": {"title": "Named"}}),
        Ask("PATCH", "/api/chats/made", {"json": {"archived": True}}),
        Ask("GET", "/api/chats?archived=true"),
        Ask("PATCH", "/api/chats/made", {"json": {"archived": False}}),
        Ask("POST", "/api/chats/import?chat_id=brought", {"json": {"format": "demiurge.chat/1", "messages": []}}),
        Ask("POST", "/api/chats/c2/messages", {"json": {"text": "And a nut"}}),
        Ask("POST", "/api/chats/no/cancel"),
        Ask("POST", "/api/tools/core__get_current_time/call", {"json": {"arguments": {"timezone": "none"}}}),
        Ask("POST", "/api/tools/none/call", {"json": {}}),
        Ask("POST", "/api/tools/order_part/call", {"json": {"arguments": {"part": 1}}}),
        *(
            Ask(
                "POST",
                "/api/tools/order_part/call",
                {"json": {"arguments": given}, "headers": {"idempotency-key": "k"}},
            )
            for given in ({"part": "nut", "card": "x"}, {"part": "nut", "card": "x"}, {"part": "cog", "card": "x"})
        ),
        turn("c2"),
        turn("stream", Provider.text("Good day.")),
        turn("stream", Provider.call(clock, {"timezone": "none"}), Provider.text("What zone?")),
        turn("stream", Provider.call(clock, {"timezone": "UTC"}), Provider.text("Late.")),
        turn("stream", Provider.call("none", {"a": 1}), Provider.text("No tool.")),
        turn("stream", Provider.call("order_part", order)),
        Ask("POST", "/api/chats/stream/cancel"),
        Ask("GET", "/api/chats/stream/messages"),
        *(Ask("GET", f"/api/chats/stream/turns/{number}") for number in range(1, 6)),
        turn("broken", {"type": "nothing known"}),
        Ask("POST", "/api/ai/chat", {"json": {"messages": [], "system": "Obey."}}),
        Ask("PUT", f"{files}/file?path=new.txt&expected=9", {"content": b"x"}),
        Ask("PUT", f"{files}/file?path=new.txt", {"content": b"x"}),
        Ask("DELETE", f"{files}/file?path=new.txt"),
        Ask("DELETE", f"{files}/file?path=new.txt"),
        Ask("POST", "/api/issues", {"json": {"title": "T", "body": "B", "assignee": "bo", "tags": ["x"]}}),
        Ask("POST", f"{approval}/answer", {"json": {"answer": "yes"}}),
        Ask("POST", approval, {"json": {"decision": "maybe"}}),
        Ask("POST", approval, {"json": {"decision": "approve", "arguments_json": "{}"}}),
        Ask(
            "POST",
            approval,
            {"json": {"decision": "reject", "reason": "too dear"}},
            says=[Provider.answer(Provider.text("Then not."))],
        ),
        Ask("POST", approval, {"json": {"decision": "approve"}}),
        Ask("DELETE", "/api/approvals/rules/none"),
        Ask("POST", "/api/doubts/00", {"json": {"outcome": "done", "reason": "seen"}}),
        Ask("GET", "/api/approvals", role="viewer"),
        Ask("PUT", "/api/chats"),
        Ask("GET", "/api/none"),
        Ask("POST", "/api/chats", {"content": b"{}"}),
        Ask("POST", "/api/chats", {"content": b"{", "headers": {"content-type": "application/json"}}),
        Ask("POST", "/api/chats", {"json": {"title": 1, "more": 2}}),
        Ask("POST", "/api/events", {"json": {"schema": "no/Schema@1", "value": {}}}),
        Ask("POST", "/api/events", {"json": {"value": {}}}),
        Ask("POST", "/api/events", {"content": b"{}"}),
        Ask("POST", "/api/login", {"json": {"code": "none"}}),
        Ask("GET", "/login?code=none"),
        *(Ask("GET", f"/api/chats?{more}") for more in ("prefix=nobody", "limit=0", "limit=1001", "before=-1")),
        *(Ask("POST", "/api/approvals/00/answer", {"json": given}) for given in NO_ANSWERS),
        *(
            Ask("GET", f"/api/prompt-tools/scene_timer/{rest}")
            for rest in ("diff?old=1&new=1&layer=user", "diff?old=1&new=1&layer=none", "versions/1?layer=project")
        ),
        Ask("GET", "/api/prompt-tools/core-none/history"),
        Ask(
            "POST", "/api/prompt-tools/scene_timer/rollback", {"json": {"version": 9, "rationale": "It was better so."}}
        ),
        Ask(
            "POST",
            "/api/prompt-tools/scene_timer/rollback",
            {"json": {"version": 9, "rationale": "It was better so then."}},
        ),
        Ask(
            "POST",
            "/api/chats/c2/messages",
            {"json": dict.fromkeys(("text", "model", "provider", "wait", "tools", "x"), 1)},
        ),
        Ask("POST", "/api/chats/c2/messages", {"json": {"text": "Hi", "tools_ref": "none"}}),
        *(
            Ask("POST", f"/api/calls/{name}", {"content": body})
            for name, body in (
                ("none", NO_ARGUMENTS),
                ("keep.fork", NO_ARGUMENTS),
                ("read.info", b"\xff"),
                ("read.info", cbor.encode({})),
                ("read.keys", NO_ARGUMENTS),
                ("read.lost", NO_ARGUMENTS),
            )
        ),
        Ask("POST", "/api/calls/read.lost", {"content": NO_ARGUMENTS}, role="viewer"),
        *(
            Ask("GET", f"/api/trace?{more}")
            for more in ("", "chat=c3&unit=a", "unit=no/M@1/x", "chat=c3&seq=1", "count=0&chat=c3")
        ),
        *(Ask("GET", f"/api/journal?{more}") for more in ("unit=none", "limit=1001", "from=-1", "limit=2")),
        *(Ask(method, f"{chat}/turns/9") for method in ("GET", "PUT")),
        Ask("DELETE", "/api/chats/made"),
        Ask("DELETE", "/api/chats/made?why=Old"),
        Ask("GET", "/api/chats/made"),
        Ask("DELETE", "/api/chats/made?why=Old"),
    ]


async def filled(served: Served) -> dict[str, str]:
    """Fills a world as `fill` does, and adds files of three versions, issues, a chat's title and a turn that failed."""
    places = await fill(served)
    user = await served.client()
    await user.put("/api/workspace/main/file?path=notes/b.txt", content=b"two")
    await user.put("/api/workspace/main/file?path=a.txt", content=b"three")
    await user.put("/api/workspace/other/file?path=c.txt", content=b"four")
    await user.patch("/api/chats/c1", json={"title": "Bolts and nuts"})
    served.provider.say(served.provider.raw(b"{}", status=400, kind="application/json"))
    await user.post("/api/chats/failed/messages", json={"text": "Hello", "wait": True})
    for title, more in (
        ("Two endings", {"assignee": "ada", "tags": ["plot"], "priority": "high"}),
        ("A closed one", {"assignee": "bo", "tags": ["prose"]}),
    ):
        issue = (await user.post("/api/issues", json={"title": title, "body": "See.", **more})).json()
    await user.post(f"/api/issues/{issue['id']}/close", json={"reason": "Done."})
    for name, data in (("text", b"Some text.\n"), ("png", PNG), ("octets", b"\xff\xfe\x00")):
        places[f"{name}_ref"] = (await user.post("/api/blob", content=data)).json()["hash"]
    places["before"] = str((await user.get("/api/chats?limit=2")).json()["next"])
    return places


async def answers(served: Served) -> AsyncIterator[Mapping[str, Any]]:
    places = await filled(served)
    for ask in asked(places):
        client = await served.client(ask.role)
        if ask.says:
            served.provider.say(*ask.says)
        got = await client.request(ask.method, ask.path, **ask.more)
        text = got.content.decode("utf-8", "replace")
        try:
            shown: Any = json.loads(text)
        except ValueError:
            shown = text.splitlines()
        path = ask.path.replace(f"before={places['before']}", "before=<place>")
        more = {name: str(value) for name, value in ask.more.items()}
        given = {name: value for name, value in sorted(got.headers.items()) if name in HEADERS and value != PAGE_POLICY}
        asks = without_chance(f"{ask.role}: {ask.method} {path} {more or ''}").strip()
        said = {"headers": without_chance(given), "answer": without_chance(shown)}
        yield {"asked": asks, "status": got.status_code, **said}
        await served.world.settle()


async def test_every_answer_is_the_one_that_was_kept(served: Served) -> None:
    kept = json.loads(ANSWERS.read_text("utf-8"))
    found = [each async for each in answers(served)]
    assert [each["asked"] for each in found] == [each["asked"] for each in kept]
    for each, expected in zip(found, kept, strict=True):
        assert json.dumps(each, indent=1).splitlines() == json.dumps(expected, indent=1).splitlines()


async def write() -> None:
    with tempfile.TemporaryDirectory() as folder, serving() as provider:
        async with serving_world(Path(folder) / "w", provider) as served:
            found = [each async for each in answers(served)]
    ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(write())
