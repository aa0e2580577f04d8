"""`Chat`: one conversation of a world.

A chat holds no state of its own: what it says and shows is read from the chat's unit and its blobs, so two processes
see the same chat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from demiurge.apps.demiurge import CHAT, TITLES
from demiurge.bootstrap.backend import Backend, OnFrame
from demiurge.bootstrap.backend.operations import OPERATIONS
from demiurge.bootstrap.backend.settling import settle
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.chat_erasure import erase_chat
from demiurge.bootstrap.chat_export import ChatExport, export_chat
from demiurge.bootstrap.chat_fields import require_fields
from demiurge.bootstrap.chat_messages import shown_messages
from demiurge.bootstrap.chat_state import ChatCell, ChatSettings, ChatStanding, Failed, Said
from demiurge.bootstrap.message_body import (
    MAX_TITLE,
    Attachment,
    store_attachments,
    store_title,
)
from demiurge.bootstrap.message_terms import MessageTerms
from demiurge.bootstrap.models import Choice
from demiurge.bootstrap.reply import Reply, ToolCallView
from demiurge.bootstrap.reply_claims import ReplyClaims, check_answers, require_role
from demiurge.bootstrap.toolset import toolset_event
from demiurge.bootstrap.trace_view import TraceTree, records_of_chat, trace_trees
from demiurge.bootstrap.turn_outcome import failures_of, messages_from, refusal_of, reply_of
from demiurge.bootstrap.turn_reader import TurnReader
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.sessions.session import Session
from demiurge.values import canonical_json
from demiurge.values.clock import SystemClock
from demiurge.values.refs import Ref
from demiurge.wire.items import ToolChoice
from demiurge.world.history.call_state import STOPPED
from demiurge.world.host import Accepted
from demiurge.world.messages import user_blob
from demiurge.world.retention.erasure import Erasure
from demiurge.world.sessions import Sessions
from demiurge.world.unit import Unit

__all__ = ["MAX_TITLE", "Chat", "Reply", "ToolCallView"]

TRIES = 50
"""How often a message is submitted again because the message of another process came first."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat by its id. Make one with `World.chat`. `choice` is the model that answers its next message."""

    backend: Backend = field(repr=False)
    id: str
    choice: Choice = field(repr=False)
    sessions: Sessions = field(repr=False)

    @property
    def unit(self) -> Unit:
        """The unit of the chat."""
        return Unit(CHAT, self.id)

    @property
    def _cell(self) -> ChatCell:
        return ChatCell(self.backend, self.id)

    async def state(self) -> Mapping[str, Any] | None:
        """Returns `demiurge/ChatState@1` as JSON-ready data; None for a chat that was never created."""
        return await self._cell.read()

    async def standing(self) -> ChatStanding | None:
        """Returns how the chat stands: its title, its last turn and the number of its messages; None for a chat that
        was never created."""
        return await self._cell.standing(await self._lacking())

    async def session(self) -> Session:
        """Returns a copy of the chat's session: what its tools have folded so far, e.g. `session[Plan].latest()`.

        Failed calls are in its log alone. Types that this process was not told of (`World.open`) have no values.
        Raises Damaged, NotFound, Divergence (the types at hand don't take what was stored)."""
        return await asyncio.to_thread(self.sessions.of, self.unit)

    async def create(self, title: str = "") -> None:
        """Creates the chat; an existing one stays as it is. Raises InvalidValue (`title`; `older_definitions`)."""
        value = {"chat_id": self.id, "title": "", "created_at_ms": SystemClock().now_ns() // 1_000_000}
        if title:
            value["title_ref"] = await self._stored_title(title)
        try:
            await self.backend.run.submit("demiurge/ChatCreated@1", value, None, f"create:{self.id}")
        except Conflict as conflict:  # it was made before, with another title or at another time
            if conflict.code != "key_taken":
                raise

    async def rename(self, title: str) -> None:
        """Gives the chat another title, also while a turn goes on. Raises InvalidValue (`title`; `older_definitions`),
        NotFound (`chat_unknown`)."""
        titled = {"title": "", "title_ref": await self._stored_title(title)}
        await self._change("demiurge/ChatRenamed@1", "rename", titled)

    async def archive(self) -> None:
        """Puts the chat away: lists leave it out until it is taken back, or something is said in it. Raises
        UsageError (`role_missing`), InvalidValue (`older_definitions`), NotFound (`chat_unknown`)."""
        await self._change("demiurge/ChatArchived@1", "archive", {"archived": True})

    async def unarchive(self) -> None:
        """Takes the chat back into the lists. Raises as `archive`."""
        await self._change("demiurge/ChatArchived@1", "archive", {"archived": False})

    async def delete(self, why: str, *, dry_run: bool = False) -> Erasure:
        """Closes the chat for good and erases its words: messages, answers, results, attachments, its title, and all
        copies of these. What other chats name too stays (`shared`). The record keeps who did so and `why`; a deleted
        chat is in no list and takes no message. With `dry_run` it only returns what would go. Done again, it goes on
        where it was interrupted.

        Raises as `archive` and `World.erase`; Conflict (`chat_busy`: stop the turn that goes on first)."""
        standing = await self.standing()
        if standing is None:
            raise self._unknown()
        if standing.is_open:
            raise Conflict(f"The last turn of chat {self.id} is not over: wait for it, or stop it.", code="chat_busy")
        planned = await erase_chat(self._cell, why, dry_run=True)  # refuses before anything is changed
        if dry_run:
            return planned
        if not standing.deleted:
            await self._change("demiurge/ChatDeleted@1", "delete", {})
        await self.backend.run.cancel(str(Unit(TITLES, self.id)), STOPPED)
        erasure = await erase_chat(self._cell, why, dry_run=False)
        self.sessions.forget(map(Unit.parse, erasure.sessions))
        return erasure

    async def take_history(self, messages: Sequence[Mapping[str, Any]], first_message_at_ms: int | None) -> None:
        """Takes the history of another chat (`World.import_chat`). Raises Conflict (`chat_used`: it has its own)."""
        fields = {"messages": messages, "first_message_at_ms": first_message_at_ms}
        await self._change("demiurge/ChatImported@1", "import", fields)

    async def _change(self, schema: str, option: str, fields: Mapping[str, Any]) -> None:
        require_fields(option, await self._lacking())
        refused = refusal_of(
            self.backend, await self.backend.run.submit(schema, {"chat_id": self.id, **fields}, None, None)
        )
        if refused is not None:
            raise self._unknown() if refused.code == "chat_unknown" else Conflict(refused.message, code=refused.code)

    async def _stored_title(self, title: str) -> Ref:
        require_fields("rename", await self._lacking())
        return await asyncio.to_thread(store_title, self.backend.run.put_blob, self.id, title)

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        max_tokens: int | None = None,
        tools: Sequence[str] | None = None,
        tools_ref: Ref | None = None,
        tool_choice: ToolChoice | None = None,
        skip_tool_catalog: bool = False,
        model: str | None = None,
        provider: str | None = None,
        on_frame: OnFrame | None = None,
    ) -> Reply:
        """Sends a message and waits until the turn is over or only a person can go on.

        `attachments` are images (PNG, JPEG, GIF, WebP) and sounds (WAV, MP3) that go with it, as paths, as bytes or as
        a `StoredAttachment`; their first bytes say what they are. `max_tokens`, at least 1, bounds each answer of the
        model from now on in this chat; a chat that was never given one takes the setting of the world's manifest.

        `model` and `provider` answer this message in place of the chat's; a provider alone is asked for its default
        model. `tools` are the only ones that the model may call in this turn, None those of the chat (see
        `use_tools`); `tools_ref` is a toolset that is stored (`World.tools_ref`), in place of `tools`. `tool_choice`
        is for the first request of this turn: "auto", "none", "required" or a `NamedTool`. `skip_tool_catalog` leaves
        the catalog of prompt tools out of this turn, which the message records; so does an empty `tools`. See
        docs/prompt-tools.md.

        A turn that an earlier process left open is finished first, and one of another process waited for; `on_frame`
        gets the frames of this message's turn alone. Raises InvalidValue (`max_tokens`; `bad_attachment`: of no such
        type, or over 10 MiB; `policy_denied`, `not_in_toolset`: a tool that may not be offered here;
        `bad_tool_choice`; `older_definitions`: a manifest of the world's own can't hold `max_tokens`), NotFound
        (`no_tool`), Conflict (`chat_busy`) while the last turn waits for a person, Unavailable when a file can't be
        read or the disk can't take it.
        """
        terms = MessageTerms(self.choice, max_tokens, tools, tools_ref, tool_choice, skip_tool_catalog, model, provider)
        message = await self._message(text, attachments, skip_tool_catalog=skip_tool_catalog)
        quicker = ("chat_busy", "request_stale", *(("not_in_toolset",) if tools is None and tools_ref is None else ()))
        for _ in range(TRIES):
            chat = await self._ready()
            said = await self._offer(message, chat, await terms.fields(self.backend, chat))
            if said is None:
                continue
            request_id, accepted = said
            refused = refusal_of(self.backend, accepted)
            if refused is None:
                return await self.wait(request_id, on_frame)
            if refused.code not in quicker:
                return Reply("failed", request_id, error_code=refused.code, message=refused.message)
        raise self._busy()

    async def say(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        max_tokens: int | None = None,
        tools: Sequence[str] | None = None,
        tools_ref: Ref | None = None,
        tool_choice: ToolChoice | None = None,
        skip_tool_catalog: bool = False,
        model: str | None = None,
        provider: str | None = None,
    ) -> Said:
        """Takes a message in and returns at once; the process that owns the world goes on with the turn.

        The arguments are those of `send`. Raises as `send`; Conflict (`chat_busy`) also while a turn goes on."""
        terms = MessageTerms(self.choice, max_tokens, tools, tools_ref, tool_choice, skip_tool_catalog, model, provider)
        lacking = await self._lacking()
        message = await self._message(text, attachments, skip_tool_catalog=skip_tool_catalog)
        for _ in range(TRIES):
            chat = await self._cell.settings(lacking)
            if chat is not None and chat.turn is not None and chat.turn.is_open:
                why = f"The last turn of chat {self.id} is not over; wait for it, decide what it waits for, or stop it."
                raise Conflict(why, code="chat_busy")
            said = await self._offer(message, chat, await terms.fields(self.backend, chat))
            if said is None:
                continue
            request_id, accepted = said
            refused = refusal_of(self.backend, accepted)
            if refused is None:
                return Said(request_id, accepted)
            if refused.code in ("bad_attachment", "bad_message", "not_in_toolset"):
                raise InvalidValue(refused.message, code=refused.code)
            if refused.code != "request_stale":
                raise Conflict(refused.message, code=refused.code)
        raise self._busy()

    async def wait(self, request_id: int, on_frame: OnFrame | None = None) -> Reply:
        """Returns the reply to a message once its turn is over, or only a person can go on. `on_frame` gets the frames
        of this turn alone. Raises NotFound for a message never taken."""
        before: Reply | None = None
        while True:  # again if another process makes the decision that a person was asked for
            await settle(self.backend, str(self.unit), on_frame, request_id)
            reply = await self.reply(request_id)
            if not reply.is_running or reply == before:
                return reply
            before = reply

    async def _message(self, text: str, attachments: Sequence[Attachment], *, skip_tool_catalog: bool) -> bytes:
        """Returns the message as its blob, and stores its attachments."""
        if not isinstance(text, str):
            raise InvalidValue(f"must be text, not {type(text).__name__}", path="text")
        stored = await asyncio.to_thread(store_attachments, attachments, self.backend.run.put_blob)
        return user_blob(text, attachments=stored, skip_tool_catalog=skip_tool_catalog)

    async def _offer(self, message: bytes, chat: ChatSettings | None, settings: Mapping[str, Any]) -> Said | None:
        """Submits a message after the last one that `chat` knows; None: to a chat that is made first. Returns None if
        the catalog of prompt tools has changed meanwhile."""
        if chat is None:
            await self.create()
        request_id = chat.last_request_id + 1 if chat is not None else 1
        try:
            return Said(request_id, await self._say(message, request_id, settings))
        except Conflict as conflict:
            if conflict.code != "catalog_changed":
                raise
            return None

    async def use_tools(self, tools: Sequence[str] | None, *, tool_choice: ToolChoice | None = None) -> None:
        """Lets the model call these tools alone, from now on in this chat; None: all that the tool policy allows.

        `tool_choice` ("auto", "none", "required", a `NamedTool`) is for the first request of each message that makes
        no choice of its own; None clears the chat's. Both take the place of what was set before. A chat that is not
        there is made. Raises InvalidValue (`policy_denied`, `bad_tool_choice`), NotFound (`no_tool`), Conflict
        (`chat_busy`) while the last turn waits for a person."""
        require_fields("use_tools", await self._lacking())
        for _ in range(TRIES):
            chat = await self._ready()
            value = await toolset_event(self.backend, tools, self.choice.provider, tool_choice)
            if chat is None:
                await self.create()
            event = {"chat_id": self.id, **value}
            accepted = await self.backend.run.submit("demiurge/ChatTools@1", event, None, None)
            await self.resume()
            refused = refusal_of(self.backend, accepted)
            if refused is None:
                return
            if refused.code != "chat_busy":
                raise InvalidValue(refused.message, code=refused.code)
        raise self._busy()

    async def _ready(self) -> ChatSettings | None:
        """Returns the chat's settings once no turn is open; None if there is no chat. Raises Conflict
        (`chat_busy`)."""
        lacking = await self._lacking()
        for _ in range(TRIES):
            await self.resume()
            chat = await self._cell.settings(lacking)
            if chat is None or chat.turn is None or not chat.turn.is_open:
                return chat
            if await self.backend.read.approvals(str(self.unit)):
                why = f"The last turn of chat {self.id} waits for a decision; see `demiurge approvals ls`."
                raise Conflict(why, code="chat_busy")
        raise self._busy()

    def _busy(self) -> Conflict:
        return Conflict(f"Others keep chat {self.id} busy; try again.", code="chat_busy")

    async def _say(self, message: bytes, request_id: int, settings: Mapping[str, Any]) -> Accepted:
        """Submits the message. Its words are in its blob alone, so that they can be erased: an event stays for ever."""
        value = {
            "chat_id": self.id,
            "request_id": request_id,
            "text": "",
            "message_ref": self._put(message, request_id),
            **settings,
        }
        return await self.backend.run.submit("demiurge/UserMessage@1", value, None, None)

    def _put(self, message: bytes, request_id: int) -> Ref:
        """Stores a message. If a message with the same words was erased, the new one gets a different address."""
        try:
            return self.backend.run.put_blob(message)
        except Conflict as conflict:
            if conflict.code != "erased":
                raise
        return self.backend.run.put_blob(
            canonical_json.encode({**canonical_json.parse_object(message), "said_in": [self.id, request_id]})
        )

    async def resume(self, on_frame: OnFrame | None = None) -> None:
        """Continues an open turn until it ends or waits for a person. `on_frame` gets the frames of this turn alone."""
        turn = await self._cell.turn() if on_frame is not None else None
        await settle(self.backend, str(self.unit), on_frame, turn.request_id if turn is not None else 0)

    async def cancel(self, reason: str = STOPPED) -> None:
        """Stops the open turn: running calls are cancelled and answered, requests for approval withdrawn. Raises
        UsageError (`role_missing`), also if no turn is open."""
        OPERATIONS["run.cancel"].require(self.backend.caller)
        turn = await self._cell.turn()
        if turn is None or not turn.is_open:
            return
        event = {"chat_id": self.id, "request_id": turn.request_id}
        await self.backend.run.submit("demiurge/TurnCancelled@1", event, None, None)
        await self.backend.run.cancel(str(self.unit), reason)

    def turn(self, request_id: int | None = None) -> TurnReader:
        """Returns a reader that follows the turn of a message; of the last one by default."""
        return TurnReader(self._cell, request_id)

    async def trace(self, request_id: int | None = None) -> TraceTree:
        """Returns the causal tree of a message, of the last one by default. Raises NotFound for a message never
        taken."""
        wanted = request_id if request_id is not None else (await self.reply()).request_id
        roots = await asyncio.to_thread(records_of_chat, self.backend, self.id)
        for root in roots:
            value = root.body.get("value")
            said = value["$value"] if isinstance(value, Mapping) and value.get("$tag") == "UserMessage" else {}
            if said.get("request_id") == wanted:
                return (await trace_trees(self.backend, [root]))[0]
        raise NotFound(f"Chat {self.id} has no message {wanted}.", code="chat_unknown")

    async def reply(self, request_id: int | None = None) -> Reply:
        """Returns the outcome of a message so far; of the last one by default. Raises NotFound for a message never
        taken."""
        reply = await reply_of(self.turn(request_id))
        if reply is None:
            raise NotFound(f"Chat {self.id} has no message {request_id or 0}.", code="chat_unknown")
        return reply

    async def failures(self, since: int = 0) -> dict[int, Failed]:
        """Returns why turns failed, by request id, from that of `since` on: `(code, message)`. A turn whose records
        can't be had is left out."""
        return await failures_of(self._cell, since)

    async def messages(self, since: int = 0) -> list[dict[str, Any]]:
        """Returns the whole conversation, or the messages from the request id `since` on: `{request_id, role, ref,
        text, attachments?, tool_calls?, tool?, erased?, skip_tool_catalog?, findings?, refused?, imported?}`, in order.

        `ref` is the address of the message's blob, which `demiurge erase` takes. `attachments` is a list of `{type,
        mime, bytes_ref}`. A message that was erased has no text, and `erased` says by whom, why and when: `{actor, why,
        at_ms}`.

        `findings` are `{line, code, detail, message}` of the citations of an answer that do not hold; `refused`: the
        answer was not taken for that. See docs/evidence.md.

        A call that a person changed has the arguments that were used as `arguments_json`, what the model proposed as
        `proposed_json`, and `changed_by`; one that a standing rule allowed has `rule` and `rule_by`. A caller who does
        not see records gets no `arguments_json` of a call (None), and the `type` alone of an attachment.

        `tool` is the outcome of a call: `{id, name, ok, error_code, message, view_ref, replayed, state, result}`, for a
        caller who sees records with `content` and `value` (`ToolCallView`); `result` is the redacted view."""
        shown = await shown_messages(self._cell, since)
        if shown is None:
            raise self._unknown()
        return shown

    async def export(self) -> ChatExport:
        """Returns the whole chat, for a caller who sees records. Raises UsageError (`role_missing`), NotFound."""
        self._require_records("A chat is exported whole")
        standing = await self.standing()
        if standing is None:
            raise self._unknown()
        return await export_chat(self._cell, standing, await self.messages(), await self.failures())

    async def claims(self, request_id: int | None = None, role: str = "") -> list[ReplyClaims]:
        """Returns the claims of the model's answers, checked against what the recorded calls of this chat gave; of the
        answers to one message, if `request_id` names it. Reads only.

        `role` is the role of the answers' author, such as `Planner`; it says which sources an evidence line may name.
        See docs/core-pack.md. Raises UsageError (`role_missing`) for a caller who does not see the results of calls,
        NotFound (`chat_unknown`), InvalidValue (`role`)."""
        require_role(role)
        self._require_records("The results of calls are withheld from this caller")
        messages = await messages_from(self._cell, 0)
        if messages is None:
            raise self._unknown()
        if request_id is not None and all(message.request_id != request_id for message in messages):
            raise NotFound(f"Chat {self.id} has no message {request_id}.", code="chat_unknown")
        found = await asyncio.to_thread(lambda: list(check_answers(self.backend, messages, role)))
        return [reply for reply in found if request_id in (None, reply.request_id)]

    def _require_records(self, why: str) -> None:
        if not sees_records(self.backend.caller):
            raise UsageError(f"{why}: it takes the role agent, chief or user.", code="role_missing")

    def _unknown(self) -> NotFound:
        return NotFound(f"There is no chat {self.id}; `demiurge chat ls` lists them.", code="chat_unknown")

    async def _lacking(self) -> Collection[str]:
        """Returns the fields that the world's manifest lacks because it is from an older version (`chat_fields`)."""
        lacking: Collection[str] = (await self.backend.read.info()).get("lacking", ())
        return lacking
