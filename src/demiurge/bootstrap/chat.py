"""`Chat`: one conversation of a world.

A chat holds no state of its own: what it says and shows is read from the chat's unit and its blobs, so two processes
see the same chat.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from demiurge.apps.demiurge import CHAT, MAX_TOKENS, OPEN
from demiurge.bootstrap.answer_cost import cost_of_answers
from demiurge.bootstrap.backend import OnFrame
from demiurge.bootstrap.chat_fields import require_fields
from demiurge.bootstrap.erased_message import erased_blob
from demiurge.bootstrap.failure import Failed
from demiurge.bootstrap.reply import Reply, ToolCallView
from demiurge.bootstrap.toolset import message_tools, toolset_event
from demiurge.bootstrap.turn_reader import TURN, TurnCall, TurnReader, first_message
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, Unavailable
from demiurge.sessions.session import Session
from demiurge.values import canonical_json
from demiurge.values.clock import SystemClock
from demiurge.values.money import dollars_text, whole_micros
from demiurge.values.projection import Only
from demiurge.values.refs import Ref
from demiurge.wire.attachments import MAX_PART_BYTES, attachment
from demiurge.wire.items import Audio, Image, ToolChoice
from demiurge.world.host import Accepted
from demiurge.world.messages import user_blob
from demiurge.world.unit import Unit
from demiurge.world.usage import MICROS_PER_CENT

if TYPE_CHECKING:
    from demiurge.bootstrap.world import World

__all__ = ["Chat", "Reply", "ToolCallView"]

REFUSED = "demiurge/ChatFailed@1"

SETTINGS: Final[Mapping[str, Only]] = dict.fromkeys(
    ("last_request_id", "max_tokens", "own_max_tokens", "own_tools_ref"), "all"
)
"""The fields of a chat's state that the next message depends on."""

TRIES = 50
"""How often a message is offered again because another process was quicker."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat by its id. Make one with `World.chat`."""

    world: World = field(repr=False)
    id: str
    unit: Unit

    async def state(self) -> Mapping[str, Any] | None:
        """`demiurge/ChatState@1` as JSON, None for a chat that was never created."""
        return await self.world.state(CHAT, self.id)

    async def standing(self) -> Mapping[str, Any] | None:
        """How the chat stands: `{title, last_request_id, messages, turn}` of its state, `messages` being their number
        and `turn` None or `{request_id, status, code, message}`; None for a chat that was never created."""
        return await self._part(title="all", last_request_id="all", messages="length", turn=TURN)

    async def session(self) -> Session:
        """What this chat's tools have folded so far, failed calls in its log alone: `session[Plan].latest()`.

        A copy: what is done to it stays here. Types that this process was not told of (`World.open`) have no values.
        Raises Damaged, NotFound, Divergence (the types at hand don't take what was stored)."""
        return await asyncio.to_thread(self.world.sessions.of, self.unit)

    async def create(self, title: str = "") -> None:
        """Make the chat; a second time changes nothing."""
        now_ms = SystemClock().now_ns() // 1_000_000
        value = {"chat_id": self.id, "title": title or self.id, "created_at_ms": now_ms}
        try:
            await self.world.submit("demiurge/ChatCreated@1", value, idempotency_key=f"create:{self.id}")
        except Conflict as conflict:  # it was made before, with another title or at another time
            if conflict.code != "key_taken":
                raise

    async def send(
        self,
        text: str,
        *,
        attachments: Sequence[str | os.PathLike[str] | bytes] = (),
        max_tokens: int | None = None,
        tools: Sequence[str] | None = None,
        tool_choice: ToolChoice | None = None,
        on_frame: OnFrame | None = None,
    ) -> Reply:
        """Say something and wait until the turn is over or only a person can go on.

        `attachments` are images (PNG, JPEG, GIF, WebP) and sounds (WAV, MP3) that go with it, as paths or as bytes;
        their first bytes say what they are. `max_tokens`, at least 1, bounds each answer of the model from now on in
        this chat; a chat that was never given one takes the setting of the world's manifest.

        `tools` are the only ones that the model may call in this turn, None those of the chat (see `use_tools`);
        `tool_choice` is for the first request of this turn: "auto", "none", "required" or a `NamedTool`.

        A turn that an earlier process left open is finished first, and one of another process waited for. Raises
        InvalidValue (`max_tokens`; `bad_attachment`: of no such type, or over 10 MiB; `policy_denied`,
        `not_in_toolset`: a tool that may not be offered here; `bad_tool_choice`; `older_definitions`: a manifest of the
        world's own can't hold `max_tokens`), NotFound (`no_tool`), Conflict
        (`chat_busy`) while the last turn waits for a person, Unavailable when a file can't be read or the disk can't
        take it.
        """
        if max_tokens is not None:
            if type(max_tokens) is not int or max_tokens < 1:
                raise InvalidValue("is a number of tokens, at least 1", path="max_tokens")
            require_fields("max_tokens", await self._lacking())
        parts = await asyncio.to_thread(lambda: [_attachment(given) for given in attachments])
        stored = [(part, Ref(self.world.blobs.put(part.data))) for part in parts]
        quicker = ("chat_busy", "request_stale", *(("not_in_toolset",) if tools is None else ()))
        for _ in range(TRIES):
            state = await self._ready(on_frame)
            offered = await message_tools(self.world, (state or {}).get("own_tools_ref"), tools, tool_choice)
            if state is None:
                await self.create()
            request_id = state["last_request_id"] + 1 if state is not None else 1
            settings = {**await self._settings(_limit(state, max_tokens)), **offered}
            accepted = await self._say(text, stored, request_id, settings)
            await self.world.settle(self.unit, on_frame)
            refused = self._refusal(accepted)
            if refused is None:
                return await self._settled(request_id, on_frame)
            if refused["code"] not in quicker:  # those say that somebody else was quicker
                return Reply("failed", request_id, error_code=refused["code"], message=refused["message"])
        raise self._busy()

    async def use_tools(self, tools: Sequence[str] | None, *, tool_choice: ToolChoice | None = None) -> None:
        """Let the model call these tools alone, from now on in this chat; None: all that the tool policy allows.

        `tool_choice` ("auto", "none", "required", a `NamedTool`) is for the first request of each message that makes
        no choice of its own; None clears the chat's. Both take the place of what was set before. A chat that is not
        there is made. Raises InvalidValue (`policy_denied`, `bad_tool_choice`), NotFound (`no_tool`), Conflict
        (`chat_busy`) while the last turn waits for a person."""
        require_fields("use_tools", await self._lacking())
        for _ in range(TRIES):
            state = await self._ready(None)
            value = await toolset_event(self.world, tools, tool_choice)
            if state is None:
                await self.create()
            accepted = await self.world.submit("demiurge/ChatTools@1", {"chat_id": self.id, **value})
            await self.world.settle(self.unit)
            refused = self._refusal(accepted)
            if refused is None:
                return
            if refused["code"] != "chat_busy":
                raise InvalidValue(refused["message"], code=refused["code"])
        raise self._busy()

    async def _ready(self, on_frame: OnFrame | None) -> Mapping[str, Any] | None:
        """The chat's settings once no turn is open, None if there is no chat. Raises Conflict (`chat_busy`)."""
        lacking = await self._lacking()
        settings = {name: part for name, part in SETTINGS.items() if f"demiurge/ChatState@1.{name}" not in lacking}
        for _ in range(TRIES):
            await self.resume(on_frame)
            state = await self._part(turn=TURN, **settings)
            if state is None or state["turn"] is None or state["turn"]["status"] not in OPEN:
                return state
            await self._refuse_while_a_person_decides()
        raise self._busy()

    def _busy(self) -> Conflict:
        return Conflict(f"Others keep chat {self.id} busy; try again.", code="chat_busy")

    async def _say(
        self,
        text: str,
        attachments: Sequence[tuple[Image | Audio, Ref]],
        request_id: int,
        settings: Mapping[str, Any],
    ) -> Accepted:
        """The words are in the message's blob alone, so that they can be erased: an event stays for ever."""
        value = {
            "chat_id": self.id,
            "request_id": request_id,
            "text": "",
            "message_ref": self._put(user_blob(text, attachments=attachments), request_id),
            **settings,
        }
        return await self.world.submit("demiurge/UserMessage@1", value)

    def _put(self, message: bytes, request_id: int) -> Ref:
        """Store a message. One with the words of a message that was erased gets an address of its own, so that only
        this one has them."""
        try:
            return self.world.blobs.put(message)
        except Conflict as conflict:
            if conflict.code != "erased":
                raise
        return self.world.blobs.put(
            canonical_json.encode({**canonical_json.parse_object(message), "said_in": [self.id, request_id]})
        )

    def _refusal(self, accepted: Accepted) -> Mapping[str, Any] | None:
        """Why the chat did not take a message (`chat_unknown`, `chat_busy`, `request_stale`); None when it did."""
        for record in self.world.journal.read(accepted.unit, accepted.seq + 1):
            if record.is_ingress:
                break
            if record.kind == "event" and record.body["schema"] == REFUSED:
                value: Mapping[str, Any] = record.body["value"]
                return value
        return None

    async def _refuse_while_a_person_decides(self) -> None:
        if await self.world.approvals(self.unit):
            raise Conflict(
                f"The last turn of chat {self.id} waits for a decision; see `demiurge approvals ls`.",
                code="chat_busy",
            )

    async def resume(self, on_frame: OnFrame | None = None) -> None:
        """Let an open turn go on to its end, or to the next thing that waits for a person."""
        await self.world.settle(self.unit, on_frame)

    async def _settled(self, request_id: int, on_frame: OnFrame | None) -> Reply:
        """The reply once nothing goes on: another process may have decided what it would ask a person for."""
        before, reply = None, await self.reply(request_id)
        while reply.status == "awaiting_approval" and not reply.approvals and reply != before:
            await self.world.settle(self.unit, on_frame)
            before, reply = reply, await self.reply(request_id)
        return reply

    async def cancel(self, reason: str = "The turn was stopped.") -> None:
        """Stop the open turn: running calls are cancelled and answered, requests for approval withdrawn."""
        state = await self._part(turn=TURN)
        if state is None or state["turn"] is None or state["turn"]["status"] not in OPEN:
            return
        request_id = state["turn"]["request_id"]
        await self.world.submit("demiurge/TurnCancelled@1", {"chat_id": self.id, "request_id": request_id})
        await self.world.backend.run.cancel(str(self.unit), reason)

    def turn(self, request_id: int | None = None) -> TurnReader:
        """Reads the turn of a message as it goes on; the last one by default."""
        return TurnReader(self.world, self.id, self._load, request_id)

    async def reply(self, request_id: int | None = None) -> Reply:
        """What came of a message so far; the last one by default. Raises NotFound for a message never taken."""
        read = self.turn(request_id)
        await read.read()
        wanted, turn, answers = read.request_id, read.turn, read.answers
        if wanted is None:
            raise NotFound(f"Chat {self.id} has no message {request_id or 0}.", code="chat_unknown")
        cost = await asyncio.to_thread(cost_of_answers, self.world, self.unit, wanted, answers)
        usage = [m["token_usage"] for m in answers if m["token_usage"]]
        running = turn is not None and turn["status"] in OPEN
        waiting = [asked["id"] for asked in await self.world.approvals(self.unit)] if running else []
        open_ended = not answers or self._is_open_ended(answers[-1])
        failed = turn["status"] == "failed" if turn is not None else open_ended
        why = (await self._why([wanted])).get(wanted) if failed else None
        if turn is None and why is None:  # an empty answer ended a turn well in older versions
            failed = bool(read.answer.get("tool_calls", not answers))
        return Reply(
            status="failed" if failed else "awaiting_approval" if running else "done",
            request_id=wanted,
            text="" if failed or running else _text(read.answer),
            tool_calls=tuple(map(self.view_of, read.calls)),
            error_code=why.code if why is not None else None,
            message=why.message if why is not None else "",
            approvals=tuple(waiting),
            prompt_tokens=sum(u["prompt"] for u in usage),
            completion_tokens=sum(u["completion"] for u in usage),
            cost_cents=-(-whole_micros(cost) // MICROS_PER_CENT) if cost is not None else None,
            cost_micros=whole_micros(cost) if cost is not None else None,
            cost_usd=dollars_text(cost) if cost is not None else None,
            finish_reason=answers[-1].get("finish_reason") if answers else None,
            max_tokens=read.max_tokens if turn is not None else None,
            erased=read.answer.get("erased"),
        )

    async def failures(self, since: int = 0) -> dict[int, Failed]:
        """Why turns failed, by request id, from that of `since` on: `(code, message)`. One whose records can't be had
        is left out."""
        last = {m["request_id"]: m for m in await self._from(since) or () if m["tool"] is None}
        open_ended = [request_id for request_id, message in last.items() if self._is_open_ended(message)]
        return await self._why(open_ended)

    async def _from(self, request_id: int) -> list[Mapping[str, Any]] | None:
        """The chat's messages from this request id on, None for a chat that was never made."""
        first = await first_message(self.world, self.id, request_id) if request_id > 0 else 0
        state = await self._part(messages=(first, None)) if first is not None else None
        return state["messages"] if state is not None else None

    async def _part(self, **only: Only) -> Mapping[str, Any] | None:
        """Fields of the chat's state, each whole or in part (`World.state`)."""
        return await self.world.state(CHAT, self.id, only=only)

    def _is_open_ended(self, message: Mapping[str, Any]) -> bool:
        """Returns whether `message`, the last one of a turn, is no answer: a question, tool calls, or empty."""
        if message["role"] == "user":
            return True
        body = self._load(message["message_ref"])
        return bool(body.get("tool_calls")) or not _text(body).strip()

    async def _why(self, among: Collection[int]) -> dict[int, Failed]:
        """The state keeps this of the last turn alone: of another it is in the state before the next message."""
        state = await self._part(turn=TURN) if among else None
        if state is None:
            return {}
        turn = state["turn"]
        found = {turn["request_id"]: _failed(turn)} if turn is not None else {}
        sought = [request_id for request_id in among if request_id not in found]
        following = {await self._after(request_id): request_id for request_id in sought}
        with suppress(DemiurgeError):
            for position, request_id in self._asked(following):
                wanted = following[request_id]
                if wanted not in found:
                    then = (await self.world.state(CHAT, self.id, position - 1, only={"turn": TURN}) or {}).get("turn")
                    if then is not None and then["request_id"] == wanted and then["status"] not in OPEN:
                        found[wanted] = _failed(then)
        return {wanted: why for wanted, why in sorted(found.items()) if why is not None and wanted in among}

    async def _after(self, request_id: int) -> int:
        """The request id of the message after this one, which is not the last."""
        first = await first_message(self.world, self.id, request_id + 1)
        state = await self._part(messages=(first, (first or 0) + 1))
        return next((message["request_id"] for message in (state or {}).get("messages", ())), -1)

    def _asked(self, request_ids: Collection[int]) -> Iterator[tuple[int, int]]:
        """The position of each message with one of these ids, taken or not."""
        for record in self.world.journal.read(self.unit) if request_ids else ():
            value = record.body["value"] if record.is_ingress and record.kind == "event" else {}
            if value.get("$tag") == "UserMessage" and value["$value"]["request_id"] in request_ids:
                assert record.position is not None
                yield record.position, value["$value"]["request_id"]

    async def messages(self, since: int = 0) -> list[dict[str, Any]]:
        """The whole conversation, or what was said from the request id `since` on: `{request_id, role, ref, text,
        attachments?, tool_calls?, tool?, erased?}`, oldest first.

        `ref` is the address of the message's blob, which `demiurge erase` takes. `attachments` is a list of
        `{type, mime, bytes_ref}`. A message that was erased has no text, and `erased` says by whom, why and when:
        `{actor, why, at_ms}`.
        """
        messages = await self._from(since)
        if messages is None:
            raise NotFound(f"There is no chat {self.id}; `demiurge chat ls` lists them.", code="chat_unknown")
        shown = []
        for message in messages:
            body = self._load(message["message_ref"])
            entry = {name: message[name] for name in ("request_id", "role")}
            entry |= {"ref": message["message_ref"], "text": _text(body)}
            if message["tool"] is not None:
                entry["text"] = ""
                entry["tool"] = {**message["tool"], "result": self._view(message["tool"])}
            if attached := _attachments(body):
                entry["attachments"] = attached
            if body.get("tool_calls"):
                entry["tool_calls"] = body["tool_calls"]
            if "erased" in body:
                entry["erased"] = body["erased"]
            shown.append(entry)
        return shown

    async def _settings(self, max_tokens: int | None) -> dict[str, Any]:
        """Model, provider and limit for the next message. `max_tokens`: the chat's own, None for the setting of the
        manifest."""
        info = await self.world.info()
        own = {"own_max_tokens": True if max_tokens is not None else None}
        return {
            "model": self.world.choice.model,
            "provider": self.world.choice.provider,
            "max_tokens": max_tokens or info["settings"].get("max_tokens", MAX_TOKENS),
            **({} if "demiurge/UserMessage@1.own_max_tokens" in info.get("lacking", ()) else own),
        }

    async def _lacking(self) -> Sequence[str]:
        """The newer fields that the world's manifest does not have (`chat_fields`)."""
        lacking: Sequence[str] = (await self.world.info()).get("lacking", ())
        return lacking

    def view_of(self, proposed: TurnCall) -> ToolCallView:
        """A call of a turn as it is shown."""
        call, outcome = proposed
        said = (call["id"], call["name"], call["arguments_json"])
        if outcome is None:
            return ToolCallView(*said, ok=None)
        view, is_replayed = self._view(outcome), bool(outcome.get("replayed"))
        return ToolCallView(*said, outcome["ok"], view, outcome["error_code"], outcome["message"], is_replayed)

    def _view(self, outcome: Mapping[str, Any]) -> Any:
        ref = outcome["view_ref"]
        try:
            return canonical_json.parse(self.world.blobs.get(ref)) if ref is not None else None
        except NotFound as error:
            if error.code != "erased":
                raise
            return None

    def _load(self, ref: str) -> Mapping[str, Any]:
        """The message at `ref`; of one that was erased `{content: [], erased: {actor, why, at_ms}}`."""
        try:
            return canonical_json.parse_object(self.world.blobs.get(ref))
        except NotFound as error:
            if error.code != "erased":
                raise
            return {"content": [], "erased": erased_blob(self.world, ref)}


def _limit(state: Mapping[str, Any] | None, given: int | None) -> int | None:
    """The chat's own limit of tokens for an answer: the one that is given now, else the one it was given before."""
    if given is not None or state is None or not state.get("own_max_tokens"):
        return given
    kept: int = state["max_tokens"]
    return kept


def _failed(turn: Mapping[str, Any]) -> Failed | None:
    return Failed(turn["code"], turn["message"] or "") if turn["status"] == "failed" else None


def _attachment(given: str | os.PathLike[str] | bytes) -> Image | Audio:
    """Raises InvalidValue, Unavailable."""
    if isinstance(given, bytes):
        return attachment(given)
    try:
        with Path(given).open("rb") as file:
            data = file.read(MAX_PART_BYTES + 1)
    except OSError as error:
        raise Unavailable(f"{os.fspath(given)} can't be read ({error.strerror}).") from error
    try:
        return attachment(data)
    except InvalidValue as error:
        raise InvalidValue(error.message, path=os.fspath(given), code=error.code) from error


def _attachments(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return [part for part in content if part.get("type") != "text"] if isinstance(content, list) else []


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part.get("type") == "text")
