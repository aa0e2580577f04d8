"""Chats: listing, creating and deleting them, reading their messages, sending a message."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap import World
from demiurge.bootstrap.chat import MAX_TITLE
from demiurge.bootstrap.chats import ChatSummary, each_chat, summary_of
from demiurge.bootstrap.message_body import StoredAttachment
from demiurge.errors import NotFound
from demiurge.server.budget_used import BudgetUsed
from demiurge.server.callers import CurrentWorld
from demiurge.server.cut_results import cut_results
from demiurge.server.errors import responses
from demiurge.server.streams import before_closing
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.values.refs import parse_ref
from demiurge.wire.items import NamedTool
from demiurge.world.messages import MAX_ATTACHED

__all__ = ["router"]

router = APIRouter(prefix="/api/chats", tags=["chats"], route_class=StrictJsonRoute)

ChatId = Annotated[str, Path(min_length=1, max_length=256)]

MaxResult = Annotated[
    int | None,
    Query(ge=0, le=2**53, description="A public result with more bytes is None; `result_cut` has its size and head."),
]


class ListedChat(BaseModel):
    """A chat. `title` is empty if it has none; `name` is the title, or for want of one "Untitled, 24 Nov 15:38" by the
    server's clock. `status` is that of its last turn; `waiting`: a call of it waits for a person."""

    chat_id: str
    title: str
    name: str
    messages: int
    last_request_id: int
    status: str
    waiting: bool
    archived: bool
    created_at_ms: int | None
    first_message_at_ms: int | None


class Chats(BaseModel):
    """Chats of the world, the most recently active first. `next`: the `before` that reads on; None if there are no
    more."""

    chats: list[ListedChat]
    next: int | None


class NewChat(BaseModel):
    """A chat to make. Without an id it gets one."""

    model_config = ConfigDict(extra="forbid")
    chat_id: str | None = Field(None, min_length=1, max_length=256)
    title: str = Field("", max_length=500)


class ChatChange(BaseModel):
    """Another title for a chat, or whether it is in the archive; a field that is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")
    title: str | None = Field(None, min_length=1, max_length=MAX_TITLE)
    archived: bool | None = None


class DeletedChat(BaseModel):
    """A chat that was deleted: the addresses that were erased, of their copies, and of those that stay because other
    chats name them. `done` is false while something that can't be erased holds the words."""

    chat_id: str
    done: bool
    refs: list[str]
    copies: list[str]
    shared: list[str]


class NewAttachment(BaseModel):
    """An image or a sound that goes with a message: the address of its bytes, which `POST /api/blob` stored."""

    model_config = ConfigDict(extra="forbid")
    mime: str = Field(max_length=100, description="Such as `image/png`; it must be what the bytes are.")
    bytes_ref: str = Field(max_length=71)


class ToolName(BaseModel):
    """A tool that the model has to call."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=200)


class NewMessage(BaseModel):
    """A message to send: a text, attachments, or both. `model` and `provider` answer this message in place of the
    world's. `tools`: the only tools that the model may call in this turn; an empty list also leaves out the catalog
    of prompt tools. `tools_ref`: the address of a stored toolset, in place of `tools`. `tool_choice` is for the
    first request of the turn."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field("", max_length=1_000_000)
    attachments: list[NewAttachment] = Field([], max_length=MAX_ATTACHED)
    max_tokens: int | None = Field(None, ge=1, le=10_000_000)
    model: str | None = Field(None, min_length=1, max_length=200)
    provider: str | None = Field(None, min_length=1, max_length=100)
    tools: list[str] | None = Field(None, max_length=512)
    tools_ref: str | None = Field(None, max_length=71)
    tool_choice: Literal["auto", "none", "required"] | ToolName | None = None
    skip_tool_catalog: bool = Field(False, description="No catalog of prompt tools in the prompt of this turn.")
    wait: bool = Field(False, description="Answer when the turn is over, or only a person can go on.")


class AcceptedMessage(BaseModel):
    """An accepted message; `unit` and `seq` name its event. With `wait` the body says also how the turn ended."""

    chat_id: str
    unit: str
    seq: int
    request_id: int
    status: Literal["running", "done", "awaiting_approval", "failed"]
    reply: dict[str, Any] | None = None


class CitationFinding(BaseModel):
    """A citation of an answer that does not hold: its line, and what is wrong with it."""

    line: int
    code: str
    detail: str
    message: str


class TurnStanding(BaseModel):
    """The state of a turn. A cost that is not known is None, never 0."""

    model_config = ConfigDict(extra="ignore")
    request_id: int
    status: Literal["running", "done", "awaiting_approval", "failed"]
    text: str
    tool_calls: list[dict[str, Any]]
    error_code: str | None
    message: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: str | None
    finish_reason: str | None
    budgets: list[BudgetUsed] = Field([], description="The limits that near their end, of the last message alone.")
    findings: list[CitationFinding] = Field([], description="The citations of the last answer that do not hold.")


class TurnFailure(BaseModel):
    """Why a turn failed."""

    request_id: int
    code: str
    message: str


class Messages(BaseModel):
    """The messages of a chat, oldest first, and the turns among them that failed."""

    chat_id: str
    messages: list[dict[str, Any]]
    failures: list[TurnFailure]


class Claims(BaseModel):
    """The claims of the model's answers in a chat. `ok`: all of them hold. An answer has `{request_id, ref, ok, erased,
    claims}`, and a claim `{line, text, ok, code, detail, message}`."""

    chat_id: str
    ok: bool
    replies: list[dict[str, Any]]


@router.get("", responses=responses(401, 403, 422, 503))
async def chats(
    world: CurrentWorld,
    prefix: Annotated[str, Query(max_length=256, description="Only chats whose id begins so.")] = "",
    search: Annotated[str, Query(max_length=500, description="Only chats with this in their title or id.")] = "",
    before: Annotated[
        int | None, Query(ge=0, le=2**53, description="Only chats whose last record has a position below this.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    archived: Annotated[bool, Query(description="The chats in the archive, in place of those that are not.")] = False,
) -> Chats:
    """Lists chats with their titles, the most recently active first. Upper and lower case are the same to `search`."""
    wanted = search.strip().casefold()
    found: list[ListedChat] = []
    last: int | None = None
    async for chat in each_chat(world.backend, prefix, before, archived=archived):
        if wanted not in f"{chat.name}\n{chat.id}".casefold():
            continue
        if len(found) == limit:
            return Chats(chats=found, next=last)
        found.append(_shown(chat))
        last = chat.position
    return Chats(chats=found, next=None)


@router.post("", status_code=201, responses=responses(400, 401, 403, 409, 422, 503))
async def create(world: CurrentWorld, given: NewChat) -> ListedChat:
    """Makes a chat."""
    chat_id = given.chat_id if given.chat_id is not None else new_id("chat", SystemEntropy())
    chat = world.chat(chat_id)
    await chat.create(given.title)
    await world.settle(chat.unit)
    return await _of(world, chat_id)


@router.post("/import", status_code=201, responses=responses(400, 401, 403, 409, 413, 422, 503))
async def import_chat(
    world: CurrentWorld,
    document: dict[str, Any],
    chat_id: Annotated[
        str | None, Query(min_length=1, max_length=256, description="Of the new chat; without it, one is made.")
    ] = None,
) -> ListedChat:
    """Makes a new chat with the history of an exported one (`GET /api/chats/{chat_id}/export`), which is marked as
    imported. Nothing of it counts as a call or a turn (docs/chats.md)."""
    return await _of(world, (await world.import_chat(document, chat_id)).id)


@router.get("/{chat_id}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, chat_id: ChatId) -> ListedChat:
    """Returns a chat with the state of its last turn."""
    return await _of(world, chat_id)


@router.patch("/{chat_id}", responses=responses(400, 401, 403, 404, 422, 503))
async def change(world: CurrentWorld, chat_id: ChatId, given: ChatChange) -> ListedChat:
    """Gives a chat another title, archives it or takes it back. The record keeps who did so; an earlier title can be
    erased."""
    chat = world.chat(chat_id)
    if given.title is not None:
        await chat.rename(given.title)
    if given.archived is not None:
        await (chat.archive() if given.archived else chat.unarchive())
    return await _of(world, chat_id)


@router.delete("/{chat_id}", responses=responses(400, 401, 403, 404, 409, 422, 503))
async def delete(
    world: CurrentWorld,
    chat_id: ChatId,
    why: Annotated[str, Query(min_length=1, max_length=2000, description="The reason, which is recorded.")],
) -> DeletedChat:
    """Closes a chat for good and erases its messages, answers, results, attachments and title, with all copies of them.
    What other chats name too stays. Fails with 409 (`chat_busy`) while a turn goes on."""
    found = await world.chat(chat_id).delete(why)
    return DeletedChat(
        chat_id=chat_id, done=found.done, refs=[*found.refs], copies=[*found.copies], shared=[*found.shared]
    )


@router.get("/{chat_id}/messages", responses=responses(401, 403, 404, 422, 503))
async def messages(
    world: CurrentWorld,
    chat_id: ChatId,
    since: Annotated[int, Query(ge=0, le=2**53)] = 0,
    max_result: MaxResult = None,
) -> Messages:
    """Returns the messages of a chat from the request id `since` on, as far as the caller may see them
    (docs/callers.md)."""
    found = await world.chat(chat_id).messages(since)
    cut_results([message["tool"] for message in found if "tool" in message], max_result)
    failures = await world.chat(chat_id).failures(since)
    failed = [TurnFailure(request_id=request_id, **why._asdict()) for request_id, why in failures.items()]
    return Messages(chat_id=chat_id, messages=found, failures=failed)


@router.get(
    "/{chat_id}/export",
    response_class=Response,
    responses={
        200: {"description": "The chat.", "content": {"application/json": {}, "text/markdown": {}}},
        **responses(401, 403, 404, 422, 503),
    },
)
async def export(
    world: CurrentWorld,
    chat_id: ChatId,
    form: Annotated[
        Literal["json", "markdown"], Query(alias="format", description="Markdown is for a person.")
    ] = "json",
) -> Response:
    """Returns the whole chat as a download, with its title, times, models, tokens, cost, calls and files
    (docs/chats.md)."""
    found = await world.chat(chat_id).export()
    is_markdown = form == "markdown"
    text = found.to_markdown() if is_markdown else json.dumps(found.to_json(), ensure_ascii=False)
    headers = {"content-disposition": f'attachment; filename="chat.{"md" if is_markdown else "json"}"'}
    kind = "text/markdown; charset=utf-8" if is_markdown else "application/json"
    return Response(text, media_type=kind, headers=headers)


@router.get("/{chat_id}/claims", responses=responses(401, 403, 404, 422, 503))
async def claims(
    world: CurrentWorld,
    chat_id: ChatId,
    request_id: Annotated[int | None, Query(ge=1, le=2**53, description="Only the answers to this message.")] = None,
    role: Annotated[str, Query(max_length=80, description="The role of the answers' author, such as Planner.")] = "",
) -> Claims:
    """Checks the receipts, quotes and evidence lines of the model's answers against the recorded calls of the chat."""
    found = await world.chat(chat_id).claims(request_id, role)
    return Claims(chat_id=chat_id, ok=all(reply.ok for reply in found), replies=[reply.to_json() for reply in found])


@router.get("/{chat_id}/turns/{request_id}", responses=responses(401, 403, 404, 422, 503))
async def turn(
    world: CurrentWorld,
    chat_id: ChatId,
    request_id: Annotated[int, Path(ge=1, le=2**53)],
    max_result: MaxResult = None,
) -> TurnStanding:
    """Returns the state of a turn: its calls with their public results, why it failed, its tokens and its cost."""
    chat = world.chat(chat_id)
    reply = await chat.reply(request_id)
    runs = reply.is_running and not await world.backend.read.waiting_units(
        str(chat.unit)
    )  # ids of waiting calls are not for every role
    shown = {**asdict(reply), "status": "running" if runs else reply.status}
    shown["tool_calls"] = list(shown["tool_calls"])
    cut_results(shown["tool_calls"], max_result)
    return TurnStanding(**shown)


@router.post("/{chat_id}/messages", status_code=202, responses=responses(400, 401, 403, 404, 409, 413, 422, 503))
async def send(request: Request, world: CurrentWorld, chat_id: ChatId, given: NewMessage) -> AcceptedMessage:
    """Sends a message to a chat, and creates the chat if there is none. The turn goes on when the connection is closed.
    Fails with 409 (`chat_busy`) while the last turn runs or waits for a person. A server that stops answers a request
    that waits with `running`."""
    chat = world.chat(chat_id)
    attachments = [StoredAttachment(each.mime, parse_ref(each.bytes_ref)) for each in given.attachments]
    said = await chat.say(
        given.text,
        attachments=attachments,
        max_tokens=given.max_tokens,
        model=given.model,
        provider=given.provider,
        tools=given.tools,
        tools_ref=parse_ref(given.tools_ref) if given.tools_ref is not None else None,
        tool_choice=NamedTool(choice.name) if isinstance(choice := given.tool_choice, ToolName) else choice,
        skip_tool_catalog=given.skip_tool_catalog,
    )
    place: dict[str, Any] = {
        "chat_id": chat_id,
        "unit": said.accepted.unit,
        "seq": said.accepted.seq,
        "request_id": said.request_id,
    }
    if not given.wait:
        return AcceptedMessage(**place, status="running")
    reply = await before_closing(request.app.state.closing, chat.wait(said.request_id))
    if reply is None:
        return AcceptedMessage(**place, status="running")
    return AcceptedMessage(**place, status=reply.status, reply=asdict(reply))


@router.post("/{chat_id}/cancel", status_code=202, responses=responses(401, 403, 404, 422, 503))
async def cancel(world: CurrentWorld, chat_id: ChatId) -> ListedChat:
    """Stops the open turn: running calls are cancelled, calls that wait for a person are withdrawn."""
    await world.chat(chat_id).cancel()
    return await _of(world, chat_id)


async def _of(world: World, chat_id: str) -> ListedChat:
    chat = world.chat(chat_id)
    standing = await chat.standing()
    if standing is None or standing.deleted:
        raise NotFound(f"There is no chat {chat_id}; GET /api/chats lists them.", code="chat_unknown")
    waiting = bool(await world.backend.read.waiting_units(str(chat.unit)))
    return _shown(summary_of(chat_id, standing, waiting=waiting))


def _shown(chat: ChatSummary) -> ListedChat:
    fields = asdict(chat)
    return ListedChat(
        chat_id=fields.pop("id"), **{name: fields[name] for name in ListedChat.model_fields if name in fields}
    )
