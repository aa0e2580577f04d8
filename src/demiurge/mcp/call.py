"""One call of a pinned tool: sent at most once unless nothing can have changed, and answered honestly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
from mcp_types import (
    CONNECTION_CLOSED,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    ReadResourceResult,
)
from pydantic import ValidationError

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp.capabilities import missing_sentence
from demiurge.mcp.connection import ServerConnection
from demiurge.mcp.definition import ToolDefinition, is_idempotent, visible
from demiurge.mcp.elicitation import (
    Asked,
    LiveCall,
    ServerAnswer,
    asked_addresses,
    asked_later,
    asked_modern,
    input_responses,
    read_state,
)
from demiurge.mcp.flow import LEAKED, TOO_LARGE, CallNote
from demiurge.mcp.item_results import item_result
from demiurge.mcp.names import tool_id
from demiurge.mcp.requests import fits_template
from demiurge.mcp.results import error_result, tool_result
from demiurge.mcp.server_requests import ServerRequests
from demiurge.mcp.supervisor import SupervisedServer
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, ToolFailure
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.input_required import InputRequired, Resumed
from demiurge.tools.result import ToolResult
from mcp import MCPError

__all__ = ["ServerCall"]

Reply: TypeAlias = ServerAnswer | Asked | str
"""An answer of the protocol, the question at which a call of the older era stopped, or the text of an error."""

_MAX_TRIES: Final = 8
_FIRST_TRY_S: Final = 0.05
"""A server may ask to be called again at once: the number of tries, and the first pause, which doubles."""

_REFUSED: Final = (401, 403, 404, 405, 429)
"""HTTP statuses with which a server says that it did not take the request."""

_NO_SESSION: Final = 404
"""The status with which a server says that it does not know the session; the next call begins another one."""

_NO_ANSWER: Final = {
    CONNECTION_CLOSED: ToolErrorCode.UNAVAILABLE,
    REQUEST_TIMEOUT: ToolErrorCode.TIMEOUT,
    PARSE_ERROR: ToolErrorCode.EXECUTION,
}
"""The error of a call without a valid answer, by the code of the protocol's error."""


@dataclass(slots=True)
class ServerCall:
    """A call that was decided. `schema`: of its structured results."""

    server: SupervisedServer
    pinned: ToolDefinition
    arguments: dict[str, Any]
    context: ToolContext
    effect: ToolEffect
    schema: ForeignSchema | None
    shows_progress: bool
    requests: ServerRequests = field(init=False)
    was_asked: bool = False
    """True once the server has answered a request of this call with questions; it may have acted before them."""

    def __post_init__(self) -> None:
        self.requests = ServerRequests(self.server.settings, self.context, self.source)

    @property
    def source(self) -> str:
        """The tool's id, which names the source of its text."""
        return tool_id(self.server.settings.name, self.pinned.label)

    @property
    def may_act(self) -> bool:
        """Returns whether a call without an answer may have changed something."""
        return self.effect is not ToolEffect.READ_ONLY and not is_idempotent(self.pinned)

    async def run(self) -> ToolResult[Any] | InputRequired:
        """Makes the call. Raises ToolFailure."""
        if self.pinned.kind == "template" and not fits_template(self.pinned.uri or "", self.arguments["uri"]):
            message = f"The address is none of the template {visible(self.pinned.uri or '')}."
            raise ToolFailure(ToolErrorCode.VALIDATION, safe_message=message)
        try:
            async with self.server.slot():
                return await self._in_slot()
        except Unavailable as error:
            raise self._not_sent(ToolErrorCode.UNAVAILABLE, error.message) from error

    async def _in_slot(self) -> ToolResult[Any] | InputRequired:
        resumed = self.context.resumed
        if resumed is None:
            return await self._send(None, None)
        try:
            waiting = read_state(resumed)
        except InvalidValue as error:
            raise self._given_up() from error
        if waiting.parked is not None:
            return await self._go_on(waiting.parked, resumed)
        self.was_asked = not waiting.addresses
        if resumed.ended:
            raise self._given_up() if self.was_asked else ToolFailure(ToolErrorCode.CANCELLED)
        if not waiting.addresses:
            self.requests.used = waiting.used
            try:
                responses = input_responses(waiting, resumed.answers)
                if waiting.later:
                    return asked_later(self.server.settings.name, waiting, responses)
            except (InvalidValue, ValidationError) as error:
                return self._stopped(error)
            return await self._send(responses, waiting.request_state)
        if any(answer.action != "accept" for answer in resumed.answers.values()):
            return error_result("The address that the server needs to be opened was not opened.", self.source)
        return await self._send(None, None)

    async def _send(self, responses: Any, state: str | None) -> ToolResult[Any] | InputRequired:
        """Sends the call, with a person's answers if there are any, until its server no longer asks for another try."""
        pause_s, grant = _FIRST_TRY_S, self.server.settings.sampling
        for _ in range(_MAX_TRIES + (grant.requests if grant is not None else 0)):
            answer = await self._sent(responses, state)
            if not isinstance(answer, InputRequiredResult):
                return self._result(answer)
            self.was_asked = True
            try:
                asked = await asked_modern(self.server.settings.name, answer, self.requests)
            except InvalidValue as error:
                return self._stopped(error)
            if isinstance(asked, InputRequired):
                return asked
            responses, state = asked, answer.request_state
            if asked is None:
                await asyncio.sleep(pause_s)
                pause_s *= 2
        return error_result("The server asked too often to be called again.", self.source)

    def _stopped(self, error: InvalidValue | ValidationError) -> ToolResult[Any]:
        why = error.message if isinstance(error, InvalidValue) else "The answers have not the form of the protocol."
        return error_result(f"The call stopped at a question. {why}", self.source)

    async def _sent(self, responses: Any, state: str | None) -> Reply:
        """Sends one request; a second one only if the connection ended and nothing can have changed."""
        connection, note = await self._checked_connection(), CallNote()
        try:
            return await self._answer(note, self._request(connection, note, responses, state))
        except ToolFailure:
            if connection.is_open or (note.sent and self.may_act):
                raise
        connection, note = await self._checked_connection(), CallNote()
        return await self._answer(note, self._request(connection, note, responses, state))

    async def _request(self, connection: ServerConnection, note: CallNote, responses: Any, state: str | None) -> Reply:
        sending = connection.call(
            note, self.pinned, self.arguments, self._report, self._log, input_responses=responses, request_state=state
        )
        if not connection.asks_during_calls:
            return await sending
        task = asyncio.create_task(sending, name="mcp-call")
        return await connection.live.run(LiveCall(note, task, self.requests))

    async def _go_on(self, parked: str, resumed: Resumed) -> ToolResult[Any] | InputRequired:
        """Gives the person's answer to a call that waits in its connection. Raises ToolFailure if the connection has
        ended, or nobody answered."""
        connection = self.server.open_connection
        call = connection.live.take(parked) if connection is not None else None
        if connection is None or call is None or resumed.ended:
            if call is not None:
                call.task.cancel()
            raise self._given_up()
        self.requests.used = call.requests.used_by_now()
        call.requests = self.requests
        call.answer(resumed)
        return self._result(await self._answer(call.note, connection.live.run(call)))

    def _given_up(self) -> ToolFailure:
        """Returns the failure of a call whose wait for an answer ended without one."""
        return ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME if self.may_act else ToolErrorCode.CANCELLED)

    def _not_sent(self, code: ToolErrorCode, message: str | None = None) -> ToolFailure:
        """Returns the failure of a request that was not sent, or that the server did not take: `code`, unless the
        server may have acted before it asked."""
        if not (self.was_asked and self.may_act):
            return ToolFailure(code, safe_message=message)
        message = f"{message or SAFE_MESSAGES[code]} The server may have acted before it asked."
        return ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME, safe_message=message)

    async def _checked_connection(self) -> ServerConnection:
        """Returns a connection whose server lists the pinned definition. Raises ToolFailure (`quarantined`,
        `unavailable`), Unavailable."""
        listing = await self.server.fresh_listing()
        listed = listing.find(self.pinned.label)
        if listed is None:
            message = f"The server no longer lists this {self.pinned.kind}."
            raise self._not_sent(ToolErrorCode.UNAVAILABLE, message)
        if listed.pin != self.pinned.pin:
            raise self._not_sent(ToolErrorCode.QUARANTINED)
        connection = self.server.open_connection
        if connection is None:  # another process has to list its tools first
            raise self._not_sent(ToolErrorCode.UNAVAILABLE, "The server ended before the call was sent.")
        return connection

    async def _answer(self, note: CallNote, reply: Awaitable[Reply]) -> Reply:
        """Waits for the server's answer, and returns it or the text of its error. Raises ToolFailure."""
        try:
            async with self.requests.timed(self.server.settings.limits.timeout_s):
                answer = await reply
        except TimeoutError:
            self.server.doubt()
            raise self._failure(note, ToolErrorCode.TIMEOUT) from None
        except MCPError as error:
            return await self._answered_error(error, note)
        except (ValidationError, RuntimeError) as error:
            raise self._failure(note, ToolErrorCode.EXECUTION) from error
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise self._failure(note, ToolErrorCode.UNAVAILABLE) from error
        self.server.worked()
        return answer

    async def _answered_error(self, error: MCPError, note: CallNote) -> Asked | str:
        """Returns the text of a server's error, or what it asks for. Raises ToolFailure for an error that does not say
        what the server did."""
        if error.code == LEAKED:
            raise ToolFailure(ToolErrorCode.REDACTION_FAILED) from error
        if note.too_large or error.code == TOO_LARGE:
            raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE) from error
        if note.status in _REFUSED:
            if note.status == _NO_SESSION:
                await self.server.stop()
            message = note.problem or f"The server refused the request with the status {note.status}."
            raise self._not_sent(ToolErrorCode.UNAVAILABLE, message) from error
        if error.code in _NO_ANSWER or not note.is_answer or (note.status or 0) >= 500:
            raise self._failure(note, _NO_ANSWER.get(error.code, ToolErrorCode.UNAVAILABLE)) from error
        self.server.worked()
        if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
            raise ToolFailure(ToolErrorCode.EXECUTION, safe_message=missing_sentence(error.data)) from error
        if error.code == URL_ELICITATION_REQUIRED:
            with suppress(InvalidValue):
                return Asked(asked_addresses(self.server.settings.name, error))
        return error.message

    def _failure(self, note: CallNote, code: ToolErrorCode) -> ToolFailure:
        """Returns the failure of a call without an answer: `code` says why, unless the call may have acted."""
        if not note.sent:
            return self._not_sent(ToolErrorCode.UNAVAILABLE, note.problem or None)
        return ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME if self.may_act else code)

    def _result(self, answer: Reply) -> ToolResult[Any] | InputRequired:
        if isinstance(answer, Asked):
            return answer.required
        most, keeps = self.server.settings.limits.max_result_bytes, self.requests.asker.verbatim
        if isinstance(answer, GetPromptResult | ReadResourceResult):
            return item_result(answer, self.source, most)
        if not isinstance(answer, CallToolResult):
            return error_result(answer if isinstance(answer, str) else "The server asked again.", self.source)
        return tool_result(answer, self.source, self.schema, most, keeps=keeps)

    def _log(self, level: Any, data: Any, logger: str) -> None:
        """Shows what the server logs to those who may see what the call does."""
        with suppress(InvalidValue, TypeError, ValueError):
            self.context.log(level, data if isinstance(data, str) else json.dumps(data), logger)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        try:
            self.context.progress(progress, total, (message or "") if self.shows_progress else "")
        except InvalidValue:
            return  # a number that means nothing
