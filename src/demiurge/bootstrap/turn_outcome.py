"""The outcome of a chat's turns: answered, failed and why, or waiting. Every screen and reply takes it from here.

The cell says of the last turn alone how it ended. An earlier turn failed if its last message is no answer; the reason
is in the cell as it was before the next message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.answer_cost import cost_of_answers
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.budget_notices import budgets_near_end
from demiurge.bootstrap.chat_state import ChatCell, ChatMessage, Failed
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.message_body import load_body, load_findings
from demiurge.bootstrap.reply import Reply
from demiurge.bootstrap.turn_reader import TurnReader
from demiurge.errors import DemiurgeError
from demiurge.values.money import dollars_text, whole_micros
from demiurge.world.host import Accepted
from demiurge.world.unit import Unit
from demiurge.world.usage import MICROS_PER_CENT

__all__ = ["failures_of", "messages_from", "refusal_of", "reply_of"]

REFUSED: Final = "demiurge/ChatFailed@1"

BROKEN_OFF: Final = frozenset(("bad_response", "cancelled", "provider_unavailable", "timeout", "truncated"))
"""The codes of a turn whose last request to a model may have done work and has no answer: nobody knows its cost."""


async def reply_of(turn: TurnReader) -> Reply | None:
    """Returns the reply of the turn that was read; None if the chat has no such message."""
    await turn.read()
    cell, request_id, state, answers = turn.cell, turn.request_id, turn.turn, turn.answers
    if request_id is None:
        return None
    unit = Unit(CHAT, cell.chat_id)
    running = state is not None and state.is_open
    may_ask = cell.backend.caller.has("agent", "approver")
    waiting = await cell.backend.read.approvals(str(unit)) if running and may_ask else []
    failed, why = await _failed(turn, request_id)
    cost = None
    if not _broke_off(turn, why):
        cost = await asyncio.to_thread(cost_of_answers, cell.backend, unit, request_id, answers)
    near = await budgets_near_end(cell.backend, [str(unit)]) if state is not None else {}
    usage = [answer.token_usage for answer in answers if answer.token_usage]
    return Reply(
        status="failed" if failed else "awaiting_approval" if running else "done",
        request_id=request_id,
        text="" if failed or running else turn.answer.text,
        tool_calls=tuple(turn.view(place) for place in range(len(turn.calls))),
        error_code=why.code if why is not None else None,
        message=why.message if why is not None else "",
        approvals=tuple(asked["id"] for asked in waiting),
        prompt_tokens=sum(used["prompt"] for used in usage),
        completion_tokens=sum(used["completion"] for used in usage),
        cost_cents=-(-whole_micros(cost) // MICROS_PER_CENT) if cost is not None else None,
        cost_micros=whole_micros(cost) if cost is not None else None,
        cost_usd=dollars_text(cost) if cost is not None else None,
        finish_reason=answers[-1].finish_reason if answers else None,
        max_tokens=turn.max_tokens if state is not None else None,
        erased=turn.answer.erased,
        budgets=tuple(near.get(str(unit), ())),
        findings=() if running or not answers else load_findings(cell.backend, answers[-1].findings_ref),
    )


def _broke_off(turn: TurnReader, why: Failed | None) -> bool:
    """Returns whether a turn ended during a request to a model, for which the provider may charge."""
    outcomes = [call.outcome for call in turn.calls]
    call_stopped = any(outcome is not None and outcome.error_code == "cancelled" for outcome in outcomes)
    return why is not None and why.code in BROKEN_OFF and not call_stopped


async def _failed(turn: TurnReader, request_id: int) -> tuple[bool, Failed | None]:
    """Returns whether a turn failed, and why as far as records say it."""
    if turn.turn is not None:
        return turn.turn.failed is not None, turn.turn.failed
    if _is_answer(turn.answer) and not turn.answers[-1].refused:
        return False, None
    why = (await _reasons(turn.cell, [request_id])).get(request_id)
    # an empty answer ended a turn well in older versions
    return why is not None or not turn.answers or bool(turn.answer.tool_calls), why


async def failures_of(cell: ChatCell, since: int = 0) -> dict[int, Failed]:
    """Returns why turns failed, by request id, from that of `since` on. A turn whose records can't be had is left
    out."""
    last = {message.request_id: message for message in await messages_from(cell, since) or () if message.tool is None}
    return await _reasons(cell, [request_id for request_id, message in last.items() if not _ends_well(cell, message)])


def refusal_of(backend: Backend, accepted: Accepted) -> Failed | None:
    """Returns why the chat did not take an event (`chat_unknown`, `chat_busy`, `request_stale`, `chat_deleted`); None
    if it did."""
    for record in Journal(backend).read(accepted.unit, accepted.seq + 1):
        if record.is_ingress:
            break
        if record.kind == "event" and record.body["schema"] == REFUSED:
            return Failed(record.body["value"]["code"], record.body["value"]["message"])
    return None


async def messages_from(cell: ChatCell, request_id: int) -> list[ChatMessage] | None:
    """Returns the chat's messages from this request id on; None for a chat that was never created."""
    first = await cell.place(request_id) if request_id > 0 else 0
    return await cell.messages(first) if first is not None else None


def _ends_well(cell: ChatCell, last: ChatMessage) -> bool:
    """Returns whether the last message of a turn is an answer."""
    return last.role == "assistant" and not last.refused and _is_answer(load_body(cell.backend, last.message_ref))


def _is_answer(body: MessageBody) -> bool:
    """Returns whether a message of the model says something, and asks for no tool."""
    return not body.tool_calls and bool(body.text.strip())


async def _reasons(cell: ChatCell, among: Collection[int]) -> dict[int, Failed]:
    """Returns why these turns failed, without those that did not fail or whose records can't be had."""
    turn = await cell.turn() if among else None
    found = {turn.request_id: turn.failed} if turn is not None else {}
    following = {await _next_request(cell, sought): sought for sought in among if sought not in found}
    with suppress(DemiurgeError):
        for position, request_id in _positions(cell, following):
            wanted = following[request_id]
            then = await cell.turn(position - 1) if wanted not in found else None
            if then is not None and then.request_id == wanted and not then.is_open:
                found[wanted] = then.failed
    return {wanted: why for wanted, why in sorted(found.items()) if why is not None and wanted in among}


async def _next_request(cell: ChatCell, request_id: int) -> int:
    """Returns the request id of the message after this one, -1 if there is none."""
    first = await cell.place(request_id + 1) or 0
    return next((message.request_id for message in await cell.messages(first, first + 1) or ()), -1)


def _positions(cell: ChatCell, request_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yields the position and the request id of each message with one of these ids, taken or not."""
    for record in Journal(cell.backend).views(Unit(CHAT, cell.chat_id)) if request_ids else ():
        value = record["body"]["value"] if record["caller"] is not None and record["kind"] == "event" else {}
        if value.get("$tag") == "UserMessage" and value["$value"]["request_id"] in request_ids:
            yield record["position"], value["$value"]["request_id"]
