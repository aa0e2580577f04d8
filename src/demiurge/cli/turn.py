"""One turn of a chat, followed until it is over: its calls with their results, then the streamed answer.

Text comes from frames, which are not stored. Calls come from the chat's own state, so that a call that was refused, or
that ran in an earlier process, is shown like any other; so do the words before a call that no frame has brought.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.bootstrap.backend import OnFrame
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.stored_blobs import StoredBlobs
from demiurge.bootstrap.told_text import told_problem
from demiurge.bootstrap.turn_reader import TurnReader
from demiurge.cli import output
from demiurge.cli.approval import SHORT
from demiurge.cli.call_arguments import arguments, change_text, clipped, result_text
from demiurge.cli.hints import runnable
from demiurge.cli.turn_display import CALL, CHANGE, FAILURE, RESULT, Mark, PlainDisplay, TurnDisplay
from demiurge.errors import NotFound
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.parts import parts_of
from demiurge.world.history.call_state import problem_text

__all__ = ["REPLAYED", "TurnView", "reply_document"]

REPLAYED = " (replayed: an equal call was done before)"


def reply_document(chat_id: str, reply: Reply) -> dict[str, Any]:
    """Returns a reply as JSON: `{chat_id, request_id, status, text, tool_calls, approvals, ...}`."""
    shown = asdict(reply)
    error = {"code": shown.pop("error_code"), "message": shown.pop("message")}
    return {"chat_id": chat_id, **shown, **({"error": error} if reply.status == "failed" else {})}


class TurnView:
    """Shows one turn on a display, as plain text on stdout by default: that of the message `request_id`, None for the
    one that the first frame is about."""

    def __init__(self, chat: Chat, request_id: int | None = None, display: TurnDisplay | None = None) -> None:
        self._chat = chat
        self._display: TurnDisplay = display if display is not None else PlainDisplay()
        self._turn: TurnReader | None = chat.turn(request_id) if request_id is not None else None
        self._unshown: set[int] = set()
        """The calls with news that were not shown yet."""
        self._worded: set[int] = set()
        """The calls before which the words of their answer, if they are the first of it, were shown."""
        self._shown: list[bool] = []
        """For each call of the turn that was shown, in order: whether its result was too."""
        self._open: dict[str, list[int]] = {}
        """The calls that were shown without a result, by their id."""
        self._changed: set[int] = set()
        """The calls that were shown with the arguments of a person."""
        self._above: int | None = None
        """The call that the line above shows, if it shows one."""
        self._running = ("", "")
        """Id and name of the call that runs."""
        self._intent = ""
        self._text = ""
        """The text of the answer that was shown last."""
        self._said_where = False

    async def follow(self, work: Callable[[OnFrame], Awaitable[Reply]]) -> Reply:
        """Awaits `work`, which returns the reply, and shows the turn meanwhile."""
        await self._catch_up(leaves_open=True)
        frames: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        showing = asyncio.create_task(self._show(frames))
        self._display.begin_step("thinking")
        try:
            reply = await work(frames.put_nowait)
        finally:
            frames.put_nowait(None)
            await showing
            self._display.end_step()
        if reply.status != "done":  # what comes next is not part of this text
            self._display.end_answer()
        return reply

    async def close(self, reply: Reply) -> None:
        """Shows what the frames left out: late results, text that was not streamed, the token count."""
        self._begin(reply.request_id)
        await self._catch_up()
        self._say_rest(reply.text)
        self._display.end_answer(is_final=reply.status == "done")
        if reply.status == "done":
            tokens = f"{reply.prompt_tokens} tokens in, {reply.completion_tokens} out"
            cost = f", {_dollars(reply.cost_micros)}" if reply.cost_micros else ""
            self._display.footer(f"({tokens}{cost})")

    async def _show(self, frames: asyncio.Queue[Mapping[str, Any] | None]) -> None:
        while (frame := await frames.get()) is not None:
            self._begin(frame["request_id"])
            match frame["type"]:
                case "began" if frame["intent"] == self._intent and self._text:
                    self._line(FAILURE, "The answer broke off; it begins again.")
                    self._text = ""
                case "text_delta":
                    if frame["intent"] != self._intent:
                        await self._catch_up(streams=True)
                        self._display.end_answer()  # an answer that was not taken, if no call came after it
                        self._intent, self._text = frame["intent"], ""
                    self._text += frame["delta"]
                    self._say(frame["delta"])
                case "closed":  # a result is recorded, and with it the text that its frame does not have
                    await self._catch_up(streams=True, leaves_open=True)
                case "status" if frame["phase"] == "thinking":
                    self._display.begin_step(frame["label"] or "thinking", important=frame["label"] is not None)
                case kind if kind.startswith("tool_"):
                    await self._show_call_frame(frame)

    async def _show_call_frame(self, frame: Mapping[str, Any]) -> None:
        """Shows a frame of a call: that it begins, how far it is, or its result."""
        match frame["type"]:
            case "tool_call_start":
                if frame["tool_call_id"] not in self._open:
                    await self._catch_up(streams=True)
                self._running = frame["tool_call_id"], frame["tool_name"]
                self._display.begin_step(self._running_step())
            case "tool_progress" if frame["tool_call_id"] == self._running[0]:
                self._display.begin_step(self._running_step(_progress(frame)))
            case "tool_log" if frame["tool_call_id"] == self._running[0]:
                self._display.begin_step(self._running_step(clipped(frame["text"])))
            case "tool_call_result":
                if frame["tool_call_id"] not in self._open:
                    await self._catch_up(streams=True)
                if not sees_records(self._chat.backend.caller):
                    self._show_outcome(frame)
                self._display.begin_step("thinking")

    def _running_step(self, progress: str = "") -> str:
        """Returns the step of the running call, with its progress and the calls that wait until it ends."""
        call_id, name = self._running
        waiting = sum(len(places) for other, places in self._open.items() if other != call_id)
        waits = f"{waiting} more call{'s' * (waiting > 1)} wait{'s' * (waiting == 1)} for it" if waiting else ""
        about = ", ".join(filter(None, (progress, waits)))
        return f"running {name}" + (f": {about}" if about else "")

    def _begin(self, request_id: int | None) -> None:
        """Notes which turn is shown."""
        if self._turn is None and request_id is not None:
            self._turn = self._chat.turn(request_id)

    async def _catch_up(self, *, streams: bool = False, leaves_open: bool = False) -> None:
        """Shows the calls and results in the chat's state that were not shown yet, and the words before them.

        The state may be ahead of the frames: while the turn `streams`, calls wait for the words before them.
        `leaves_open`: a call without a result is not shown yet, since a person may see its card next."""
        if self._turn is None:
            return
        with suppress(NotFound):
            self._unshown.update(await self._turn.read())
        for index in sorted(self._unshown):
            words, call = self._turn.words.get(index, ""), self._turn.view(index)
            if index not in self._worded:
                if streams and words.strip() not in ("", self._text.strip()):
                    return
                self._say_rest(words)
                self._worded.add(index)
            if leaves_open and call.ok is None:
                self._display.end_answer()
                return
            self._unshown.discard(index)
            if index >= len(self._shown) or not self._shown[index]:
                self._show_call(index, call)

    def _say_rest(self, text: str) -> None:
        """Shows what the frames have not brought of the text of an answer."""
        if text and self._text.strip() != text.strip():
            self._say(text.removeprefix(self._text))
            self._text = text

    def _show_outcome(self, frame: Mapping[str, Any]) -> None:
        """Shows the redacted result at once; it becomes durable a moment later."""
        if self._turn is None:
            return
        for index in list(self._open.get(frame["tool_call_id"], ())):
            result, call = frame["result"], self._turn.view(index)
            outcome = replace(call, ok=not frame["is_error"], result=result, replayed=frame.get("replayed", False))
            if frame["is_error"]:
                outcome = replace(outcome, error_code=result["error_code"], message=result["message"])
            self._show_call(index, outcome)

    def _show_call(self, index: int, call: ToolCallView) -> None:
        if index >= len(self._shown):
            self._shown.append(False)
            self._open.setdefault(call.id, []).append(index)
            self._show_arguments(index, call)
        elif call.changed_by is not None and index not in self._changed:
            self._show_arguments(index, call)
        if call.ok is None or self._shown[index]:
            return
        self._shown[index] = True
        self._open[call.id].remove(index)
        if not self._open[call.id]:
            del self._open[call.id]
        name = "" if index == self._above else f"{call.name}: "
        if call.ok:
            self._line(
                RESULT,
                name
                + clipped(result_text(call.result, call.content, call.value))
                + (REPLAYED if call.replayed else ""),
            )
            for part in parts_of(call.result):
                self._display.part(part, partial(StoredBlobs(self._chat.backend).get, part["bytes_ref"]))
        else:
            why = told_problem(call.error_code, call.message, call.content)
            self._line(FAILURE, name + problem_text(call.error_code, runnable(why)))
            self._say_where_to_look(call)

    def _show_arguments(self, index: int, call: ToolCallView) -> None:
        """Shows what a call runs with; if a person changed it, who did, and what the model proposed."""
        self._line(CALL, f"{call.name} {clipped(arguments(call.arguments_json or ''))}")
        if call.changed_by is not None:
            self._changed.add(index)
            who = "you" if call.changed_by == self._chat.backend.caller.actor else call.changed_by
            self._line(CHANGE, clipped(change_text(who, call.proposed_json or "")))
        if call.rule is not None:
            whose = "your rule" if call.rule_by == self._chat.backend.caller.actor else f"the rule of {call.rule_by}"
            self._display.note(
                f"allowed by {whose} of this chat; `demiurge approvals forget {call.rule[:SHORT]}` ends it"
            )
        self._above = index

    def _say_where_to_look(self, call: ToolCallView) -> None:
        """Says where to find the error of a tool that failed in another process, whose log is not shown here."""
        broke = call.error_code == ToolErrorCode.EXECUTION and call.message == SAFE_MESSAGES[ToolErrorCode.EXECUTION]
        if broke and not self._chat.backend.owner and not self._said_where:
            self._said_where = True
            output.notice(
                "Why it failed is said on the stderr of the process that has this world open (with -v there)."
            )

    def _line(self, mark: Mark, text: str) -> None:
        self._above = None
        self._display.line(mark, text)

    def _say(self, text: str) -> None:
        self._above = None
        self._display.say(text)


def _progress(frame: Mapping[str, Any]) -> str:
    """Returns a report of progress in words: `3 of 10, unpacking`."""
    done, total = f"{frame['done']:g}", frame["total"]
    return ", ".join(filter(None, (f"{done} of {total:g}" if total is not None else done, frame["message"])))


def _dollars(micros: int) -> str:
    """Returns the exact amount, with at least two decimals."""
    whole, fraction = f"{micros / 1_000_000:.6f}".split(".")
    return f"${whole}.{fraction.rstrip('0'):0<2}"
