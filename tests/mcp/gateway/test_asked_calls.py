"""Requests for calls, apart from worlds and connections: what the world is asked, and what the client is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from tests.mcp.gateway.test_answer_forms import ANSWER, APPROVAL, APPROVE, APPROVES, ASKS, ROOTS, SEAT, spec, text

from demiurge.errors import NotFound, UsageError
from demiurge.mcp.gateway import calls, clients
from demiurge.mcp.gateway.calls import CallsOfClients
from demiurge.mcp.gateway.content import RUNS
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.port import CallLog, CallProgress, CallState, Waiting
from demiurge.mcp.gateway.questions import client_requests
from demiurge.mcp.gateway.request_state import RequestStates
from demiurge.mcp.gateway.task import EXTENSION
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller

CALLER = Caller("agent:a", roles=("agent",), transport="http")
APPROVER = Caller("user:lead", roles=("agent", "approver"), transport="http")
STATES = RequestStates(b"k" * 32, "w")
CALL = f"mcp-{1 << 62:x}-0"
DONE = CallState(CALL, "book", "ended", ok=True, text="booked")
WAITS = CallState(CALL, "book", "waiting")
RESULT = types.CallToolResult(content=[text("booked")], is_error=False, _meta={"demiurge/call": CALL})
TOKEN = {"progress_token": 1}


@dataclass
class Held:
    """A call that a client waits for: `shown` are its events, or an error."""

    world: CallsWorld
    call_id: str = CALL

    async def events(self) -> AsyncGenerator[Any, None]:
        shown = self.world.shown.pop(0) if len(self.world.shown) > 1 else self.world.shown[0]
        for event in shown:
            if isinstance(event, BaseException):
                raise event
            if event is None:
                await asyncio.Event().wait()
            yield event

    async def leave(self, *, read: bool) -> bool:
        self.world.asked.append(("leave", read))
        return self.world.is_shared


@dataclass
class CallsWorld:
    """A world with one call. `shown`: the events of each wait for it, `waits`: what it waits for at each look, the last
    ones again and again. `asked`: what was asked of the world."""

    shown: list[Sequence[Any]]
    waits: list[Waiting | Exception | None] = field(default_factory=lambda: [APPROVES])
    caller: Caller = CALLER
    tools: Any = (spec(),)
    is_shared: bool = False
    asked: list[Any] = field(default_factory=list)
    refuses: Exception | None = None

    async def catalog(self) -> Sequence[ToolSpec]:
        if isinstance(self.tools, Exception):
            raise self.tools
        found: Sequence[ToolSpec] = self.tools
        return found

    def call(self, tool: str, arguments: Mapping[str, Any], **more: Any) -> Held:
        self.asked.append(("call", tool, arguments, more))
        return Held(self)

    def take_up(self, call_id: str, **more: Any) -> Held:
        self.asked.append(("take_up", call_id, more))
        return Held(self)

    def asks_the_same(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        return (call_id, tool, arguments) == (CALL, "book", {"to": "Rome"})

    async def waiting(self, call_id: str) -> Waiting | None:
        assert call_id == CALL
        found = self.waits.pop(0) if len(self.waits) > 1 else self.waits[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def decide(self, approval: str, *, approve: bool, reason: str) -> None:
        self.asked.append(("decide", approval, approve, reason))
        if self.refuses is not None:
            raise self.refuses

    async def answer(self, waiting: Waiting, answers: Mapping[str, Any]) -> None:
        self.asked.append(("answer", waiting.approval, answers))

    async def cancel(self, call_id: str) -> None:
        self.asked.append(("cancel", call_id))

    async def blob(self, ref: str) -> bytes:
        return b""


class Connection:
    """The connection that a session belongs to."""


@dataclass
class Session:
    """The connection of a client that declared `client_capabilities`; `replies` are its user's."""

    client_capabilities: types.ClientCapabilities | None = None
    client_params: Any = None
    can_send_request: bool = True
    replies: list[Any] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    _connection: Any = field(default_factory=lambda: Connection())

    def check_client_capability(self, capability: types.ClientCapabilities) -> bool:
        own = self.client_capabilities
        if own is None:
            return False
        needed, has = (each.model_dump(exclude_none=True) for each in (capability, own))
        return needed.keys() <= has.keys()

    async def send_request(self, asked: Any, form: Any, metadata: Any) -> Any:
        self.sent.append((asked, form, metadata))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def report_progress(self, *progress: Any) -> None:
        self.sent.append(progress)

    async def send_notification(self, *notification: Any) -> None:
        self.sent.append(notification)


FORM = types.ClientCapabilities(elicitation=types.ElicitationCapability())
URLS = types.ClientCapabilities(elicitation=types.ElicitationCapability(url=types.UrlElicitationCapability()))
TASKS = types.ClientCapabilities(extensions={EXTENSION: {}})
BOTH = types.ClientCapabilities(extensions={EXTENSION: {}}, elicitation=types.ElicitationCapability())


def client(capabilities: types.ClientCapabilities | None = None, *, modern: bool = True, **more: Any) -> Any:
    meta = more.pop("meta", None)
    session = Session(capabilities, **more)
    version = "2026-07-28" if modern else "2025-11-25"
    return SimpleNamespace(protocol_version=version, meta=meta, request_id=7, session=session, request=None)


@dataclass
class Gateway:
    """The calls of a gateway to one world; `sent` is what is told once an answer was handed over."""

    world: CallsWorld
    sent: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        async def states(world: Any) -> RequestStates:
            assert world is self.world
            return STATES

        self.calls = CallsOfClients(ToolNames(), states, lambda ctx, work: self.sent.append((ctx, work)))

    async def call(self, ctx: Any, name: str = "book", **more: Any) -> Any:
        params = types.CallToolRequestParams(name=name, arguments={"to": "Rome"}, **more)
        world: Any = self.world
        try:
            return await self.calls.call(world, ctx, params)
        finally:
            await self.calls.close()


def gateway(*shown: Sequence[Any], **more: Any) -> Gateway:
    return Gateway(CallsWorld(list(shown) or [[DONE]], **more))


ASKED = ("call", "book", {"to": "Rome"}, {"client": "", "shows": False, "answers": ()})


async def test_an_answer_counts_as_given_once_it_was_handed_over() -> None:
    for was_sent in (True, False):
        place, ctx = gateway(), client()
        assert await place.call(ctx) == RESULT
        assert place.world.asked == [ASKED]
        [(told, work)] = place.sent
        assert told is ctx
        await work(was_sent)
        assert place.world.asked == [ASKED, ("leave", was_sent)]


@pytest.mark.parametrize(
    ("ctx", "caller", "more"),
    [
        (client(meta=TOKEN), CALLER, {"shows": True}),
        (client(meta={"progress_token": None}), CALLER, {}),
        (client(meta={types.LOG_LEVEL_META_KEY: "info"}), CALLER, {"shows": True}),
        (client(meta={types.LOG_LEVEL_META_KEY: "loud"}), CALLER, {}),
        (client(meta={types.LOG_LEVEL_META_KEY: "info"}, modern=False), CALLER, {}),
        (client(client_params=SimpleNamespace(client_info=SimpleNamespace(name="desk"))), CALLER, {"client": "desk"}),
        (client(FORM), CALLER, {}),
        (client(FORM), APPROVER, {"answers": ("form",)}),
        (client(FORM, modern=False), APPROVER, {"answers": ("form",)}),
        (client(FORM, modern=False, can_send_request=False), APPROVER, {}),
        (
            client(
                types.ClientCapabilities(
                    sampling=types.SamplingCapability(),
                    roots=types.RootsCapability(),
                    elicitation=types.ElicitationCapability(),
                )
            ),
            CALLER,
            {"answers": ("roots", "sampling")},
        ),
    ],
)
async def test_the_world_is_told_what_the_client_can_do(ctx: Any, caller: Caller, more: dict[str, Any]) -> None:
    place = gateway(caller=caller)
    await place.call(ctx)
    assert place.world.asked == [(*ASKED[:3], {**ASKED[3], **more})]


async def test_a_client_is_shown_the_progress_and_the_log_that_it_wants() -> None:
    shown = [
        CallProgress(1, 2, "half"),
        CallProgress(2, None, ""),
        CallLog("info", "a", "ink"),
        CallLog("error", "b", ""),
    ]

    def line(level: Any, data: str, logger: str | None) -> types.LoggingMessageNotification:
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        return types.LoggingMessageNotification(params=params)

    reports = [(1, 2, "half"), (2, None, None)]
    first, second = (line("info", "a", "ink"), 7), (line("error", "b", None), 7)
    for level, lines in ((None, []), ("debug", [first, second]), ("info", [first, second]), ("error", [second])):
        modern = client(meta={types.LOG_LEVEL_META_KEY: level} if level else None)
        older = client(modern=False)
        if level:
            clients.set_level(older, level)
        for ctx in (modern, older):
            assert await gateway([*shown, DONE]).call(ctx) == RESULT
            assert ctx.session.sent == [*reports, *lines]
    ended = await gateway([]).call(client())
    assert ended.structured_content == {"status": "running", "call_id": CALL, "message": RUNS}


@pytest.mark.parametrize("tools", [(), UsageError("no role")])
async def test_a_tool_that_the_catalog_lacks_is_asked_for_all_the_same(tools: Any) -> None:
    denied = replace(DONE, ok=False, error_code="policy_denied", message="Denied.", text="")
    place = gateway([denied], tools=tools)
    with pytest.raises(MCPError) as refused:
        await place.call(client())
    assert refused.value.error == types.ErrorData(code=types.INVALID_PARAMS, message="Unknown tool: book")
    assert len(place.sent) == 1
    known = await gateway([denied]).call(client())
    assert known.structured_content == {"ok": False, "error_code": "policy_denied", "message": "Denied."}
    place = gateway()
    with pytest.raises(MCPError) as refused:
        await place.call(client(), name="no id!")
    assert refused.value.error == types.ErrorData(code=types.INVALID_PARAMS, message="Unknown tool: no id!")
    assert place.world.asked == []


async def test_an_error_of_the_world_is_the_answer() -> None:
    place = gateway([NotFound("There is no such call.", code="no_call")])
    result = await place.call(client())
    assert result.structured_content == {"ok": False, "error_code": "no_call", "message": "There is no such call."}
    assert (result.is_error, place.world.asked, place.sent) == (True, [ASKED, ("leave", False)], [])
    closed = await gateway([UsageError("closed", code="closed")]).call(client())
    assert closed.structured_content == {"ok": False, "error_code": "closed", "message": calls.STOPPING}
    failing = gateway([WAITS], waits=[NotFound("gone", code="gone")])
    assert (await failing.call(client())).structured_content["error_code"] == "gone"
    assert failing.world.asked == [ASKED, ("leave", False)]


TAKE_UP = ("take_up", CALL, {"shows": False})


async def test_a_client_that_can_t_be_asked_is_told_what_waits() -> None:
    place = gateway([WAITS])
    result = await place.call(client())
    assert result.structured_content == {
        "status": "awaiting_approval",
        "call_id": CALL,
        "message": APPROVE,
        "approval": APPROVAL,
    }
    assert (place.world.asked, place.sent) == ([ASKED, ("leave", False)], [])


async def test_a_client_that_can_is_asked_with_a_state_to_come_back_with() -> None:
    for capabilities, opens in ((FORM, False), (URLS, True)):
        waiting = replace(ASKS, questions=[SEAT, replace(SEAT, key="there", url="https://a.example/in")])
        place = gateway([WAITS], waits=[waiting])
        asked = await place.call(client(capabilities))
        assert asked == types.InputRequiredResult(
            input_requests=client_requests(waiting, {}, opens_urls=opens),
            request_state=STATES.seal(CALLER, CALL, APPROVAL),
        )
        assert place.world.asked == [ASKED, ("leave", False)]
    roots = replace(ASKS, questions=[ROOTS])
    told = await gateway([WAITS], waits=[roots]).call(client(FORM))
    assert told.structured_content["status"] == "needs_answer"
    offers = types.ClientCapabilities(roots=types.RootsCapability())
    asked = await gateway([WAITS], waits=[roots]).call(client(offers))
    assert asked.input_requests == {"folders": types.ListRootsRequest()}


def decides(decision: str = "approve", **more: Any) -> dict[str, Any]:
    return {"decision": types.ElicitResult(action="accept", content={"decision": decision, **more})}


async def test_an_answer_with_its_state_decides_and_the_call_goes_on() -> None:
    place = gateway([WAITS], [DONE])
    state = STATES.seal(CALLER, CALL, APPROVAL)
    ctx = client(FORM, meta=TOKEN)
    assert await place.call(ctx, request_state=state, input_responses=decides(reason="far")) == RESULT
    assert place.world.asked == [
        ("take_up", CALL, {"shows": True, "answers": ()}),
        ("leave", False),
        ("decide", APPROVAL, True, "far"),
        ("take_up", CALL, {"shows": True}),
    ]


@pytest.mark.parametrize("refuses", [None, NotFound("gone")])
async def test_an_answer_in_vain_is_not_asked_for_again(refuses: Exception | None) -> None:
    place = gateway([WAITS], refuses=refuses)
    result = await place.call(client(FORM), input_responses=decides("reject"))
    assert result.structured_content["status"] == "awaiting_approval"
    assert place.world.asked == [
        (*ASKED[:3], {**ASKED[3], "answers": ()}),
        ("leave", False),
        ("decide", APPROVAL, False, ""),
        TAKE_UP,
        ("leave", False),
    ]


async def test_an_answer_to_another_question_or_of_who_may_not_decide_changes_nothing() -> None:
    place = gateway([WAITS])
    state = STATES.seal(CALLER, CALL, "another")
    asked = await place.call(client(FORM), request_state=state, input_responses=decides())
    assert isinstance(asked, types.InputRequiredResult)
    assert [each[0] for each in place.world.asked] == ["take_up", "leave"]
    place = gateway([WAITS], waits=[replace(APPROVES, may_decide=False)])
    told = await place.call(client(FORM), input_responses=decides())
    assert told.structured_content["status"] == "awaiting_approval"
    assert [each[0] for each in place.world.asked] == ["call", "leave", "take_up", "leave"]
    place = gateway([WAITS])
    told = await place.call(client(FORM), input_responses=decides("wait"))
    assert told.structured_content["status"] == "awaiting_approval"
    assert "decide" not in [each[0] for each in place.world.asked]


@pytest.mark.parametrize(
    "state",
    ["", "x", STATES.seal(APPROVER, CALL, APPROVAL), STATES.seal(CALLER, "call-2", APPROVAL)],
)
async def test_a_state_of_another_call_or_caller_is_refused(state: str) -> None:
    place = gateway()
    with pytest.raises(MCPError) as refused:
        await place.call(client(), request_state=state)
    assert refused.value.error == types.ErrorData(
        code=types.INVALID_PARAMS,
        message="Invalid or expired requestState",
        data={"reason": "invalid_request_state"},
    )
    assert place.world.asked == []


async def test_questions_are_answered_once_all_of_them_are() -> None:
    waiting = replace(ASKS, questions=[SEAT, replace(SEAT, key="name")])
    place = gateway([WAITS], [WAITS], [WAITS], [DONE], waits=[waiting])
    seat = types.ElicitResult(action="accept", content={"text": "1a"})
    half = await place.call(client(FORM), input_responses={"seat": seat})
    assert isinstance(half, types.InputRequiredResult)
    assert half.input_requests == client_requests(waiting, {"seat": 1})
    assert place.calls.answered(waiting) == {"seat": {"action": "accept", "content": {"text": "1a"}}}
    place.world.asked.clear()
    given = {"name": types.ElicitResult(action="decline")}
    assert await place.call(client(FORM), input_responses=given) == RESULT
    answers = {"seat": {"action": "accept", "content": {"text": "1a"}}, "name": {"action": "decline"}}
    assert ("answer", APPROVAL, answers) in place.world.asked
    assert place.calls.answered(waiting) == {}


async def test_half_given_answers_are_kept_for_a_bounded_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_HALF_ANSWERED", 2)
    place = gateway()
    world: Any = place.world
    waiting = [replace(ASKS, approval=str(at), questions=[SEAT, replace(SEAT, key="name")]) for at in range(3)]
    for each in waiting:
        await place.calls.take_answers(world, each, {"seat": types.ElicitResult(action="decline")})
    assert [len(place.calls.answered(each)) for each in waiting] == [0, 1, 1]


async def test_the_user_of_an_older_client_is_asked_while_its_request_is_open() -> None:
    place = gateway([WAITS], [WAITS], [DONE], caller=APPROVER)
    ctx = client(FORM, modern=False, replies=[decides()["decision"]])
    assert await place.call(ctx) == RESULT
    related = ServerMessageMetadata(related_request_id=7)
    asked = client_requests(APPROVES, {})["decision"]
    assert ctx.session.sent == [(asked, types.ElicitResult, related)]
    assert [each[0] for each in place.world.asked] == ["call", "leave", "take_up", "leave", "decide", "take_up"]
    for more in ({"can_send_request": False}, {}):
        told = gateway([WAITS], waits=[replace(APPROVES, may_decide=more != {})])
        quiet = client(FORM, modern=False, **more)
        assert (await told.call(quiet)).structured_content["status"] == "awaiting_approval"
        assert quiet.session.sent == []


async def test_an_older_client_answers_for_its_model_and_its_folders() -> None:
    offers = types.ClientCapabilities(
        roots=types.RootsCapability(), sampling=types.SamplingCapability(), elicitation=types.ElicitationCapability()
    )
    sampling = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    waiting = replace(ASKS, questions=[ROOTS, replace(ROOTS, key="rhyme", request=sampling), SEAT])
    reply = types.CreateMessageResult(role="assistant", content=text("Mine"), model="own")
    failed = MCPError(-1, "no")
    ctx = client(offers, modern=False, replies=[types.ListRootsResult(roots=[]), reply, failed])
    given = await clients.asked_now(ctx, waiting, {})
    assert given == {"folders": types.ListRootsResult(roots=[]), "rhyme": reply}
    assert [(each[0].method, each[1]) for each in ctx.session.sent] == [
        ("roots/list", types.ListRootsResult),
        ("sampling/createMessage", types.CreateMessageResult),
        ("elicitation/create", types.ElicitResult),
    ]
    assert {each[2].related_request_id for each in ctx.session.sent} == {7}
    ctx = client(offers, modern=False, replies=[failed, failed])
    no = types.ElicitResult(action="decline")
    assert await clients.asked_now(ctx, waiting, {"seat": 1}) == {"folders": no, "rhyme": no}


async def test_a_client_with_tasks_gets_one_for_a_call_that_waits_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = gateway([WAITS])
    task = await waits.call(client(TASKS))
    assert (task["resultType"], task["taskId"], task["status"]) == ("task", CALL, "input_required")
    assert waits.world.asked == [ASKED, ("leave", False)]
    assert (await gateway().call(client(TASKS))) == RESULT
    older = client(TASKS, modern=False)
    assert (await gateway([WAITS]).call(older)).structured_content["status"] == "awaiting_approval"
    monkeypatch.setattr(calls, "TASK_AFTER_S", 0.0)
    runs = gateway([None])
    task = await runs.call(client(TASKS))
    assert (task["resultType"], task["taskId"], task["status"]) == ("task", CALL, "working")
    assert runs.world.asked == [ASKED, ("leave", False)]


async def test_a_client_that_withdraws_its_request_cancels_the_call_unless_another_waits_for_it() -> None:
    for error_code, read in (
        ("cancelled", True),
        ("approval_rejected", True),
        ("policy_denied", True),
        ("validation", True),
        ("unknown_outcome", False),
        (None, False),
    ):
        ended = replace(DONE, ok=False, error_code=error_code)
        place = gateway([None], [CallProgress(1, 2, ""), ended])
        asking = asyncio.create_task(place.call(client()))
        while not (place.world.asked or asking.done()):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert place.world.asked == [
            ASKED,
            ("leave", False),
            ("cancel", CALL),
            ("take_up", CALL, {}),
            ("leave", read),
        ]
    shared = gateway([None], is_shared=True)
    asking = asyncio.create_task(shared.call(client()))
    while not (shared.world.asked or asking.done()):
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert shared.world.asked == [ASKED, ("leave", False)]


async def test_a_client_without_an_ability_that_the_server_needs_is_told_so() -> None:
    message = "The server needs a client that offers roots, sampling, and this one does not."
    failed = replace(DONE, ok=False, error_code="execution", message=message, text="")
    with pytest.raises(MCPError) as refused:
        await gateway([failed]).call(client(FORM))
    assert refused.value.error == types.ErrorData(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=message,
        data={"requiredCapabilities": {"roots": {}, "sampling": {}}},
    )
    offers = types.ClientCapabilities(sampling=types.SamplingCapability(), roots=types.RootsCapability())
    for ctx, ended in (
        (client(offers), failed),
        (client(modern=False), failed),
        (client(), replace(failed, error_code="timeout")),
        (client(), replace(failed, message="It failed.")),
    ):
        result = await gateway([ended]).call(ctx)
        assert result.structured_content["error_code"] == ended.error_code


def test_a_question_s_words_are_kept_from_who_may_not_decide() -> None:
    place = gateway()
    told = place.calls.requests(client(FORM), replace(ASKS, may_decide=False))
    assert ANSWER in str(told["seat"])
