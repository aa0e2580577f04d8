"""`tools/call`: a governed call, and what a client is told while a person has to decide on it.

A client with the tasks extension gets a task; one that can ask its user is asked, with a signed state to come back
with; any other gets a plain result. In each case the call itself waits in the world, so nothing is lost with a client,
a connection or this process. A request for the same call later, by its state, its task or simply the same tool and
arguments, is answered with that call.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from demiurge.errors import DemiurgeError
from demiurge.mcp.capabilities import missing_capabilities
from demiurge.mcp.gateway.clients import (
    answered_by,
    asked_now,
    can_be_asked,
    can_be_asked_now,
    client_name,
    declared,
    is_modern,
    send_log,
    wanted_level,
)
from demiurge.mcp.gateway.content import AnswerForm, ToolForm, unknown_tool
from demiurge.mcp.gateway.handed_on import Marks
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.port import CallerWorld, CallLog, CallProgress, CallState, HeldCall, Waiting
from demiurge.mcp.gateway.questions import client_requests, given_answers, given_decision
from demiurge.mcp.gateway.request_state import RequestStates
from demiurge.mcp.gateway.task import created_task, has_tasks
from demiurge.tools.errors import ToolErrorCode
from demiurge.values.caller import Caller

__all__ = ["MOST_AT_ONCE", "AfterAnswer", "CallsOfClients"]

MOST_AT_ONCE: Final = 16
"""How many calls of one caller run at once; further ones wait."""

MOST_WAITING: Final = 256
"""How many further calls of one caller may wait for their turn."""

TASK_AFTER_S: Final = 1.0
"""How long a call may run before a client with the tasks extension gets a task, in seconds."""

MOST_HALF_ANSWERED: Final = 1000
"""How many calls may have some of their questions answered, and some not."""

LOOK_AGAIN_S: Final = 0.05
"""How long a call is left alone that waits, but for nobody any more: it was just decided, in seconds."""

MOST_LOOKS: Final = 20
"""How often such a call is looked at again before its client is told to ask later."""

CLOSED: Final = "closed"
"""The code of what a world says that this process has closed."""

STOPPING: Final = (
    "This server is being stopped, and does not know whether the call was made. Ask for the same call again: it is "
    "made at most once, and an answer that exists is given then."
)

Context = ServerRequestContext[Any, Any]
Responses = Mapping[str, types.InputResponse]
AfterAnswer = Callable[[bool], Coroutine[Any, Any, Any]]
"""Something to do after the answer to a request: it is told whether the bytes of the answer were handed over, whole."""


class CallsOfClients:
    """The calls of the clients of one gateway. `states` makes the signed states, `sent` runs something once the answer
    to a request was sent. `marks`: where a server's words are marked, in place of the default (`handed_on`)."""

    def __init__(
        self,
        names: ToolNames,
        states: Callable[[CallerWorld], Awaitable[RequestStates]],
        sent: Callable[[Context, AfterAnswer], None],
        marks: Marks | None = None,
    ) -> None:
        self._names, self._states, self._sent, self._marks = names, states, sent, marks
        self._turns = _Turns()
        self._answered: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def call(self, world: CallerWorld, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Answers `tools/call`. Raises MCPError for a tool that is missing or denied, for a state that is not this
        caller's, and for too many calls."""
        tool = self._names.id_of(params.name)
        if tool is None:
            raise unknown_tool(params.name)
        form = await self.form_of(world, tool, params.name)
        return await self.ask(world, ctx, tool, params.arguments or {}, params, form.form)

    async def form_of(self, world: CallerWorld, tool: str, name: str = "") -> ToolForm:
        """Returns the form of the answers about a tool, which its client calls `name`."""
        with suppress(DemiurgeError):  # the answer to the call will say it
            spec = next((spec for spec in await world.catalog() if spec.name == tool), None)
            return ToolForm(name or tool, spec, self._marks)
        return ToolForm(name or tool, None, self._marks)

    async def ask(
        self,
        world: CallerWorld,
        ctx: Context,
        tool: str,
        arguments: dict[str, Any],
        params: types.InputResponseRequestParams,
        form: AnswerForm,
    ) -> HandlerResult:
        """Makes a call, or takes one up, and answers in `form`. Raises as `call`."""
        async with self._turns.turn(world.caller):
            try:
                return await self._call(world, ctx, tool, arguments, params, form)
            except DemiurgeError as error:
                return form.refused(error.code, STOPPING if error.code == CLOSED else error.message)

    async def _call(
        self,
        world: CallerWorld,
        ctx: Context,
        tool: str,
        arguments: dict[str, Any],
        params: types.InputResponseRequestParams,
        form: AnswerForm,
    ) -> HandlerResult:
        shows, answers = _shows(ctx), answered_by(ctx, world.caller)
        responses = params.input_responses or {}
        if params.request_state is None:
            held = world.call(tool, arguments, client=client_name(ctx), shows=shows, answers=answers)
            return await self._wait_for(world, ctx, held, form, responses)
        opened = (await self._states(world)).open(world.caller, params.request_state)
        if opened is None or not world.asks_the_same(opened[0], tool, arguments):
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        call_id, asked = opened
        held = world.take_up(call_id, shows=shows, answers=answers)
        return await self._wait_for(world, ctx, held, form, responses, asked)

    async def _wait_for(
        self,
        world: CallerWorld,
        ctx: Context,
        held: HeldCall,
        form: AnswerForm,
        responses: Responses,
        asked: str | None = None,
    ) -> HandlerResult:
        """Waits for a call, and tells the client what came of it so far. `responses` are given once to what the call
        waits for, if that is `asked`, the approval or question that the client answers (None: it did not say which)."""
        tasks = form.has_tasks and has_tasks(ctx)
        taken: str | None = None  # the approval or question that took the responses
        looks = 0
        while True:
            state = await self._settled(world, ctx, held, TASK_AFTER_S if tasks else None)
            if state.status == "ended":
                return await self._end(world, ctx, held, form, state)
            waiting = await self._left_waiting(world, held, state)
            if state.status == "waiting" and waiting is None and looks < MOST_LOOKS:
                looks += 1  # somebody has just decided, or the time for it has just ended
                await asyncio.sleep(LOOK_AGAIN_S)
            elif waiting is not None and responses and asked in (None, waiting.approval):
                await self.take_answers(world, waiting, responses)
                responses, taken = {}, waiting.approval
            elif waiting is not None and taken != waiting.approval and can_be_asked_now(ctx, waiting):
                responses = await asked_now(ctx, waiting, self.answered(waiting))
                asked = taken = waiting.approval
            elif tasks:
                return created_task(held.call_id, waiting)
            elif waiting is not None and can_be_asked(ctx, waiting) and not _was_asked(waiting, taken):
                state_text = (await self._states(world)).seal(world.caller, held.call_id, waiting.approval)
                return types.InputRequiredResult(input_requests=self.requests(ctx, waiting), request_state=state_text)
            else:
                return form.waits(state, waiting)
            held = world.take_up(held.call_id, shows=_shows(ctx))

    async def _settled(
        self, world: CallerWorld, ctx: Context, held: HeldCall, within_s: float | None = None
    ) -> CallState:
        """Returns the state of a call once it has ended or waits, or after `within_s` seconds. Cancels the call if the
        client withdraws its request meanwhile."""
        try:
            with anyio.move_on_after(within_s):
                return await self.state_of(ctx, held)
        except asyncio.CancelledError:
            self._begin(self._cancel(world, held))
            raise
        except BaseException:
            await self.leave(held)
            raise
        return CallState(held.call_id, "", "open")

    async def _left_waiting(self, world: CallerWorld, held: HeldCall, state: CallState) -> Waiting | None:
        """Ends the wait for a call that has not ended, and returns what the call waits for."""
        try:
            return await world.waiting(held.call_id) if state.status == "waiting" else None
        finally:
            await self.leave(held)

    async def _end(
        self, world: CallerWorld, ctx: Context, held: HeldCall, form: AnswerForm, state: CallState
    ) -> HandlerResult:
        """Returns the answer to a call that has ended, which counts as given once it was sent. Raises MCPError."""
        try:
            result = await form.ended(state, world.blob)
        except BaseException:
            await self.leave(held)
            raise
        self._sent(ctx, lambda sent: held.leave(read=sent))
        if isinstance(result, MCPError):
            raise result
        _require_what_is_missing(ctx, state)
        return result

    async def leave(self, held: HeldCall) -> None:
        """Ends a wait whose answer was not given; certainly, also if the client withdraws its request meanwhile."""
        await asyncio.shield(self._begin(held.leave(read=False)))

    def requests(self, ctx: Context, waiting: Waiting) -> types.InputRequests:
        """Returns what the client is to ask its user."""
        asks = ctx.session.client_capabilities
        opens_urls = asks is not None and asks.elicitation is not None and asks.elicitation.url is not None
        return client_requests(waiting, self.answered(waiting), opens_urls=opens_urls, answers=declared(ctx))

    async def state_of(self, ctx: Context, held: HeldCall) -> CallState:
        """Shows the progress of a call to its client, and returns its state."""
        async with aclosing(held.events()) as events:
            async for event in events:
                if isinstance(event, CallProgress):
                    await ctx.session.report_progress(event.done, event.total, event.message or None)
                elif isinstance(event, CallLog):
                    await send_log(ctx, event)
                else:
                    return event
        return CallState(held.call_id, "", "open")

    async def _cancel(self, world: CallerWorld, held: HeldCall) -> None:
        """Cancels a call whose client has withdrawn its request, unless another request waits for it. If nothing
        happened, the answer counts as given; else the client's next request for it is told."""
        if await held.leave(read=False):
            return
        await world.cancel(held.call_id)
        again = world.take_up(held.call_id)
        async with aclosing(again.events()) as events:
            async for event in events:
                if isinstance(event, CallState):
                    await again.leave(read=event.error_code in _NOTHING_HAPPENED)
                    break

    async def take_answers(self, world: CallerWorld, waiting: Waiting, responses: Responses) -> None:
        """Takes the answers of a client to what a call waits for. One that its caller may not give changes nothing."""
        if not waiting.may_decide:
            return
        try:
            if waiting.questions:
                await self._answer(world, waiting, given_answers(waiting, responses))
            elif (decided := given_decision(waiting, responses)) is not None:
                await world.decide(waiting.approval, approve=decided[0], reason=decided[1])
        except DemiurgeError:
            return  # the call still waits, and the client is told so

    async def _answer(self, world: CallerWorld, waiting: Waiting, given: Mapping[str, Mapping[str, Any]]) -> None:
        """Answers the questions of a tool, once each of them is answered; the answers until then are kept here."""
        answers = {**self.answered(waiting), **given}
        if len(answers) < len(waiting.questions):
            self._answered[waiting.approval] = answers
            while len(self._answered) > MOST_HALF_ANSWERED:
                del self._answered[next(iter(self._answered))]
            return
        self._answered.pop(waiting.approval, None)
        await world.answer(waiting, answers)

    def answered(self, waiting: Waiting) -> Mapping[str, Mapping[str, Any]]:
        """Returns the answers that were given while others are still missing."""
        return self._answered.get(waiting.approval, {})

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """Waits for what was begun."""
        while self._background:
            await asyncio.wait(self._background)


_NOTHING_HAPPENED: Final = frozenset(
    code.value
    for code in (
        ToolErrorCode.CANCELLED,
        ToolErrorCode.APPROVAL_REJECTED,
        ToolErrorCode.POLICY_DENIED,
        ToolErrorCode.VALIDATION,
    )
)


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except DemiurgeError:
        return  # the world is closed: the call ends with it, and its record says how


def _require_what_is_missing(ctx: Context, state: CallState) -> None:
    """Raises MCPError if an MCP server behind this gateway refused the call for want of abilities that the client of
    this gateway does not have either."""
    if state.error_code != ToolErrorCode.EXECUTION or not is_modern(ctx):
        return
    needed = missing_capabilities(state.message)
    if needed is not None and not ctx.session.check_client_capability(types.ClientCapabilities.model_validate(needed)):
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, state.message, {"requiredCapabilities": needed})


def _shows(ctx: Context) -> bool:
    """Returns whether the client of a request wants to see the progress or the log of its call."""
    return bool(ctx.meta and ctx.meta.get("progress_token") is not None) or wanted_level(ctx) is not None


def _was_asked(waiting: Waiting, taken: str | None) -> bool:
    """Returns whether the client's user has just been asked in vain. A form with a fault is asked for again."""
    return taken == waiting.approval and not (waiting.questions and waiting.may_decide)


class _Turns:
    """The turns of each caller: `MOST_AT_ONCE` at a time, first come, first served."""

    def __init__(self) -> None:
        self._running: Counter[Caller] = Counter()
        self._waiting: dict[Caller, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """Waits for a turn. Raises MCPError when too many wait."""
        if self._running[caller] >= MOST_AT_ONCE:
            await self._queue(caller)
        else:
            self._running[caller] += 1
        try:
            yield
        finally:
            self._pass_on(caller)

    async def _queue(self, caller: Caller) -> None:
        waiting = self._waiting.setdefault(caller, deque())
        if len(waiting) >= MOST_WAITING:
            raise MCPError(types.INTERNAL_ERROR, "Too many calls of this caller are waiting; try again later.")
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on(caller)
            else:
                waiting.remove(turn)
            raise

    def _pass_on(self, caller: Caller) -> None:
        waiting = self._waiting.get(caller)
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # the turn goes on, so the count stays
                return
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
            self._waiting.pop(caller, None)
