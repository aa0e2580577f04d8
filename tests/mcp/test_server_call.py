"""One call of a pinned definition: how often it is sent, and what is said of a call without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import mcp_types as types
import pytest
from pydantic import BaseModel, ValidationError
from tests.mcp.test_server_questions import FOLDERS, FORM, SEAT, state_of
from tests.mcp.test_server_requests import ROOTS, Model, asks
from tests.mcp.test_supervisor import SECOND, Connection, Place

from demiurge.errors import Unavailable
from demiurge.mcp import Limits, Listing, SamplingGrant, ToolDefinition, call
from demiurge.mcp.call import ServerCall
from demiurge.mcp.elicitation import LiveCalls, QuestionState
from demiurge.mcp.flow import LEAKED, TOO_LARGE, CallNote
from demiurge.mcp.results import marked
from demiurge.mcp.server_requests import GrantUse
from demiurge.tools import ToolContext, ToolEffect, ToolFailure, ToolResult
from demiurge.tools.context import ResourceRegistry
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.execution.progress import check_log, check_progress
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.input_required import Answer, InputRequired, Question, Resumed
from demiurge.tools.model_request import Asker, ModelAnswer, ModelRequests
from mcp import MCPError

TOOL = ToolDefinition("send", "Send", "Sends.", {"type": "object"})
READS = ToolDefinition("send", "Send", "Sends.", {"type": "object"}, None, {"idempotentHint": True})
GREET = ToolDefinition("greet", kind="prompt", arguments=[{"name": "who"}])
ONE = ToolDefinition("one", kind="resource", uri="note://one")
BY_ID = ToolDefinition("any", kind="template", uri="note://{id}")
SOURCE = "mcp__a__send"
DONE = types.CallToolResult(content=[types.TextContent(text="done")])
ACTS, ONLY_READS = ToolEffect.EXTERNAL_SIDE_EFFECT, ToolEffect.READ_ONLY
BEFORE = "The server may have acted before it asked."

Reply = Callable[[CallNote], Any]


def said(text: str, *, success: bool = True, **more: Any) -> ToolResult[Any]:
    shown = {"exclude_value_from_context": True, "parts": []} if success else {}
    return ToolResult(marked(text, SOURCE), None, success, **{**shown, **more})


@dataclass
class Line(Connection):
    """A connection whose server answers calls with `replies`, the last one again and again."""

    replies: list[Reply] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any], Any, str | None]] = field(default_factory=list)
    asks_during_calls: bool = False
    live: LiveCalls = field(default_factory=lambda: LiveCalls("a"))

    async def call(
        self,
        note: CallNote,
        pinned: ToolDefinition,
        arguments: dict[str, Any],
        on_progress: Any,
        on_log: Any,
        *,
        input_responses: Any,
        request_state: str | None,
    ) -> Any:
        self.calls.append((pinned.label, arguments, input_responses, request_state))
        self.on_progress, self.on_log = on_progress, on_log
        reply = (self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])(note)
        if isinstance(reply, asyncio.Future):
            return await reply
        if isinstance(reply, BaseException):
            raise reply
        return reply


def sent(reply: Any, **more: Any) -> Reply:
    """Answers with `reply` a call that was sent; `more` are facts that its transport notes."""

    def noted(note: CallNote) -> Any:
        note.sent = True
        for name, value in more.items():
            setattr(note, name, value)
        return reply

    return noted


def unsent(reply: Any, **more: Any) -> Reply:
    def noted(note: CallNote) -> Any:
        sent(reply, **more)(note)
        note.sent = False
        return reply

    return noted


def line(*replies: Reply, pinned: ToolDefinition = TOOL, **more: Any) -> Line:
    listed = Listing((pinned,), "2026-07-28", "sample", "1", "", ())
    return Line([listed], replies=list(replies) or [sent(DONE)], **more)


def place_of(*lines: Any, **settings: Any) -> Place:
    place = Place(*lines)
    place.settings = replace(place.settings, **settings)
    place.server = place.supervised()
    return place


def call_of(
    place: Place,
    pinned: ToolDefinition = TOOL,
    effect: ToolEffect = ACTS,
    *,
    resumed: Resumed | None = None,
    resources: dict[Any, Any] | None = None,
    schema: ForeignSchema | None = None,
    arguments: dict[str, Any] | None = None,
) -> ServerCall:
    context = replace(ToolContext(), resumed=resumed, resources=ResourceRegistry.build(resources or {}))
    return ServerCall(place.server, pinned, arguments or {}, context, effect, schema, shows_progress=False)


async def made(*lines: Any, **more: Any) -> Any:
    """Makes one call of the server that these connections lead to."""
    place = place_of(*lines)
    try:
        return await call_of(place, **more).run()
    finally:
        await place.server.close()


@contextmanager
def fails(code: str, message: str | None = None) -> Iterator[None]:
    with pytest.raises(ToolFailure) as caught:
        yield
    assert (caught.value.error_code, caught.value.message) == (code, message or caught.value.message)


async def test_each_kind_of_definition_is_called_and_answered_in_its_form() -> None:
    server = line()
    assert await made(server, arguments={"to": "ann"}) == said("done")
    assert server.calls == [("send", {"to": "ann"}, None, None)]
    prompt = types.GetPromptResult(messages=[], description="A greeting.")
    greeting = await made(line(sent(prompt), pinned=GREET), pinned=GREET, arguments={"who": "Ada"})
    assert '"description": "A greeting."' in greeting.message
    read = types.ReadResourceResult(contents=[types.TextResourceContents(uri="note://one", text="x")])
    note = await made(line(sent(read), pinned=ONE), pinned=ONE)
    assert '"text": "x"' in note.message


async def test_an_address_that_is_none_of_the_template_is_not_sent() -> None:
    server = line(pinned=BY_ID)
    with fails("validation", "The address is none of the template note://{id}."):
        await made(server, pinned=BY_ID, arguments={"uri": "note://a/b"})
    assert (server.asked, server.calls) == (0, [])
    read = types.ReadResourceResult(contents=[])
    await made(line(sent(read), pinned=BY_ID), pinned=BY_ID, arguments={"uri": "note://7"})


async def test_a_result_is_checked_by_the_pinned_schema_and_limited() -> None:
    schema = ForeignSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    good = types.CallToolResult(content=[], structured_content={"n": 1})
    assert (await made(line(sent(good)), schema=schema)).value == {"n": 1}
    with fails("output_validation"):
        await made(line(sent(DONE)), schema=schema)
    place = place_of(line(sent(DONE)), limits=Limits(max_result_bytes=3))
    with fails("result_too_large"):
        await call_of(place).run()
    await place.server.close()
    kept = await made(line(sent(DONE)), resources={Asker: Asker(verbatim=True)})
    assert kept.verbatim is not None
    assert (await made(line(sent(DONE)))).verbatim is None


@pytest.mark.parametrize("asked_before", [False, True])
async def test_a_call_is_sent_only_if_the_server_lists_its_definition_now(asked_before: bool) -> None:
    resumed = Resumed(QuestionState().encode()) if asked_before else None
    gone = line(pinned=replace(TOOL, name="other"))
    message = "The server no longer lists this tool."
    with fails(*(("unknown_outcome", f"{message} {BEFORE}") if asked_before else ("unavailable", message))):
        await made(gone, resumed=resumed)
    changed = line(pinned=replace(TOOL, description="Sends more."))
    more = f"{SAFE_MESSAGES[ToolErrorCode.QUARANTINED]} {BEFORE}"
    with fails(*(("unknown_outcome", more) if asked_before else ("quarantined",))):
        await made(changed, resumed=resumed)
    message = "No such program."
    with fails(*(("unknown_outcome", f"{message} {BEFORE}") if asked_before else ("unavailable", message))):
        await made(Unavailable(message, code="server_unavailable"), resumed=resumed)
    assert gone.calls == changed.calls == []
    with fails("quarantined"):
        await made(line(pinned=replace(TOOL, description="Sends more.")), resumed=resumed, effect=ONLY_READS)


CLOSED = MCPError(types.CONNECTION_CLOSED, "closed")
TIMED_OUT = MCPError(types.REQUEST_TIMEOUT, "late")
NO_MESSAGE = MCPError(types.PARSE_ERROR, "no answer")
OTHER = MCPError(-32603, "words")
NO_SUCH = "Nothing listens at a.example:443."


class _Form(BaseModel):
    number: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        _Form.model_validate({})
    return caught.value


@pytest.mark.parametrize(
    ("reply", "acts", "reads"),
    [
        (sent(CLOSED), "unknown_outcome", "unavailable"),
        (sent(TIMED_OUT), "unknown_outcome", "timeout"),
        (sent(NO_MESSAGE), "unknown_outcome", "execution"),
        (sent(OTHER, is_answer=False), "unknown_outcome", "unavailable"),
        (sent(OTHER, status=500), "unknown_outcome", "unavailable"),
        (sent(invalid()), "unknown_outcome", "execution"),
        (sent(RuntimeError()), "unknown_outcome", "execution"),
        (sent(OSError()), "unknown_outcome", "unavailable"),
        (sent(anyio.BrokenResourceError()), "unknown_outcome", "unavailable"),
        (sent(anyio.ClosedResourceError()), "unknown_outcome", "unavailable"),
        (unsent(CLOSED), "unavailable", "unavailable"),
        (unsent(OSError()), "unavailable", "unavailable"),
        (sent(MCPError(LEAKED, "x")), "redaction_failed", "redaction_failed"),
        (sent(MCPError(TOO_LARGE, "x")), "result_too_large", "result_too_large"),
        (sent(OTHER, too_large=True), "result_too_large", "result_too_large"),
    ],
)
async def test_a_call_without_an_answer_may_have_acted_if_it_was_sent(reply: Reply, acts: str, reads: str) -> None:
    server = line(reply)
    with fails(acts):
        await made(server)
    assert len(server.calls) == 1
    with fails(reads):
        await made(line(reply), effect=ONLY_READS)
    with fails(reads):
        await made(line(reply, pinned=READS), pinned=READS)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 429])
async def test_a_request_that_the_server_did_not_take_changed_nothing(status: int) -> None:
    server = line(sent(OTHER, status=status))
    with fails("unavailable", f"The server refused the request with the status {status}."):
        await made(server)
    with fails("unavailable", NO_SUCH):
        await made(line(sent(OTHER, status=status, problem=NO_SUCH)))
    with fails("unavailable", NO_SUCH):
        await made(line(unsent(OTHER, is_answer=False, problem=NO_SUCH)))
    place = place_of(line(sent(OTHER, status=status)))
    with fails("unavailable"):
        await call_of(place).run()
    assert place.server.is_running is (status != 404)  # a session that is not known is begun again
    await place.server.close()


@pytest.mark.parametrize("status", [None, 400, 499])
async def test_an_error_of_the_server_is_its_answer(status: int | None) -> None:
    assert await made(line(sent(OTHER, status=status))) == said("words", success=False)


async def test_a_server_that_needs_more_of_its_client_says_what() -> None:
    needs: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
    with fails("execution", "The server needs a client that offers sampling, and this one does not."):
        await made(line(sent(MCPError(code, "words", needs))))


@pytest.mark.parametrize(
    ("first", "effect", "tries"),
    [(unsent(CLOSED), ACTS, 2), (sent(CLOSED), ACTS, 1), (sent(CLOSED), ONLY_READS, 2)],
)
async def test_a_call_is_sent_again_only_if_its_connection_ended_and_nothing_can_have_changed(
    first: Reply, effect: ToolEffect, tries: int
) -> None:
    def ends(note: CallNote) -> Any:
        ended.ended.set()
        return first(note)

    ended, fresh = line(ends), line(sent(DONE))
    if tries == 2:
        assert await made(ended, fresh, effect=effect) == said("done")
    else:
        with fails("unknown_outcome"):
            await made(ended, fresh, effect=effect)
    assert (len(ended.calls), len(fresh.calls)) == (1, tries - 1)


async def test_a_call_that_takes_too_long_is_in_doubt_and_the_server_has_to_list_its_tools_again() -> None:
    server = line(lambda note: sent(asyncio.get_running_loop().create_future())(note))
    place = place_of(server, limits=Limits(timeout_s=0.01))
    with fails("unknown_outcome"):
        await call_of(place).run()
    with fails("timeout"):
        await call_of(place, effect=ONLY_READS).run()
    assert server.asked == 2
    await place.server.close()


async def test_a_server_that_answers_is_started_again_without_a_pause() -> None:
    lines = [line(sent(reply)) for reply in (DONE, OTHER, DONE)]
    place = place_of(*lines)
    for each in lines:
        await call_of(place).run()
        await place.ends(each)
    await place.server.close()
    broken = [line(sent(NO_MESSAGE)) for _ in range(3)]
    place = place_of(*broken)
    for each in broken[:2]:
        with fails("execution"):
            await call_of(place, effect=ONLY_READS).run()
        await place.ends(each)
    with fails("unavailable", "The server ended. It is started again in 1 seconds at the earliest."):
        await call_of(place).run()
    place.clock.advance(SECOND)
    with fails("execution"):
        await call_of(place, effect=ONLY_READS).run()
    await place.server.close()


def again(state: str | None = "s", **asked: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=asked or None, request_state=state)


async def test_a_server_that_asks_for_another_try_is_called_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(call.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
        server = line(*(sent(again(str(number))) for number in range(7)), sent(DONE))
        assert await made(server) == said("done")
        assert pauses == [0.05 * 2**number for number in range(7)]
        assert server.calls == [("send", {}, None, None), *(("send", {}, None, str(number)) for number in range(7))]
        many = line(sent(again()))
        assert await made(many) == said("The server asked too often to be called again.", success=False)
        assert len(many.calls) == 8
    model = Model([ModelAnswer("A rhyme.", "poet", 1)] * 2)
    granted = line(sent(again(a=asks())))
    place = place_of(granted, sampling=SamplingGrant(tokens=100, requests=2))
    told = await call_of(place, resources={ModelRequests: model}).run()
    used_up = "What the grant of this server allows a call to ask a model is used up."
    assert told == said(f"The call stopped at a question. {used_up}", success=False)
    assert [list(responses or ()) for _, _, responses, _ in granted.calls] == [[], ["a"], ["a"]]
    await place.server.close()


async def test_a_call_that_asks_goes_on_with_the_answers() -> None:
    server = line(sent(again(seat=types.ElicitRequest(params=FORM))), sent(DONE))
    place = place_of(server)
    required = await call_of(place).run()
    assert isinstance(required, InputRequired)
    assert (required.questions, required.server) == ((Question("seat", "Which seat?", SEAT),), "a")
    resumed = Resumed(required.state, {"seat": Answer("accept", {"seat": "1a"})})
    assert await call_of(place, resumed=resumed).run() == said("done")
    given = {"seat": types.ElicitResult(action="accept", content={"seat": "1a"})}
    assert server.calls == [("send", {}, None, None), ("send", {}, given, "s")]
    for effect, code in ((ACTS, "unknown_outcome"), (ONLY_READS, "cancelled")):
        for ended in (Resumed(required.state, ended=True), Resumed(b"x", {})):
            with fails(code):
                await call_of(place, effect=effect, resumed=ended).run()
    assert len(server.calls) == 2
    await place.server.close()


async def test_a_program_that_asked_is_asked_first_and_the_person_after_it() -> None:
    server = line(sent(again(seat=types.ElicitRequest(params=FORM), folders=ROOTS)), sent(DONE))
    place = place_of(server, roots=True, sampling=SamplingGrant(tokens=100))
    resources = {Asker: Asker(frozenset(["roots"]))}
    first = await call_of(place, resources=resources).run()
    assert isinstance(first, InputRequired)
    assert [question.key for question in first.questions] == ["folders"]
    refused = await call_of(place, resumed=Resumed(first.state, {"folders": Answer("decline")})).run()
    why = "The program that asked for the call refused what the server asks of it."
    assert refused == said(f"The call stopped at a question. {why}", success=False)
    second = await call_of(place, resumed=Resumed(first.state, {"folders": Answer("accept", FOLDERS)})).run()
    assert isinstance(second, InputRequired)
    assert second.server == "a"
    assert [question.key for question in second.questions] == ["seat"]
    broken = QuestionState(others={"folders": "roots"}, given={"folders": {"roots": 3}}).encode()
    stopped = await call_of(place, resumed=Resumed(broken)).run()
    why = "The answers have not the form of the protocol."
    assert stopped == said(f"The call stopped at a question. {why}", success=False)
    last = call_of(place, resumed=Resumed(second.state, {"seat": Answer("accept", {"seat": "1a"})}))
    assert await last.run() == said("done")
    assert list(server.calls[-1][2]) == ["folders", "seat"]
    used = QuestionState(used=GrantUse(2, 30)).encode()
    counted = call_of(place, resumed=Resumed(used))
    await counted.run()
    assert counted.requests.used == GrantUse(2, 30)
    await place.server.close()


async def test_a_question_that_is_refused_ends_the_call() -> None:
    told = await made(line(sent(again(folders=ROOTS))))
    why = "Folders are not offered to this server."
    assert told == said(f"The call stopped at a question. {why}", success=False)


async def test_a_call_is_made_anew_once_its_address_was_opened() -> None:
    address = {"mode": "url", "message": "Sign in.", "url": "https://a.example/in", "elicitationId": "e1"}
    needs = MCPError(types.URL_ELICITATION_REQUIRED, "first", {"elicitations": [address]})
    server = line(sent(needs), sent(DONE))
    place = place_of(server)
    required = await call_of(place).run()
    assert isinstance(required, InputRequired)
    assert required.questions == (Question("address0", "Sign in.", url="https://a.example/in"),)
    assert (state_of(required), required.server) == ({"addresses": True}, "a")
    declined = await call_of(place, resumed=Resumed(required.state, {"address0": Answer("decline")})).run()
    message = "The address that the server needs to be opened was not opened."
    assert declined == said(message, success=False)
    with fails("cancelled"):
        await call_of(place, resumed=Resumed(required.state, ended=True)).run()
    assert len(server.calls) == 1
    assert await call_of(place, resumed=Resumed(required.state, {"address0": Answer("accept")})).run() == said("done")
    assert server.calls == [("send", {}, None, None)] * 2
    await place.server.close()
    nothing = MCPError(types.URL_ELICITATION_REQUIRED, "first")
    assert await made(line(sent(nothing))) == said("first", success=False)


async def test_a_call_of_the_older_era_waits_in_its_connection() -> None:
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def asks_first(note: CallNote) -> Any:
        note.sent = True
        asking.append(loop.create_task(server.live.ask(FORM)))
        return answer

    asking: list[asyncio.Task[Any]] = []
    server = line(asks_first, asks_during_calls=True)
    place = place_of(server)
    required = await call_of(place).run()
    assert isinstance(required, InputRequired)
    assert (required.questions, required.tied_to_process) == ((Question("answer", "Which seat?", SEAT),), True)
    going_on = asyncio.create_task(
        call_of(place, resumed=Resumed(required.state, {"answer": Answer("accept", {"seat": "1a"})})).run()
    )
    assert await asking[0] == types.ElicitResult(action="accept", content={"seat": "1a"})
    answer.set_result(DONE)
    assert await going_on == said("done")
    with fails("unknown_outcome"):  # the call is parked no more
        await call_of(place, resumed=Resumed(required.state, {})).run()
    answer = loop.create_future()
    waits = await call_of(place).run()
    with fails("cancelled"):
        await call_of(place, resumed=Resumed(waits.state, ended=True), effect=ONLY_READS).run()  # type: ignore[union-attr]
    await asyncio.sleep(0)
    assert answer.cancelled()
    await place.server.close()
    with fails("unknown_outcome"):
        await call_of(place, resumed=Resumed(required.state, {})).run()
    asking[1].cancel()


@pytest.mark.parametrize(("shows", "text"), [(True, "half"), (False, "")])
async def test_progress_and_log_are_passed_on(shows: bool, text: str) -> None:
    seen: list[Any] = []

    def report(done: float, total: float | None, message: str) -> None:
        check_progress(done, total, message)
        seen.append((done, total, message))

    def log(*logged: Any) -> None:
        check_log(*logged)
        seen.append(logged)

    server = line()
    place = place_of(server)
    context = ToolContext(_report=report, _log=log)
    made = ServerCall(place.server, TOOL, {}, context, ACTS, None, shows)
    await made.run()
    await server.on_progress(1, 2, "half")
    await server.on_progress(1.5, None, None)
    await server.on_progress(float("nan"), 2, "none")
    server.on_log("info", "began", "ink")
    server.on_log("error", {"code": 7}, "")
    server.on_log("loud", "no level", "")
    server.on_log("info", {1, 2}, "")
    assert seen == [(1, 2, text), (1.5, None, ""), ("info", "began", "ink"), ("error", '{"code": 7}', "")]
    await place.server.close()
