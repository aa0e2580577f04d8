"""A chat over HTTP: saying something, what was said, calls that wait."""

from __future__ import annotations

import pytest
from tests.server.conftest import Served
from tests.wire.test_attachments import PNG


async def test_a_message_is_answered(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user = await served.client()
    sent = await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    assert sent.status_code == 202, sent.text
    assert sent.json()["status"] == "done"
    assert sent.json()["reply"]["text"] == "Good day."
    said = (await user.get("/api/chats/c1/messages")).json()["messages"]
    assert [(m["role"], m["text"]) for m in said] == [("user", "Hello"), ("assistant", "Good day.")]
    chats = (await user.get("/api/chats")).json()["chats"]
    assert [(chat["chat_id"], chat["status"]) for chat in chats] == [("c1", "done")]


async def test_a_call_waits_and_is_approved(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    user = await served.client()
    sent = (await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})).json()
    assert sent["status"] == "awaiting_approval"
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    assert asked["tool"] == "order_part"
    assert "4111-secret" in asked["arguments_json"]
    busy = await user.post("/api/chats/c1/messages", json={"text": "And a nut"})
    assert (busy.status_code, busy.json()["code"]) == (409, "chat_busy")
    decided = await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    assert decided.json()["decision"] == "approved"
    await served.world.settle()
    reply = await served.world.chat("c1").reply()
    assert (reply.status, reply.text) == ("done", "Ordered.")


async def test_a_refusal_is_told_to_the_model(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Then not.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "reject", "reason": "too dear"})
    await served.world.settle()
    assert "too dear" in str(served.provider.seen[-1])
    again = await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    assert (again.status_code, again.json()["code"]) == (409, "decided")
    assert again.json()["details"].items() >= {"by": "user:user", "verdict": "rejected", "reason": "too dear"}.items()
    missing = await user.post("/api/approvals/00ff", json={"decision": "approve"})
    assert missing.status_code == 404


async def test_a_call_runs_with_the_arguments_that_a_person_changed(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    path = f"/api/approvals/{asked['id']}"
    wrong = await user.post(path, json={"decision": "approve", "arguments_json": '{"part": 4711, "card": "x"}'})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_arguments")
    assert "schema of order_part: part: must be a string." in wrong.json()["message"]
    assert "4711" not in wrong.text
    changed = {"decision": "approve", "arguments_json": '{"part": "nut", "card": "x"}'}
    assert (await user.post(path, json=changed)).json()["decision"] == "approved"
    await served.world.settle()
    assert "ordered nut" in str(served.provider.seen[-1])


async def test_a_person_allows_further_calls_in_a_chat(served: Served) -> None:
    user = await served.client()

    async def order(part: str) -> str:
        call = served.provider.call("order_part", {"part": part, "card": "x"}, f"call_{part}")
        served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
        status: str = (await user.post("/api/chats/c1/messages", json={"text": part, "wait": True})).json()["status"]
        return status

    assert await order("bolt") == "awaiting_approval"
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    pattern = {"part": {"like": "*"}, "card": {"equals": "x"}}
    assert (await user.post(f"/api/approvals/{asked['id']}/rule", json={"count": 0})).status_code == 422
    made = await user.post(f"/api/approvals/{asked['id']}/rule", json={"pattern": pattern, "count": 3})
    assert (made.status_code, made.json()["tool"]) == (200, "order_part")
    await served.world.settle()
    assert await order("nut") == "done"
    [rule] = (await user.get("/api/approvals/rules")).json()["rules"]
    assert (rule["id"], rule["left"]) == (made.json()["id"], 1)
    explained = (await user.get("/api/policy/explain", params={"tool": "order_part"})).json()
    assert [each["id"] for each in explained["standing_rules"]] == [rule["id"]]
    viewer = await served.client("viewer")
    assert (await viewer.get("/api/approvals/rules")).status_code == 403
    assert (await viewer.delete(f"/api/approvals/rules/{rule['id']}")).status_code == 403
    assert (await user.delete(f"/api/approvals/rules/{rule['id']}")).status_code == 204
    assert (await user.delete(f"/api/approvals/rules/{rule['id']}")).status_code == 404
    assert await order("washer") == "awaiting_approval"


async def rejected(served: Served) -> None:
    """A chat in which a person rejected a call, with a reason."""
    user, call = await served.client(), served.provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Then not.")))
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "reject", "reason": "too dear"})
    await served.world.settle()


async def test_the_reason_of_a_rejection_is_public_wherever_it_is_recorded(served: Served) -> None:
    await rejected(served)
    seen = {}
    for role in ("viewer", "approver", "user"):
        client = await served.client(role)
        records = (await client.get("/api/journal?unit=demiurge/Demiurge@1/c1")).json()["records"]
        [decision] = [each["body"] for each in records if each["kind"] == "approval"]
        receipts = [each["body"]["payload"] for each in records if each["kind"] == "receipt"]
        seen[role] = (decision["verdict"], decision["reason"], [r.get("message") for r in receipts if "view_ref" in r])
    assert seen["viewer"] == seen["approver"] == seen["user"]
    assert seen["viewer"][:2] == ("reject", "too dear")
    assert "too dear" in str(served.provider.seen[-1])


async def test_the_reason_of_an_approval_is_withheld_from_viewers(served: Served) -> None:
    user, call = await served.client(), served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve", "reason": "card 4111-secret"})
    await served.world.settle()
    assert "card 4111-secret" in (await user.get("/api/journal?limit=1000")).text
    assert "4111-secret" not in (await (await served.client("viewer")).get("/api/journal?limit=1000")).text
    assert "4111-secret" not in str(served.provider.seen)


async def test_only_who_may_stop_a_turn_is_told_that_none_is_open(served: Served) -> None:
    await rejected(served)
    for role, status in (("viewer", 403), ("approver", 403), ("chief", 403), ("agent", 202), ("user", 202)):
        answer = await (await served.client(role)).post("/api/chats/c1/cancel")
        assert answer.status_code == status, role
    user = await served.client()
    missing = await user.post("/api/chats/nobody/cancel")
    assert (missing.status_code, missing.json()["code"]) == (404, "chat_unknown")


async def test_chats_are_listed_by_when_something_happened_in_them_last(served: Served) -> None:
    user = await served.client()
    for chat_id in ("a", "b", "c"):
        await user.post("/api/chats", json={"chat_id": chat_id})
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    await user.post("/api/chats/a/messages", json={"text": "Hello", "wait": True})
    listed = (await user.get("/api/chats")).json()["chats"]
    assert [chat["chat_id"] for chat in listed] == ["a", "c", "b"]
    newest = (await user.get("/api/chats", params={"limit": 1})).json()["chats"]
    assert [chat["chat_id"] for chat in newest] == ["a"]


async def test_chats_are_read_in_windows_and_found_by_title_or_id(served: Served) -> None:
    user = await served.client()
    for number in range(5):
        await user.post(
            "/api/chats", json={"chat_id": f"c{number}", "title": f"{'Garden' if number % 2 else 'Shop'} {number}"}
        )

    async def window(**query: str | int) -> tuple[list[str], int | None]:
        answer = (await user.get("/api/chats", params=query)).json()
        return [chat["chat_id"] for chat in answer["chats"]], answer["next"]

    first, next_window = await window(limit=2)
    assert (first, next_window is None) == (["c4", "c3"], False)
    assert next_window is not None
    await user.patch("/api/chats/c2", json={"title": "Renamed"})  # it goes to the top, out of the later windows
    assert await window(limit=2, before=next_window) == (["c1", "c0"], None)
    assert await window(search=" gARD ") == (["c3", "c1"], None)
    assert await window(search="C0") == (["c0"], None)
    found, after = await window(search="garden", limit=1)
    assert (found, after is None) == (["c3"], False)
    assert after is not None
    assert await window(search="garden", limit=1, before=after) == (["c1"], None)


async def test_a_chat_gets_another_title(served: Served) -> None:
    user, viewer = await served.client(), await served.client("viewer")
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    renamed = await user.patch("/api/chats/c1", json={"title": " Workshop "})
    assert (renamed.status_code, renamed.json()["title"]) == (200, "Workshop")
    assert (await viewer.get("/api/chats/c1")).json()["title"] == "Workshop"
    refused = [
        (await user.patch("/api/chats/none", json={"title": "x"})).status_code,
        (await user.patch("/api/chats/c1", json={"title": "  "})).status_code,
        (await user.patch("/api/chats/c1", json={"title": "x" * 501})).status_code,
        (await viewer.patch("/api/chats/c1", json={"title": "x"})).status_code,
    ]
    assert refused == [404, 422, 422, 403]
    assert (await user.get("/api/chats/c1")).json()["title"] == "Workshop"


async def test_a_chat_is_archived_and_taken_back(served: Served) -> None:
    user, viewer = await served.client(), await served.client("viewer")
    for chat_id in ("c1", "c2"):
        await user.post("/api/chats", json={"chat_id": chat_id})

    async def listed(**query: bool) -> list[str]:
        return [chat["chat_id"] for chat in (await user.get("/api/chats", params=query)).json()["chats"]]

    archived = await user.patch("/api/chats/c1", json={"archived": True})
    assert (archived.status_code, archived.json()["archived"]) == (200, True)
    assert archived.json()["name"].startswith("Untitled, ")
    assert (await listed(), await listed(archived=True)) == (["c2"], ["c1"])
    assert (await viewer.patch("/api/chats/c1", json={"archived": False})).status_code == 403
    assert (await user.patch("/api/chats/none", json={"archived": True})).status_code == 404
    await user.patch("/api/chats/c1", json={"archived": False, "title": "Back"})
    assert (await listed(), await listed(archived=True)) == (["c1", "c2"], [])


async def test_a_chat_is_deleted_by_a_user_with_a_reason(served: Served) -> None:
    user, viewer = await served.client(), await served.client("viewer")
    served.provider.say(served.provider.answer(served.provider.text("Good day, quokka.")))
    await user.post("/api/chats/c1/messages", json={"text": "Hello, quokka", "wait": True})
    why = {"why": "she asked"}
    refused = [
        (await viewer.delete("/api/chats/c1", params=why)).status_code,
        (await user.delete("/api/chats/c1")).status_code,
        (await user.delete("/api/chats/none", params=why)).status_code,
    ]
    assert refused == [403, 422, 404]
    deleted = await user.delete("/api/chats/c1", params=why)
    assert (deleted.status_code, deleted.json()["done"], deleted.json()["shared"]) == (200, True, [])
    assert (await user.get("/api/chats")).json()["chats"] == []
    assert (await user.get("/api/chats/c1")).status_code == 404
    again = await user.post("/api/chats/c1/messages", json={"text": "Hello"})
    assert (again.status_code, again.json()["code"]) == (409, "chat_deleted")


async def test_a_chat_is_downloaded_whole(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user = await served.client()
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    exported = await user.get("/api/chats/c1/export")
    assert exported.headers["content-disposition"] == 'attachment; filename="chat.json"'
    assert (exported.json()["title"], len(exported.json()["messages"])) == ("Shop", 2)
    page = await user.get("/api/chats/c1/export", params={"format": "markdown"})
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    assert page.text.startswith("# Shop\n")
    assert (await user.get("/api/chats/none/export")).status_code == 404
    assert (await user.get("/api/chats/c1/export", params={"format": "pdf"})).status_code == 422


async def test_an_exported_chat_is_imported(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user, agent = await served.client(), await served.client("agent")
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    document = (await user.get("/api/chats/c1/export")).json()
    made = await user.post("/api/chats/import", params={"chat_id": "c2"}, json=document)
    assert (made.status_code, made.json()["chat_id"], made.json()["messages"]) == (201, "c2", 2)
    said = (await user.get("/api/chats/c2/messages")).json()["messages"]
    assert [(m["text"], m["imported"]) for m in said] == [("Hello", True), ("Good day.", True)]
    assert (await user.post("/api/chats/import", params={"chat_id": "c2"}, json=document)).status_code == 409
    assert (await user.post("/api/chats/import", json={"format": "x"})).status_code == 422
    assert (await agent.post("/api/chats/import", json=document)).status_code == 403


async def test_a_message_that_skips_the_tool_catalog_says_so_to_everyone_who_reads_it(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user = await served.client()
    for skips in (True, False):
        sent = {"text": "Hello", "skip_tool_catalog": skips, "wait": True}
        assert (await user.post("/api/chats/c1/messages", json=sent)).json()["status"] == "done"
    for role in ("user", "agent", "viewer"):
        said = (await (await served.client(role)).get("/api/chats/c1/messages")).json()["messages"]
        assert [message.get("skip_tool_catalog") for message in said] == [True, None, None, None], role


async def test_a_message_takes_images_that_were_stored_before(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("A dot.")))
    agent = await served.client("agent")
    stored = (await agent.post("/api/blob", content=PNG)).json()["hash"]
    attached = {"mime": "image/png", "bytes_ref": stored}
    sent = await agent.post("/api/chats/c1/messages", json={"attachments": [attached], "wait": True})
    assert (sent.status_code, sent.json()["status"]) == (202, "done"), sent.text
    [question, _] = (await agent.get("/api/chats/c1/messages")).json()["messages"]
    assert (question["text"], question["attachments"]) == ("", [{"type": "image", **attached}])
    assert "data:image/png;base64" in str(served.provider.seen[-1])
    shown = await agent.get(f"/api/blob/{stored}")
    assert (shown.content, shown.headers["content-type"]) == (PNG, "image/png")
    viewer = await served.client("viewer")
    [question, _] = (await viewer.get("/api/chats/c1/messages")).json()["messages"]
    assert question["attachments"] == [{"type": "image"}]
    assert (await viewer.get(f"/api/blob/{stored}")).status_code == 404


@pytest.mark.parametrize(
    ("mime", "data", "code"),
    [
        ("image/jpeg", PNG, "bad_attachment"),
        ("image/png", b"no image", "bad_attachment"),
        ("text/html", b"<b>", "bad_attachment"),
    ],
)
async def test_bytes_that_are_not_the_image_they_are_said_to_be_are_refused(
    served: Served, mime: str, data: bytes, code: str
) -> None:
    user = await served.client()
    stored = (await user.post("/api/blob", content=data)).json()["hash"]
    body = {"text": "Look", "attachments": [{"mime": mime, "bytes_ref": stored}]}
    sent = await user.post("/api/chats/c1/messages", json=body)
    assert (sent.status_code, sent.json()["code"]) == (422, code)
    assert served.provider.seen == []


async def test_a_message_with_nothing_in_it_and_one_with_an_unknown_blob_are_refused(served: Served) -> None:
    user = await served.client()
    empty = await user.post("/api/chats/c1/messages", json={})
    assert (empty.status_code, empty.json()["code"]) == (422, "bad_message")
    body = {"text": "Look", "attachments": [{"mime": "image/png", "bytes_ref": "sha256:" + "0" * 64}]}
    unknown = await user.post("/api/chats/c1/messages", json=body)
    assert unknown.status_code == 404, unknown.text
    assert served.provider.seen == []


async def test_a_decision_after_a_standing_rule_names_its_author(served: Served) -> None:
    user, approver = await served.client(), await served.client("approver")
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    path = f"/api/approvals/{asked['id']}"
    assert (await approver.post(f"{path}/rule", json={"count": 2, "reason": "cheap"})).status_code == 200
    await served.world.settle()
    for where, body in ((path, {"decision": "reject"}), (f"{path}/rule", {"count": 5})):
        late = await user.post(where, json=body)
        assert (late.status_code, late.json()["code"]) == (409, "decided")
        details = late.json()["details"]
        assert (details["by"], details["verdict"], details["reason"]) == ("user:approver", "approved", "cheap")
    assert "user:approver allowed it" in late.json()["message"]


async def test_a_rule_for_a_decided_call_names_the_first_person(served: Served) -> None:
    await rejected(served)
    user = await served.client()
    journal = (await user.get("/api/journal?unit=demiurge/Demiurge@1/c1&kind=approval")).json()["records"]
    late = await user.post(f"/api/approvals/{journal[0]['body']['intent']}/rule", json={"count": 5})
    assert (late.status_code, late.json()["code"]) == (409, "decided")
    assert late.json()["details"]["verdict"] == "rejected"


async def test_the_claims_of_an_answer_are_checked(served: Served) -> None:
    forged = "rcpt_0123456789abcdef0123456789abcdef"
    served.provider.say(served.provider.answer(served.provider.text(f"It is dark.\nEvidence: {forged}")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Look", "wait": True})
    found = (await user.get("/api/chats/c1/claims?request_id=1&role=Editor")).json()
    [claim] = found["replies"][0]["claims"]
    assert (found["chat_id"], found["ok"], claim["line"], claim["code"]) == ("c1", False, 2, "unknown_receipt")
    assert (await user.get("/api/chats/c1/claims?request_id=2")).status_code == 404
    assert (await user.get("/api/chats/c1/claims?role=king")).status_code == 422
    assert (await (await served.client("viewer")).get("/api/chats/c1/claims")).status_code == 403


async def test_a_message_names_its_model_its_provider_its_toolset_and_its_choice(served: Served) -> None:
    """As the event does; the toolset asks for strict calls."""
    user = await served.client()
    served.provider.say(served.provider.answer(served.provider.text("Yes.")))
    ref = await served.world.tools_ref("order_part", strict=True)
    terms = {"model": "gpt-other", "provider": "openai", "tools_ref": ref, "tool_choice": {"name": "order_part"}}
    done = await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True, **terms})
    assert done.json()["status"] == "done", done.text
    sent = served.provider.seen[-1]
    assert (sent["model"], sent["tool_choice"]["name"]) == ("gpt-other", "order_part")
    assert [(entry["name"], entry["strict"]) for entry in sent["tools"]] == [("order_part", True)]
    chat = await served.world.state("demiurge/Demiurge@1", "c1")
    assert chat is not None
    assert (chat["model"], chat["provider"], chat["tools_ref"]) == ("gpt-other", "openai-responses", ref)
    for wrong in (
        {"tools": [], "tools_ref": ref},
        {"provider": "acme"},
        {"tools_ref": "sha256:7"},
        {"tool_choice": "x"},
    ):
        refused = await user.post("/api/chats/c1/messages", json={"text": "Hello", **wrong})
        assert 400 <= refused.status_code < 500, refused.text
    await served.world.chat("c1").send("Again")
    assert served.provider.seen[-1]["model"] != "gpt-other", "a message without a model takes the world's"
