"""`Chat`: one conversation of a world, and `Reply`: what came of one message.

A chat holds no state of its own: what it says and shows is read from the chat's unit and its blobs, so two processes
see the same chat.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from demiurge.apps.demiurge import CHAT, OPEN
from demiurge.bootstrap.backend import OnFrame
from demiurge.bootstrap.failure import Failed
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, Unavailable
from demiurge.sessions.session import Session
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.values.clock import SystemClock
from demiurge.values.refs import Ref
from demiurge.wire.attachments import MAX_PART_BYTES, attachment
from demiurge.wire.items import Audio, Image
from demiurge.world.effects.llm import tools_blob
from demiurge.world.host import Accepted
from demiurge.world.messages import user_blob
from demiurge.world.unit import Unit

if TYPE_CHECKING:
    from demiurge.bootstrap.world import World

__all__ = ["Chat", "Reply", "ToolCallView"]

REFUSED = "demiurge/ChatFailed@1"

TRIES = 50
"""How often a message is offered again because another process was quicker."""


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """A proposed call and what came of it. `result` is the redacted public view; `ok` is None while it waits."""

    id: str
    name: str
    arguments_json: str
    ok: bool | None
    result: Any = None
    error_code: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a message. `text` is the model's answer; `approvals` are the ids that a person has to decide.

    `error_code` and `message` say why a turn failed. `prompt_tokens`, `completion_tokens` and `cost_cents` are sums
    over the turn's model calls.
    """

    status: Literal["done", "awaiting_approval", "failed"]
    request_id: int
    text: str = ""
    tool_calls: tuple[ToolCallView, ...] = ()
    error_code: str | None = None
    message: str = ""
    approvals: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_cents: int = 0


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat by its id. Make one with `World.chat`."""

    world: World = field(repr=False)
    id: str
    unit: Unit

    async def state(self) -> Mapping[str, Any] | None:
        """`demiurge/ChatState@1` as JSON, None for a chat that was never created."""
        return await self.world.state(CHAT, self.id)

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
        on_frame: OnFrame | None = None,
    ) -> Reply:
        """Say something and wait until the turn is over or only a person can go on.

        `attachments` are images (PNG, JPEG, GIF, WebP) and sounds (WAV, MP3) that go with it, as paths or as bytes;
        their first bytes say what they are. A turn that an earlier process left open is finished first, and one of
        another process waited for. Raises InvalidValue (`bad_attachment`: of no such type, or over 10 MiB), Conflict
        (`chat_busy`) while the last turn waits for a person, Unavailable when a file can't be read or the disk can't
        take it.
        """
        parts = await asyncio.to_thread(lambda: [_attachment(given) for given in attachments])
        stored = [(part, Ref(self.world.blobs.put(part.data))) for part in parts]
        for _ in range(TRIES):
            await self.resume(on_frame)
            state = await self.state()
            if state is None:
                await self.create(text[:60])
            elif state["turn"] is not None and state["turn"]["status"] in OPEN:
                await self._refuse_while_a_person_decides()
                continue
            request_id = state["last_request_id"] + 1 if state is not None else 1
            accepted = await self._say(text, stored, request_id)
            await self.world.settle(self.unit, on_frame)
            refused = self._refusal(accepted)
            if refused is None:
                return await self._settled(request_id, on_frame)
            if refused["code"] not in ("chat_busy", "request_stale"):  # those say that somebody else was quicker
                return Reply("failed", request_id, error_code=refused["code"], message=refused["message"])
        raise Conflict(f"Others keep chat {self.id} busy; try again.", code="chat_busy")

    async def _say(self, text: str, attachments: Sequence[tuple[Image | Audio, Ref]], request_id: int) -> Accepted:
        value = {
            "chat_id": self.id,
            "request_id": request_id,
            "text": text,
            "message_ref": self.world.blobs.put(user_blob(text, attachments=attachments)),
            **await self._settings(),
        }
        return await self.world.submit("demiurge/UserMessage@1", value)

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
        state = await self.state()
        if state is None or state["turn"] is None or state["turn"]["status"] not in OPEN:
            return
        request_id = state["turn"]["request_id"]
        await self.world.submit("demiurge/TurnCancelled@1", {"chat_id": self.id, "request_id": request_id})
        await self.world.backend.cancel(str(self.unit), reason)

    async def reply(self, request_id: int | None = None) -> Reply:
        """What came of a message so far; the last one by default. Raises NotFound for a message never taken."""
        state = await self.state()
        wanted = request_id if request_id is not None else (state or {}).get("last_request_id", 0)
        messages = list(_of(state, wanted)) if state is not None else []
        if state is None or not messages:
            raise NotFound(f"Chat {self.id} has no message {wanted}.", code="chat_unknown")
        turn = state["turn"] if state["turn"]["request_id"] == wanted else None
        answers = [m for m in messages if m["role"] == "assistant"]
        last = self._load(answers[-1]["message_ref"]) if answers else {}
        usage = [m["token_usage"] for m in answers if m["token_usage"]]
        waiting = [asked["id"] for asked in await self.world.approvals(self.unit)] if turn else []
        running = turn is not None and turn["status"] in OPEN
        failed = turn["status"] == "failed" if turn is not None else bool(last.get("tool_calls", not answers))
        why = (await self._why(state, [wanted])).get(wanted) if failed else None
        return Reply(
            status="failed" if failed else "awaiting_approval" if running else "done",
            request_id=wanted,
            text="" if failed or running else _text(last),
            tool_calls=tuple(self._calls(messages, turn)),
            error_code=why.code if why is not None else None,
            message=why.message if why is not None else "",
            approvals=tuple(waiting) if running else (),
            prompt_tokens=sum(u["prompt"] for u in usage),
            completion_tokens=sum(u["completion"] for u in usage),
            cost_cents=sum(m["cost_cents"] or 0 for m in answers),
        )

    async def failures(self) -> dict[int, Failed]:
        """Why turns failed, by request id: `(code, message)`. One whose records can't be had is left out."""
        state = await self.state()
        if state is None:
            return {}
        last = {m["request_id"]: m for m in state["messages"] if m["tool"] is None}
        open_ended = [request_id for request_id, message in last.items() if self._is_open_ended(message)]
        return await self._why(state, open_ended)

    def _is_open_ended(self, message: Mapping[str, Any]) -> bool:
        """Of the last that a person or the model said in a turn: whether it is no answer."""
        return message["role"] == "user" or bool(self._load(message["message_ref"]).get("tool_calls"))

    async def _why(self, state: Mapping[str, Any], among: Collection[int]) -> dict[int, Failed]:
        """The state keeps this of the last turn alone: of another it is in the state before the next message."""
        turn = state["turn"]
        found = {turn["request_id"]: _failed(turn)} if turn is not None else {}
        ids = list(dict.fromkeys(message["request_id"] for message in state["messages"]))
        before = {following: wanted for wanted, following in pairwise(ids) if wanted in among}
        with suppress(DemiurgeError):
            for position, request_id in self._asked(before):
                wanted = before[request_id]
                if wanted not in found:
                    then = (await self.world.state(CHAT, self.id, position - 1) or {}).get("turn")
                    if then is not None and then["request_id"] == wanted and then["status"] not in OPEN:
                        found[wanted] = _failed(then)
        return {wanted: why for wanted, why in sorted(found.items()) if why is not None and wanted in among}

    def _asked(self, request_ids: Collection[int]) -> Iterator[tuple[int, int]]:
        """The position of each message with one of these ids, taken or not."""
        for record in self.world.journal.read(self.unit) if request_ids else ():
            value = record.body["value"] if record.is_ingress and record.kind == "event" else {}
            if value.get("$tag") == "UserMessage" and value["$value"]["request_id"] in request_ids:
                assert record.position is not None
                yield record.position, value["$value"]["request_id"]

    async def messages(self) -> list[dict[str, Any]]:
        """The whole conversation: `{request_id, role, text, attachments?, tool_calls?, tool?}`, oldest first.

        `attachments` is a list of `{type, mime, bytes_ref}`."""
        state = await self.state()
        if state is None:
            raise NotFound(f"There is no chat {self.id}; `demiurge chat ls` lists them.", code="chat_unknown")
        shown = []
        for message in state["messages"]:
            body = self._load(message["message_ref"])
            entry = {"request_id": message["request_id"], "role": message["role"], "text": _text(body)}
            if message["tool"] is not None:
                entry["text"] = ""
                entry["tool"] = {**message["tool"], "result": self._view(message["tool"])}
            if attached := _attachments(body):
                entry["attachments"] = attached
            if body.get("tool_calls"):
                entry["tool_calls"] = body["tool_calls"]
            shown.append(entry)
        return shown

    async def _settings(self) -> dict[str, Any]:
        """Model, provider and toolset for the next message; an empty one too, or the chat would keep its last."""
        info = await self.world.info()
        specs = [ToolSpec.from_json(spec) for spec in info["catalog"]]
        tools = self.world.blobs.put(tools_blob(self.world.choice.provider, specs))
        return {
            "model": self.world.choice.model,
            "provider": self.world.choice.provider,
            "max_tokens": info["settings"]["max_tokens"],
            "tools_ref": tools,
            "tool_choice": {"$tag": "Auto"} if specs else None,
        }

    def _calls(self, messages: Sequence[Mapping[str, Any]], turn: Mapping[str, Any] | None) -> Iterator[ToolCallView]:
        """The turn's calls with their answers, paired by place: an id may come again in a later round."""
        proposed: list[Mapping[str, Any]] = []
        for message in messages:
            if message["role"] == "assistant":
                proposed = list(self._load(message["message_ref"]).get("tool_calls", ()))
            elif message["tool"] is not None:
                yield self._call(proposed.pop(0), message["tool"])
        open_calls = turn["calls"] if turn is not None else ()
        for call, noted in zip_longest(proposed, open_calls):
            yield self._call(call, noted["outcome"] if noted is not None else None)

    def _call(self, call: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> ToolCallView:
        said = (call["id"], call["name"], call["arguments_json"])
        if outcome is None:
            return ToolCallView(*said, ok=None)
        return ToolCallView(*said, outcome["ok"], self._view(outcome), outcome["error_code"], outcome["message"])

    def _view(self, outcome: Mapping[str, Any]) -> Any:
        ref = outcome["view_ref"]
        return canonical_json.parse(self.world.blobs.get(ref)) if ref is not None else None

    def _load(self, ref: str) -> Mapping[str, Any]:
        return canonical_json.parse_object(self.world.blobs.get(ref))


def _of(state: Mapping[str, Any], request_id: int) -> Iterator[Mapping[str, Any]]:
    return (message for message in state["messages"] if message["request_id"] == request_id)


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
