"""The display of one turn of a chat: the calls with their results, then the streamed answer.

Text comes from frames, which are not stored. Calls come from the chat's own state, so that a call that was refused, or
that ran in an earlier process, is shown like any other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.bootstrap.backend import OnFrame
from demiurge.cli import output
from demiurge.cli.call_arguments import arguments, clipped
from demiurge.errors import NotFound
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode

__all__ = ["REPLAYED", "TurnView", "reply_document"]

T = TypeVar("T")

REPLAYED = " (replayed: an equal call was done before)"


def reply_document(chat_id: str, reply: Reply) -> dict[str, Any]:
    """Returns a reply as JSON: `{chat_id, request_id, status, text, tool_calls, approvals, ...}`."""
    shown = asdict(reply)
    error = {"code": shown.pop("error_code"), "message": shown.pop("message")}
    return {"chat_id": chat_id, **shown, **({"error": error} if reply.status == "failed" else {})}


class TurnView:
    """Shows one turn. With `quiet` it only reports long steps, on stderr."""

    def __init__(self, chat: Chat, request_id: int | None = None, *, quiet: bool = False) -> None:
        self._chat, self._quiet = chat, quiet
        self._status = _StatusLine()
        self._turn = chat.turn(request_id)
        self._request_id: int | None = None
        """The turn that is shown."""
        self._shown: list[bool] = []
        """For each call of the turn that was shown, in order: whether its result was too."""
        self._open: dict[str, list[int]] = {}
        """The calls that were shown without a result, by their id."""
        self._above: int | None = None
        """The call that the line above shows, if it shows one."""
        self._intent = ""
        self._text = ""
        self._at_line_start = True
        self._gap_due = False
        self._said_where = False

    async def follow(self, work: Callable[[OnFrame], Awaitable[T]]) -> T:
        """Awaits `work` and shows the turn meanwhile."""
        frames: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        showing = asyncio.create_task(self._show(frames))
        self._status.begin("thinking")
        try:
            return await work(frames.put_nowait)
        finally:
            frames.put_nowait(None)
            await showing
            self._status.end()

    async def close(self, reply: Reply) -> None:
        """Shows what the frames left out: late results, text that was not streamed, the token count."""
        await self._catch_up()
        if self._quiet:
            return
        if reply.text and self._text.strip() != reply.text.strip():
            rest = reply.text.removeprefix(self._text) if self._text else reply.text
            self._say(rest)
        self._end_line()
        if reply.status == "done":
            tokens = f"{reply.prompt_tokens} tokens in, {reply.completion_tokens} out"
            cost = f", {_dollars(reply.cost_micros)}" if reply.cost_micros else ""
            output.write(output.paint(f"\n({tokens}{cost})", dim=True))

    async def _show(self, frames: asyncio.Queue[Mapping[str, Any] | None]) -> None:
        while (frame := await frames.get()) is not None:
            match frame["type"]:
                case "began" if frame["intent"] == self._intent and self._text:
                    self._line(output.symbol("✗", "x"), "The answer broke off; it begins again.", fg="red")
                    self._text = ""
                case "text_delta":
                    if frame["intent"] != self._intent:
                        await self._catch_up()
                        self._intent, self._text = frame["intent"], ""
                    self._text += frame["delta"]
                    self._status.end()
                    self._say(frame["delta"])
                case "tool_call_start":
                    if frame["tool_call_id"] not in self._open:
                        await self._catch_up()
                    self._status.begin(f"running {frame['tool_name']}")
                case "tool_call_result":
                    if frame["tool_call_id"] not in self._open:
                        await self._catch_up()
                    self._show_outcome(frame)
                    self._status.begin("thinking")
                case "status" if frame["phase"] == "thinking":
                    self._status.begin(frame["label"] or "thinking", important=frame["label"] is not None)

    async def _catch_up(self) -> None:
        """Shows the calls and results in the chat's state that were not shown yet."""
        with suppress(NotFound):
            news = await self._turn.read()
            if self._turn.request_id != self._request_id:
                self._request_id, self._shown, self._open = self._turn.request_id, [], {}
            for index in news:
                if index >= len(self._shown) or not self._shown[index]:
                    self._show_call(index, self._turn.view(index))

    def _show_outcome(self, frame: Mapping[str, Any]) -> None:
        """Shows a result at once; it becomes durable a moment later."""
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
            shown = clipped(arguments(call.arguments_json or ""))
            self._line(output.symbol("→", "->"), f"{call.name} {shown}", fg="cyan")
            self._above = index
        if call.ok is None or self._shown[index]:
            return
        self._shown[index] = True
        self._open[call.id].remove(index)
        if not self._open[call.id]:
            del self._open[call.id]
        name = "" if index == self._above else f"{call.name}: "
        if call.ok:
            result = output.as_json(call.result)
            result_text = clipped(result) + (REPLAYED if call.replayed else "")
            self._line(output.symbol("←", "<-"), name + result_text, fg="green")
        else:
            self._line(output.symbol("✗", "x"), f"{name}{call.error_code}: {call.message}", fg="red")
            self._say_where_to_look(call)

    def _say_where_to_look(self, call: ToolCallView) -> None:
        """Says where to find the error of a tool that failed in another process, whose log is not shown here."""
        broke = call.error_code == ToolErrorCode.EXECUTION and call.message == SAFE_MESSAGES[ToolErrorCode.EXECUTION]
        if broke and not self._chat.backend.owner and not self._said_where:
            self._said_where = True
            output.notice(
                "Why it failed is said on the stderr of the process that has this world open (with -v there)."
            )

    def _line(self, mark: str, text: str, **style: Any) -> None:
        self._above = None
        if self._quiet:
            return
        self._status.end()
        self._end_line()
        output.write(f"{output.paint(mark, **style)} {output.plain(text)}")
        self._gap_due = True

    def _say(self, text: str) -> None:
        self._above = None
        if self._quiet or not text:
            return
        if self._gap_due:
            output.write("")
            self._gap_due = False
        output.write(output.plain(text), end="")
        self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            output.write("")
            self._at_line_start = True


class _StatusLine:
    """The current step with its seconds: a line on a terminal, which is erased before other output.

    Without a terminal it prints `important` steps only, once.
    """

    def __init__(self) -> None:
        self._terminal = output.is_terminal(sys.stderr) and output.is_terminal(output.stdout())
        self._ticking: asyncio.Task[None] | None = None
        self._said: set[str] = set()

    def begin(self, label: str, *, important: bool = False) -> None:
        self.end()
        if self._terminal:
            self._ticking = asyncio.create_task(self._tick(output.plain(label)))
        elif important and label not in self._said:
            self._said.add(label)
            output.notice(f"{label[0].upper()}{label[1:]} ...")

    def end(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    async def _tick(self, label: str) -> None:
        seconds = 0
        while True:
            elapsed = f" {seconds} s" if seconds else ""
            sys.stderr.write("\r\x1b[2K" + output.paint(f"{label} ...{elapsed}", sys.stderr, dim=True))
            sys.stderr.flush()
            await asyncio.sleep(1)
            seconds += 1


def _dollars(micros: int) -> str:
    """Returns the exact amount, with at least two decimals."""
    whole, fraction = f"{micros / 1_000_000:.6f}".split(".")
    return f"${whole}.{fraction.rstrip('0'):0<2}"
