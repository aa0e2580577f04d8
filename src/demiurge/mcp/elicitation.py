"""Questions of a server, in both eras of the protocol: to the person, and to the program that asked for the call.

In the era 2026-07-28 a server ends its call with questions and a state, and gets the answers with a call of its own:
the wait survives a restart. In the older era a server asks while its call goes on, so the wait is tied to the
connection: the call is parked here until its answer comes. What can be answered at once (`server_requests`) does not
end the leg.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolResult,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    GetPromptResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    ReadResourceResult,
)
from pydantic import TypeAdapter

from demiurge.errors import InvalidValue
from demiurge.mcp.flow import CallNote, current_note
from demiurge.mcp.server_requests import GrantUse, RequestResult, ServerRequest, ServerRequests, reply_of
from demiurge.tools.input_required import Answer, InputRequired, Question, Resumed
from demiurge.values.clock import SystemEntropy, new_id

__all__ = [
    "Asked",
    "LiveCall",
    "LiveCalls",
    "QuestionState",
    "asked_addresses",
    "asked_later",
    "asked_modern",
    "input_responses",
    "read_state",
]

_MAX_PARKED: Final = 16
"""How many calls of one connection may wait for an answer; the oldest one is given up for the next."""

_MAX_WAIT_S: Final = 24 * 3600.0
_KEY: Final = "answer"
_REFUSED: Final = -1
"""The protocol's code of an error for a request that the user refused."""

_REPLIES: Final[Mapping[str, type[RequestResult]]] = {"sampling": CreateMessageResult, "roots": ListRootsResult}

ServerAnswer: TypeAlias = CallToolResult | GetPromptResult | ReadResourceResult | InputRequiredResult


@dataclass(frozen=True, slots=True)
class QuestionState:
    """The state of a call that waits for answers. `parked`: the id of a call of the older era that goes on;
    `request_state`: the server's own state; `addresses`: the call is made anew once a person opened the addresses.

    `others`: the kind of each question that no person answers, by its key; `given`: the answers to some of them;
    `later`: the questions that are asked in the next leg; `used`: what counts against the grant of the server."""

    parked: str | None = None
    request_state: str | None = None
    addresses: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, Any] = field(default_factory=dict)
    used: GrantUse = field(default_factory=GrantUse)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False).encode()


_STATE: Final = TypeAdapter(QuestionState)
_OLDER_STATE: Final = TypeAdapter(tuple[str | None, str | None, bool])


def read_state(resumed: Resumed) -> QuestionState:
    """Returns the state that this module gave a call. Raises InvalidValue for another one."""
    try:
        if resumed.state.startswith(b"["):
            return QuestionState(*_OLDER_STATE.validate_json(resumed.state))
        return _STATE.validate_json(resumed.state)
    except ValueError:
        raise InvalidValue("The state of this call is not one of an MCP server.") from None


def asked_addresses(server: str, error: MCPError) -> InputRequired:
    """Returns the questions of a server of the older era that did not begin the call before a person has opened some
    addresses. Raises InvalidValue for an error of another form."""
    try:
        asked = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, TypeError, AttributeError):
        raise InvalidValue("The server asks for addresses to be opened, and names none.") from None
    questions = tuple(Question(f"address{number}", one.message, url=one.url) for number, one in enumerate(asked))
    return InputRequired(questions, QuestionState(addresses=True).encode(), server)


async def asked_modern(
    server: str, answer: InputRequiredResult, requests: ServerRequests
) -> InputRequired | dict[str, Any] | None:
    """Returns the questions that an answer of the era 2026-07-28 holds; or the answers, if all of them can be given at
    once; None if it only asks for another try. Raises InvalidValue for questions that are refused."""
    people: dict[str, ElicitRequest] = {}
    others: dict[str, ServerRequest] = {}
    for key, request in (answer.input_requests or {}).items():
        if isinstance(request, ElicitRequest):
            people[key] = request
        else:
            requests.require(request)
            others[key] = request
    if not people and not others:
        return None
    own = {key: request for key, request in others.items() if requests.passes(_kind(request))}
    given = {key: await requests.answer(request) for key, request in others.items() if key not in own}
    if not people and not own:
        return dict(given)
    now = people if not own or requests.passes("form") else {}
    questions = [requests.question(key, request) for key, request in own.items()]
    state = QuestionState(
        request_state=answer.request_state,
        others={key: _kind(request) for key, request in others.items()},
        given={key: _dumped(reply) for key, reply in given.items()},
        later={key: _dumped(request) for key, request in people.items() if key not in now},
        used=requests.used_by_now(),
    )
    questions += [_question(key, request.params) for key, request in now.items()]
    return InputRequired(tuple(questions), state.encode(), server)


def asked_later(server: str, waiting: QuestionState, responses: Mapping[str, Any]) -> InputRequired:
    """Returns the questions to a person that had to wait for those to the program that asked for the call. Raises
    InvalidValue."""
    given = {key: _dumped(reply) for key, reply in responses.items()}
    state = QuestionState(None, waiting.request_state, others=waiting.others, given=given, used=waiting.used)
    asked = {key: ElicitRequest.model_validate(node) for key, node in waiting.later.items()}
    questions = tuple(_question(key, request.params) for key, request in asked.items())
    return InputRequired(questions, state.encode(), server)


def input_responses(waiting: QuestionState, answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Returns the answers to a server's questions as the protocol writes them, with those that were given before.
    Raises InvalidValue if the program that asked for the call refused one, which the protocol can't tell a server."""
    found: dict[str, Any] = {
        key: _REPLIES[waiting.others[key]].model_validate(node) for key, node in waiting.given.items()
    }
    for key, answer in answers.items():
        kind = waiting.others.get(key)
        if kind is None:
            found[key] = _result(answer)
            continue
        reply = reply_of(kind, answer)
        if reply is None:
            raise InvalidValue("The program that asked for the call refused what the server asks of it.")
        found[key] = reply
    return found


def _kind(request: ServerRequest) -> str:
    return "roots" if isinstance(request, ListRootsRequest) else "sampling"


def _dumped(model: Any) -> dict[str, Any]:
    node: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return node


def _question(key: str, params: ElicitRequestParams) -> Question:
    if isinstance(params, ElicitRequestFormParams):
        return Question(key, params.message, params.requested_schema)
    return Question(key, params.message, url=params.url)


def _result(answer: Answer) -> ElicitResult:
    content = None if answer.content is None else dict(answer.content)
    return ElicitResult(action=answer.action, content=content)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of the older era that stopped at a question: what a person is asked."""

    required: InputRequired


@dataclass(slots=True)
class LiveCall:
    """A call of the older era that its server works on. `task` returns its answer; `requests` answers what no person
    has to."""

    note: CallNote
    task: asyncio.Task[ServerAnswer]
    requests: ServerRequests
    open_questions: deque[tuple[Question, asyncio.Future[Answer]]] = field(default_factory=deque)
    asks: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the call has ended, or has an open question."""

    _serving: set[asyncio.Future[RequestResult]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[ServerAnswer]) -> None:
        """Ends what the server asked and no longer waits for."""
        self.asks.set()
        for serving in self._serving:
            serving.cancel()

    async def serve(self, request: ServerRequest) -> RequestResult | ErrorData:
        """Returns the answer to a request that is not for a person."""
        try:
            kind = _kind(request)
            if self.requests.passes(kind):
                reply = reply_of(kind, await self.ask(self.requests.question(_KEY, request)))
                return reply or ErrorData(code=_REFUSED, message="The request was refused.")
            serving = asyncio.ensure_future(self.requests.answer(request))
            self._serving.add(serving)
            try:
                await asyncio.wait([serving])
            finally:
                self._serving.discard(serving)
                serving.cancel()
            return serving.result()
        except InvalidValue as error:
            return ErrorData(code=_REFUSED, message=error.message)
        except asyncio.CancelledError:
            if self.task.done():
                return ErrorData(code=INVALID_REQUEST, message="The call of this request has ended.")
            raise

    async def ask(self, question: Question) -> Answer:
        """Returns the answer to a question of the server."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.open_questions.append((question, answer))
        self.asks.set()
        return await answer

    def answer(self, resumed: Resumed) -> None:
        """Answers the oldest open question."""
        _, waiting = self.open_questions.popleft()
        if not waiting.done():
            waiting.set_result(resumed.answers.get(_KEY, Answer("cancel")))
        if not self.open_questions and not self.task.done():
            self.asks.clear()


class LiveCalls:
    """The calls of one connection of the older era: those that go on, and those that wait for a person."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._live: list[LiveCall] = []
        self._parked: OrderedDict[str, LiveCall] = OrderedDict()

    async def ask(self, params: ElicitRequestParams) -> ElicitResult:
        """Passes a question on to the call that it belongs to, and returns the person's answer. Over standard input
        nothing says which call that is: while several go on, the question is cancelled."""
        call = self._asking()
        if call is None:
            return ElicitResult(action="cancel")
        try:
            question = _question(_KEY, params)
        except InvalidValue:
            return ElicitResult(action="cancel")
        return _result(await call.ask(question))

    async def serve(self, request: ServerRequest) -> RequestResult | ErrorData:
        """Answers a request that is not for a person, for the call that it belongs to. Without one it is refused."""
        call = self._asking()
        if call is None:
            return ErrorData(code=INVALID_REQUEST, message="No call that goes on is known to need this.")
        return await call.serve(request)

    def _asking(self) -> LiveCall | None:
        """Returns the call during which the server asks now; None if nothing says which it is."""
        note = current_note()
        found = [call for call in self._live if call.note is note] or (self._live if note is None else [])
        return found[0] if len(found) == 1 else None

    async def run(self, call: LiveCall) -> ServerAnswer | Asked:
        """Waits for the answer of the server, or for its next question; then the call is parked. If this is cancelled,
        so is the call. Raises MCPError if the connection was closed."""
        self._live.append(call)
        try:
            await call.asks.wait()
            if call.task.cancelled():  # by `close`: nobody cancelled the caller of this function
                raise MCPError(CONNECTION_CLOSED, "the connection was closed")
            if call.task.done():
                return call.task.result()
            return self._park(call, call.open_questions[0][0])
        except asyncio.CancelledError:
            await _cancelled(call.task)
            raise
        finally:
            self._live.remove(call)

    def _park(self, call: LiveCall, question: Question) -> Asked:
        if len(self._parked) >= _MAX_PARKED:
            _, oldest = self._parked.popitem(last=False)
            oldest.task.cancel()
        parked = new_id("parked", SystemEntropy())
        self._parked[parked] = call
        state = QuestionState(parked).encode()
        return Asked(
            InputRequired((question,), state, self._server, expires_s=_MAX_WAIT_S, tied_to_process=True, over=call.task)
        )

    def take(self, parked: str) -> LiveCall | None:
        """Returns a parked call, which is parked no more; None if it is not here."""
        return self._parked.pop(parked, None)

    async def close(self) -> None:
        """Gives up all calls."""
        tasks = [call.task for call in (*self._parked.values(), *self._live)]
        self._parked.clear()
        await _cancelled(*tasks)


async def _cancelled(*tasks: asyncio.Task[ServerAnswer]) -> None:
    """Cancels calls, which tells the server so, and gives them a second."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_mark_retrieved)
    if tasks:
        await asyncio.wait(tasks, timeout=1)


def _mark_retrieved(task: asyncio.Task[ServerAnswer]) -> None:
    if not task.cancelled():
        task.exception()
