"""Every field of the gateway's answers to a client: results, waits, requests to its user, lists, states and tasks."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from demiurge.mcp.gateway import task
from demiurge.mcp.gateway.catalog import LEFT_OUT, lists_output, page, paged
from demiurge.mcp.gateway.content import DECIDED, RUNS, ToolForm, unknown_tool, waits_text
from demiurge.mcp.gateway.handed_on import handed_on
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.port import AskedQuestion, Attached, CallState, Waiting
from demiurge.mcp.gateway.questions import (
    client_requests,
    given_answers,
    given_decision,
    read_responses,
    request_kind,
)
from demiurge.mcp.gateway.request_state import RequestStates
from demiurge.mcp.verbatim import kept_answer
from demiurge.tools import Redaction, ToolEffect
from demiurge.tools.input_form import read_form
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock

PNG = b"\x89PNG"
APPROVAL = "0123456789abcdef"
AGAIN = "Then call the same tool again with the same arguments: that reads the result, and runs nothing twice."
APPROVE = (
    f"This call of book has not run: it waits for the approval of a person (id {APPROVAL}). A person decides with "
    f"`demiurge approvals approve 0123456789ab`, or in the web shell. {AGAIN}"
)
ANSWER = (
    f"This call of book has not ended: it asks a person something (id {APPROVAL}). A person answers it with "
    f"`dem approvals answer 0123456789ab`, or in the web shell. {AGAIN}"
)
SEAT = AskedQuestion("seat", "Which seat?")
APPROVES = Waiting(APPROVAL, "book", may_decide=True, arguments_json='{"to": "Rome"}')
ASKS = Waiting(APPROVAL, "book", may_decide=True, questions=[SEAT], asker="The tool book", command="dem")
LISTING = {"description": "Books.", "outputSchema": {"type": "object", "properties": {"n": {}, "m": {}}}}


EVERYTHING = Redaction("paths", ("*",))


def spec(**more: Any) -> ToolSpec:
    return ToolSpec("book", "Books.", {"properties": {"to": {}}}, **more)


async def blob(ref: str) -> bytes:
    return {"png": PNG, "wav": b"RIFF", "csv": b"a,b"}[ref]


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


def state(**more: Any) -> CallState:
    return CallState("call-1", "book", "ended", **more)


FAILED = {"ok": False, "error_code": "execution", "message": "No."}
META = {"demiurge/call": "call-1"}


@pytest.mark.parametrize(
    ("ended", "result"),
    [
        (
            state(ok=True, text='done\n\n{"n":1}', view={"n": 1}, earlier=True),
            types.CallToolResult(
                content=[text('done\n\n{"n":1}')],
                structured_content={"n": 1},
                is_error=False,
                _meta={**META, "demiurge/earlier": True},
            ),
        ),
        (
            state(ok=True, text='{"n":1,"m":2}', view={"n": 1}),
            types.CallToolResult(content=[text('{"n":1,"m":2}')], is_error=False, _meta=META),
        ),
        (
            state(ok=True, text="[1]", view=[1]),
            types.CallToolResult(content=[text("[1]")], is_error=False, _meta=META),
        ),
        (
            state(ok=True, text="{no json", view={"n": 1}),
            types.CallToolResult(content=[text("{no json")], is_error=False, _meta=META),
        ),
        (state(ok=True), types.CallToolResult(content=[text("")], is_error=False, _meta=META)),
        (
            state(
                ok=True,
                attached=[
                    Attached("image", "image/png", "png"),
                    Attached("audio", "audio/wav", "wav"),
                    Attached("file", "text/csv", "csv"),
                ],
            ),
            types.CallToolResult(
                content=[
                    types.ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png"),
                    types.AudioContent(data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
                    types.EmbeddedResource(
                        resource=types.BlobResourceContents(
                            uri="demiurge:blob/csv", mime_type="text/csv", blob=base64.b64encode(b"a,b").decode()
                        )
                    ),
                ],
                is_error=False,
                _meta=META,
            ),
        ),
        (
            state(error_code="execution", message="No."),
            types.CallToolResult(
                content=[text('{"ok":false,"error_code":"execution","message":"No."}')],
                structured_content=FAILED,
                is_error=True,
                _meta=META,
            ),
        ),
        (
            state(error_code="execution", message="No.", text="It broke."),
            types.CallToolResult(content=[text("It broke.")], structured_content=FAILED, is_error=True, _meta=META),
        ),
    ],
)
async def test_the_result_of_a_call_that_has_ended(ended: CallState, result: types.CallToolResult) -> None:
    for known in (spec(), None):
        found = await ToolForm("book", known).form.ended(ended, blob)
        assert isinstance(found, types.CallToolResult)
        assert found.model_dump() == result.model_dump()


async def test_a_call_of_a_tool_that_is_denied_is_one_of_a_tool_that_is_not_there() -> None:
    denied = state(error_code="policy_denied", message="Denied.")
    gone = await ToolForm("Book", None).ended(denied, blob)
    assert isinstance(gone, MCPError)
    assert (
        gone.error
        == unknown_tool("Book").error
        == types.ErrorData(code=types.INVALID_PARAMS, message="Unknown tool: Book")
    )
    known = await ToolForm("Book", spec()).ended(denied, blob)
    assert isinstance(known, types.CallToolResult)


@pytest.mark.parametrize(
    ("waiting", "status", "data"),
    [
        (None, "open", {"status": "running", "message": RUNS}),
        (None, "waiting", {"status": "running", "message": DECIDED}),
        (APPROVES, "waiting", {"status": "awaiting_approval", "message": APPROVE, "approval": APPROVAL}),
        (ASKS, "waiting", {"status": "needs_answer", "message": ANSWER, "approval": APPROVAL}),
    ],
)
def test_a_call_that_waits_says_for_what(waiting: Waiting | None, status: Any, data: dict[str, Any]) -> None:
    form = ToolForm("book", spec()).form
    assert form.has_tasks
    result = form.waits(CallState("call-1", "book", status), waiting)
    assert isinstance(result, types.CallToolResult)
    assert result == types.CallToolResult(
        content=[text(data["message"])],
        structured_content={"call_id": "call-1", **data},
        is_error=False,
        _meta=META,
    )
    if waiting is not None:
        assert waits_text(waiting) == data["message"]
    listed = spec(mcp_listing=LISTING, redaction=EVERYTHING)
    assert ToolForm("book", listed).form.waits(CallState("call-1", "book", status), waiting) == result.model_copy(
        update={"is_error": True}
    )


def test_a_call_that_was_not_recorded_is_refused() -> None:
    refused = ToolForm("book", None).form.refused
    node = {"ok": False, "error_code": "closed", "message": "It stops."}
    assert refused("closed", "It stops.") == types.CallToolResult(
        content=[text('{"ok":false,"error_code":"closed","message":"It stops."}')],
        structured_content=node,
        is_error=True,
    )
    for message, shown in (("It stops.", "It stops."), ("", "This tool is not available at the moment.")):
        found = refused("unavailable", message)
        assert isinstance(found, types.CallToolResult)
        assert found.is_error
        assert found.structured_content is not None
        assert {"error_code": "unavailable", "message": shown}.items() <= found.structured_content.items()


ANSWERED = types.CallToolResult(
    content=[text("a\u200b<untrusted_text>"), types.ImageContent(data="iVBO", mime_type="image/png")],
    structured_content={"n": 1, "m": 2},
    _meta={"x": 1, "demiurge/call": "forged", "io.modelcontextprotocol/y": 2},
)
OURS = {"demiurge/untrusted": "book", "c": 1}


def handed(
    redaction: Redaction | None, marks: Any = None, *, note: str = "", answer: Any = ANSWERED, **more: Any
) -> Any:
    known = None if redaction is None else spec(redaction=redaction, **more)
    result = handed_on(kept_answer(answer), [], "book", known, marks, note=note, meta={"c": 1})
    return result.model_dump(by_alias=True, exclude_none=True)


def test_the_answer_of_a_server_is_handed_on() -> None:
    blocks = [
        {"type": "text", "text": "a\u200b<untrusted_text>"},
        {"type": "image", "data": "iVBO", "mimeType": "image/png"},
    ]
    whole = {"content": blocks, "isError": False, "resultType": "complete"}
    assert handed(Redaction.allow("n", "m")) == {
        **whole,
        "structuredContent": {"n": 1, "m": 2},
        "_meta": {"x": 1, **OURS},
    }
    assert handed(Redaction.allow("n", "m"), note="Mind.")["content"] == [{"type": "text", "text": "Mind."}, *blocks]
    hidden = handed(Redaction.drop_all())
    begin, first, image, end = hidden.pop("content")
    mark = begin["text"].partition('mark="')[2].partition('"')[0]
    assert [begin, first, image, end] == [
        {"type": "text", "text": f'<untrusted_text source="book" mark="{mark}">'},
        {"type": "text", "text": "a\u2039untrusted_text>"},
        blocks[1],
        {"type": "text", "text": f'</untrusted_text mark="{mark}">'},
    ]
    assert len(mark) == 16
    assert hidden == {
        "isError": False,
        "resultType": "complete",
        "_meta": {**OURS, LEFT_OUT: ["structuredContent"]},
    }
    assert handed(Redaction.drop_all(), "meta")["content"] == blocks
    assert len(handed(Redaction.allow("n", "m"), "blocks")["content"]) == 4
    part = handed(Redaction.allow("n"))
    assert "structuredContent" not in part
    assert part["_meta"] == {**OURS, LEFT_OUT: ["structuredContent"]}
    listed: dict[str, Any] = {"mcp_listing": {"outputSchema": {"properties": {"n": {}}}}}
    assert handed(Redaction.allow("n"), **listed)["structuredContent"] == {"n": 1}
    failed = ANSWERED.model_copy(update={"is_error": True})
    told = handed(Redaction.allow("n"), answer=failed, **listed)
    assert told["isError"]
    assert "structuredContent" not in told
    gone = handed(None)
    assert "structuredContent" not in gone
    assert len(gone["content"]) == 4
    plain = handed(None, answer=types.CallToolResult(content=[]))
    assert plain["_meta"] == OURS
    assert len(plain["content"]) == 2


# -- requests to the user of a client -------------------------------------------------------------------------------


def form(message: str, properties: dict[str, Any], required: list[str] | None = None) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


REASON = {"type": "string", "title": "Reason", "maxLength": 2000}


def decision(*allowed: str) -> dict[str, Any]:
    return {"decision": {"type": "string", "title": "Decision", "enum": list(allowed)}, "reason": REASON}


def test_an_approval_is_asked_for_with_all_that_it_is_about() -> None:
    asked = form(f'{APPROVE}\nArguments: {{"to": "Rome"}}', decision("approve", "reject", "wait"))
    assert client_requests(APPROVES, {}) == {"decision": asked}
    assert client_requests(replace(APPROVES, may_decide=False), {}) == {
        "decision": form(f'{APPROVE}\nArguments: {{"to": "Rome"}}', {})
    }
    assert client_requests(replace(APPROVES, arguments_json=None), {}) == {
        "decision": form(APPROVE, decision("reject", "wait"))
    }
    most = replace(APPROVES, arguments_json="x" * 2000)
    assert client_requests(most, {})["decision"] == form(
        f"{APPROVE}\nArguments: {'x' * 2000}", decision("approve", "reject", "wait")
    )
    cut = "They are too long to be shown here, so the call can't be approved here: approve it as said above."
    longer = replace(APPROVES, arguments_json="x" * 2001)
    assert client_requests(longer, {})["decision"] == form(
        f"{APPROVE}\nThe arguments begin with: {'x' * 2000}\n{cut}", decision("reject", "wait")
    )


SAMPLING = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "A rhyme"}}], "maxTokens": 9},
}
MODEL = AskedQuestion("rhyme", "?", request=SAMPLING)
ROOTS = AskedQuestion("folders", "?", request={"method": "roots/list"})
OPENS = AskedQuestion("there", "Sign in.", url="https://a.example/in")
SCHEMA = {
    "type": "object",
    "properties": {
        "seat": {
            "type": "string",
            "title": "Seat",
            "description": "Where.",
            "enum": ["a", "b"],
            "enumNames": ["A", "B"],
            "default": "a",
        },
        "mail": {"type": "string", "format": "email", "minLength": 1},
        "ages": {
            "type": "array",
            "items": {"type": "string", "enum": ["1", "2"]},
            "minItems": 1,
            "maxItems": 2,
        },
        "price": {"type": "number", "minimum": 0.5},
    },
    "required": ["seat", "ages"],
}
FORM = AskedQuestion("f", "Fill in.", fields=[field.to_json() for field in read_form(SCHEMA)])


def test_each_question_is_asked_in_its_form() -> None:
    waiting = replace(ASKS, questions=[SEAT, OPENS, MODEL, ROOTS, FORM])
    words = {"text": {"type": "string", "title": "Answer"}}
    fields = {
        "seat": {
            "type": "string",
            "title": "Seat",
            "description": "Where.",
            "default": "a",
            "enum": ["a", "b"],
            "enumNames": ["A", "B"],
        },
        "mail": {"type": "string", "title": "mail", "format": "email", "minLength": 1},
        "ages": {
            "type": "array",
            "title": "ages",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "enum": ["1", "2"]},
        },
        "price": {"type": "number", "title": "price", "minimum": 0.5},
    }
    people = {
        "seat": form("The tool book asks: Which seat?", words, ["text"]),
        "there": form("The tool book asks: Sign in.\nOpen https://a.example/in, and accept when it is done.", {}),
        "f": form("The tool book asks: Fill in.", fields, ["seat", "ages"]),
    }
    own = {"rhyme": types.CreateMessageRequest.model_validate(SAMPLING), "folders": types.ListRootsRequest()}
    assert client_requests(waiting, {}) == people
    assert client_requests(waiting, {"seat": 1, "f": 1}) == {"there": people["there"]}
    assert client_requests(waiting, {}, answers=["sampling"]) == {**people, "rhyme": own["rhyme"]}
    assert client_requests(waiting, {}, answers=["sampling", "roots", "form"]) == {**people, **own}
    opened = client_requests(waiting, {}, opens_urls=True)["there"]
    assert opened == types.ElicitRequest(
        params=types.ElicitRequestURLParams(
            message="The tool book asks: Sign in.", url="https://a.example/in", elicitation_id="there"
        )
    )
    told = replace(waiting, may_decide=False, command="dem")
    assert client_requests(told, {}, answers=["roots"]) == {
        **dict.fromkeys(people, form(ANSWER, {})),
        "folders": own["folders"],
    }
    assert [request_kind(question) for question in waiting.questions] == [None, None, "sampling", "roots", None]


def accepts(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@pytest.mark.parametrize(
    ("given", "decided"),
    [
        ({"decision": accepts(decision="approve")}, (True, "")),
        ({"decision": accepts(decision="reject", reason="far")}, (False, "far")),
        ({"decision": accepts(decision="reject", reason="x" * 2001)}, (False, "x" * 2000)),
        ({"decision": accepts(decision="wait")}, None),
        ({"decision": accepts()}, None),
        ({"decision": types.ElicitResult(action="accept")}, None),
        ({"decision": types.ElicitResult(action="decline", content={"decision": "approve"})}, None),
        ({"decision": types.ListRootsResult(roots=[])}, None),
        ({}, None),
    ],
)
def test_a_decision_of_a_client_s_user(given: dict[str, Any], decided: tuple[bool, str] | None) -> None:
    assert given_decision(APPROVES, given) == decided


def test_answers_of_a_client_s_user() -> None:
    waiting = replace(ASKS, questions=[SEAT, OPENS, MODEL, ROOTS])
    reply = types.CreateMessageResult(role="assistant", content=text("Mine"), model="own", _meta={"x": 1})
    said = {"role": "assistant", "content": {"type": "text", "text": "Mine"}, "model": "own"}
    assert given_answers(
        waiting,
        {
            "seat": accepts(text="1a"),
            "there": types.ElicitResult(action="accept"),
            "rhyme": reply,
            "folders": types.ListRootsResult.model_validate({"roots": [{"uri": "file:///a"}]}),
            "more": accepts(text="1a"),
        },
    ) == {
        "seat": {"action": "accept", "content": {"text": "1a"}},
        "there": {"action": "accept", "content": {}},
        "rhyme": {"action": "accept", "content": said},
        "folders": {"action": "accept", "content": {"roots": [{"uri": "file:///a"}]}},
    }
    no = types.ElicitResult(action="decline")
    assert given_answers(waiting, {"seat": no, "rhyme": no}) == {
        "seat": {"action": "decline"},
        "rhyme": {"action": "decline"},
    }
    assert given_answers(waiting, {"seat": reply, "rhyme": accepts(text="1a"), "folders": reply}) == {}


def test_answers_of_another_form_are_ignored() -> None:
    given = {
        "seat": {"action": "accept", "content": {"text": "1a"}},
        "folders": {"roots": []},
        "none": {"what": 1},
        "text": "x",
    }
    assert read_responses(given) == {"seat": accepts(text="1a"), "folders": types.ListRootsResult(roots=[])}


# -- lists, names, states and tasks -----------------------------------------------------------------------------------


def shown(known: ToolSpec, name: str = "Book") -> dict[str, Any]:
    [tool] = page([(name, known)], None).tools
    node: dict[str, Any] = tool.model_dump(by_alias=True, exclude_none=True)
    return node


SCHEMA_HERE = {"type": "object", "properties": {"to": {}}}


@pytest.mark.parametrize(
    ("effect", "hints"),
    [
        (ToolEffect.READ_ONLY, {"readOnlyHint": True, "destructiveHint": False}),
        (ToolEffect.STATE_CHANGE, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}),
        (ToolEffect.EXTERNAL_SIDE_EFFECT, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}),
    ],
)
def test_a_tool_is_listed_with_the_hints_of_its_effect(effect: ToolEffect, hints: dict[str, bool]) -> None:
    assert shown(spec(effect=effect, details="More.")) == {
        "name": "Book",
        "description": "Books.\n\nMore.",
        "inputSchema": SCHEMA_HERE,
        "annotations": hints,
    }
    listing = {"description": "Bo\u200boks.", "annotations": {"title": "B", "idempotentHint": True}}
    own = (
        {"title": "B", "idempotentHint": True} if effect is ToolEffect.EXTERNAL_SIDE_EFFECT else {"title": "B", **hints}
    )
    assert shown(spec(effect=effect, mcp_listing=listing)) == {
        "name": "Book",
        "description": "Books.",
        "inputSchema": SCHEMA_HERE,
        "annotations": own,
    }


def test_a_server_s_tool_is_listed_with_what_was_made_public() -> None:
    listing = {**LISTING, "execution": {"taskSupport": "required"}, "_meta": {"x": 1}}
    assert shown(spec(mcp_listing=listing)) == {
        "name": "Book",
        "description": "Books.",
        "inputSchema": SCHEMA_HERE,
        "_meta": {"x": 1, LEFT_OUT: ["outputSchema"]},
    }
    public = shown(spec(mcp_listing={**listing, "execution": {"taskSupport": "forbidden"}}, redaction=EVERYTHING))
    assert public == {
        "name": "Book",
        "description": "Books.",
        "inputSchema": SCHEMA_HERE,
        "outputSchema": LISTING["outputSchema"],
        "execution": {"taskSupport": "forbidden"},
        "_meta": {"x": 1},
    }


@pytest.mark.parametrize(
    ("listing", "fields", "is_listed"),
    [
        (LISTING, ("n", "m"), True),
        (LISTING, ("n", "m", "o"), True),
        (LISTING, ("*",), True),
        (LISTING, ("n",), False),
        (LISTING, (), False),
        ({"outputSchema": {"properties": {}}}, ("n",), False),
        ({"outputSchema": {}}, ("n",), False),
        ({"outputSchema": {}}, ("*",), True),
        ({}, ("*",), False),
        (None, ("*",), False),
    ],
)
def test_an_output_schema_is_listed_if_all_of_it_is_public(
    listing: dict[str, Any] | None, fields: tuple[str, ...], is_listed: bool
) -> None:
    redaction = Redaction("paths", fields) if fields else Redaction.drop_all()
    assert lists_output(spec(mcp_listing=listing, redaction=redaction)) is is_listed
    assert not lists_output(None)


def test_a_page_has_100_entries_and_a_cursor_that_outlives_a_change() -> None:
    named = [(f"n{number:03}", number) for number in range(250)]
    first, cursor = paged(named, None)
    assert (first, cursor) == (list(range(100)), base64.urlsafe_b64encode(b"n099").decode())
    second, cursor = paged([each for each in named if each[1] != 99], cursor)
    assert second == list(range(100, 200))
    assert paged(named, cursor) == (list(range(200, 250)), None)
    assert paged(named[:100], None) == (list(range(100)), None)
    assert paged(named[:101], None)[1] is not None
    odd = [("\u00ff?>", 1), ("\u00ff?>~", 2)]
    after = base64.urlsafe_b64encode(odd[0][0].encode()).decode()
    assert paged(odd, after) == ([2], None)
    for cursor in ("%", "\u00e9", "/w==", "x"):
        with pytest.raises(MCPError) as refused:
            paged(named, cursor)
        assert refused.value.error == types.ErrorData(
            code=types.INVALID_PARAMS, message="The cursor is not one of this server."
        )
    listed = page([("b", spec()), ("c", spec())], None)
    assert ([tool.name for tool in listed.tools], listed.next_cursor) == (["b", "c"], None)
    assert (listed.ttl_ms, listed.cache_scope) == (0, "private")


def test_names_and_addresses_of_two_servers_stay_apart() -> None:
    many, one = ToolNames(), ToolNames(server="docs")
    assert (many.prompt("docs", "greet"), one.prompt("docs", "greet")) == ("docs__greet", "greet")
    assert many.address("docs", "note://one") == "mcp://docs/note://one"
    assert one.address("docs", "note://one") == "note://one"
    assert many.server_s_address("mcp://docs/note://one/x") == ("docs", "note://one/x")
    assert many.server_s_address("note://docs/one") == ("", "")
    assert one.server_s_address("note://one") == ("docs", "note://one")
    greet = spec(mcp_item={"server": "docs", "kind": "prompt", "name": "greet"})
    other = replace(greet, name="other", mcp_item={"server": "notes", "kind": "prompt", "name": "greet"}, spec_hash="")
    specs = [greet, other, spec()]
    assert [known.name for _, known in many.items(specs)] == ["book", "other"]
    assert [(dict(item), known) for item, known in one.items(specs)] == [(dict(greet.mcp_item or {}), greet)]
    assert [known.name for _, known in ToolNames(only=["other"]).items(specs)] == ["other"]
    named = ToolNames(own_names={"book": "Book"})
    assert (named.id_of("Book"), named.id_of("book"), many.id_of("book"), many.id_of("no id!")) == (
        "book",
        None,
        "book",
        None,
    )
    assert named.offered(specs) == [("Book", greet), ("Book", spec())]
    named.rename({"other": "Other"})
    assert (named.id_of("Book"), named.id_of("Other"), named.own_names) == (None, "other", {"other": "Other"})
    assert [name for name, _ in ToolNames(only=["other"]).offered(specs)] == ["other"]
    assert (ToolNames(only=["other"]).id_of("book"), ToolNames(only=["other"]).id_of("other")) == (None, "other")


def test_a_state_opens_for_its_caller_in_its_world_alone() -> None:
    caller = Caller("agent:a", roles=("agent",), transport="http")
    states = RequestStates(b"k" * 32, "w")
    sealed = states.seal(caller, "call-1", "a.b")
    mac, _, rest = sealed.partition(".")
    assert (rest, len(base64.urlsafe_b64decode(f"{mac}="))) == ("call-1.a.b", 32)
    assert states.open(caller, sealed) == ("call-1", "a.b")
    assert states.open(caller, states.seal(caller, "call-1")) == ("call-1", "")
    assert RequestStates(b"k" * 32, "w").open(caller, sealed) == ("call-1", "a.b")
    # a state that was given out is good in a later version
    assert RequestStates(b"k" * 32, "w").seal(caller, "c", "a") == "RL_rUkOrC5oeKlsDrlYq0ZDnJtAXvT3DQFH_7JoFWM8.c.a"
    for other, key, world, given in (
        (replace(caller, actor="agent:b"), b"k" * 32, "w", sealed),
        (replace(caller, tenant="other"), b"k" * 32, "w", sealed),
        (caller, b"l" * 32, "w", sealed),
        (caller, b"k" * 32, "v", sealed),
        (caller, b"k" * 32, "w", f"{mac}.call-2.a.b"),
        (caller, b"k" * 32, "w", mac),
        (caller, b"k" * 32, "w", ""),
        (caller, b"k" * 32, "w", f"é\ud800.{rest}"),
    ):
        assert RequestStates(key, world).open(other, given) is None


def test_a_task_is_the_call_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_ns = 1_700_000_000_000_000_000
    call_id = f"mcp-{(1 << 63) - 1 - asked_ns:x}-0"
    monkeypatch.setattr(SystemClock, "now_ns", lambda _clock: asked_ns + 5_000_000_000)
    fields = {
        "taskId": call_id,
        "createdAt": "2023-11-14T22:13:20+00:00",
        "lastUpdatedAt": "2023-11-14T22:13:25+00:00",
        "ttlMs": 86_400_000,
        "pollIntervalMs": 1000,
    }
    assert task.task_fields(call_id, "completed") == {**fields, "status": "completed"}
    assert task.created_task(call_id, None) == {**fields, "resultType": "task", "status": "working"}
    assert task.created_task(call_id, ASKS) == {**fields, "resultType": "task", "status": "input_required"}
