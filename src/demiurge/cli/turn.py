"""One turn of a chat as it is shown: the calls with their results, then the answer as it comes.

Text comes from frames, which are not stored; calls come from the chat's own state, so that one which was refused before
it ran, or ran in an earlier process, is shown like any other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from demiurge.bootstrap import Chat, Reply, ToolCallView
from demiurge.bootstrap.backend import OnFrame
from demiurge.cli import output
from demiurge.cli.call_arguments import arguments
from demiurge.errors import NotFound

__all__ = ["TurnView", "reply_document"]

T = TypeVar("T")

LONGEST = 2000
"""Characters of arguments or of a result that a terminal is shown."""


def reply_document(chat_id: str, reply: Reply) -> dict[str, Any]:
    """A reply as JSON: `{chat_id, request_id, status, text, tool_calls, approvals, ...}`."""
    shown = asdict(reply)
    error = {"code": shown.pop("error_code"), "message": shown.pop("message")}
    return {"chat_id": chat_id, **shown, **({"error": error} if reply.status == "failed" else {})}


class TurnView:
    """Shows one turn. With `quiet` only what takes long is told, on stderr."""

    def __init__(self, chat: Chat, *, quiet: bool = False) -> None:
        self._chat, self._quiet = chat, quiet
        self._status = _StatusLine()
        self._calls: Sequence[ToolCallView] = ()
        self._shown: list[bool] = []
        """For each call of the turn that was shown, in order: whether its result was too."""
        self._intent = ""
        self._text = ""
        self._at_line_start = True
        self._gap_due = False

    async def follow(self, work: Callable[[OnFrame], Awaitable[T]]) -> T:
        """Await `work`, showing what happens meanwhile."""
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
        """Show what the frames left out: late results, text that was not streamed, the count of tokens."""
        await self._catch_up()
        if self._quiet:
            return
        if reply.text and self._text.strip() != reply.text.strip():
            rest = reply.text.removeprefix(self._text) if self._text else reply.text
            self._say(rest)
        self._end_line()
        if reply.status == "done":
            tokens = f"{reply.prompt_tokens} tokens in, {reply.completion_tokens} out"
            cost = f", at most ${reply.cost_cents / 100:.2f}" if reply.cost_cents else ""
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
                    await self._catch_up()
                    self._status.begin(f"running {frame['tool_name']}")
                case "tool_call_result":
                    await self._catch_up()
                    self._show_outcome(frame)
                    self._status.begin("thinking")
                case "status" if frame["phase"] == "thinking":
                    self._status.begin(frame["label"] or "thinking", important=frame["label"] is not None)

    async def _catch_up(self) -> None:
        """Show the calls and results that are in the chat's state and were not shown yet."""
        with suppress(NotFound):
            reply = await self._chat.reply()
            self._calls = reply.tool_calls
            for index, call in enumerate(reply.tool_calls):
                self._show_call(index, call)

    def _show_outcome(self, frame: Mapping[str, Any]) -> None:
        """Show a result as soon as it is there; it is durable a moment later."""
        for index, call in enumerate(self._calls):
            if call.id == frame["tool_call_id"] and not self._shown[index]:
                result = frame["result"]
                outcome = replace(call, ok=not frame["is_error"], result=result)
                if frame["is_error"]:
                    outcome = replace(outcome, error_code=result["error_code"], message=result["message"])
                self._show_call(index, outcome)

    def _show_call(self, index: int, call: ToolCallView) -> None:
        last = len(self._shown) - 1
        fresh = index > last
        if fresh:
            self._shown.append(False)
            self._line(output.symbol("→", "->"), f"{call.name} {_clipped(arguments(call.arguments_json))}", fg="cyan")
        if call.ok is None or self._shown[index]:
            return
        self._shown[index] = True
        name = "" if fresh or index == last else f"{call.name}: "
        if call.ok:
            result = output.as_json(call.result)
            self._line(output.symbol("←", "<-"), name + _clipped(result), fg="green")
        else:
            self._line(output.symbol("✗", "x"), f"{name}{call.error_code}: {call.message}", fg="red")

    def _line(self, mark: str, text: str, **style: Any) -> None:
        if self._quiet:
            return
        self._status.end()
        self._end_line()
        output.write(f"{output.paint(mark, **style)} {output.plain(text)}")
        self._gap_due = True

    def _say(self, text: str) -> None:
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
    """What goes on now, with the seconds it takes: a line on a terminal that is wiped when something is shown.

    Without a terminal only what is `important` is said, once.
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


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST} characters more)"
