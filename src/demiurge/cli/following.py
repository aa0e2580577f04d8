"""Follows a chat that other processes use: its past messages, then each turn while it runs.

Following starts nothing: a turn that no process works on stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from demiurge.bootstrap import Chat, Reply
from demiurge.bootstrap.backend import Frames, OnFrame, Shown
from demiurge.bootstrap.chat_state import ChatStanding, Failed
from demiurge.cli import output
from demiurge.cli.hints import runnable
from demiurge.cli.turn import TurnView
from demiurge.errors import NotFound

__all__ = ["Follower"]

Messages = Sequence[Mapping[str, Any]]
Failures = Mapping[int, Failed]

LOOK_AGAIN_S = 1.0
"""How often a silent turn is checked, in seconds: it may have ended without a frame."""


class Follower:
    """Remembers which parts of a chat were shown; `lines` formats finished messages."""

    def __init__(self, lines: Callable[[Messages, Failures], Sequence[str]]) -> None:
        self._lines = lines
        self._shown = 0
        """The last turn that was shown to its end."""
        self._begun = 0
        """The last turn whose message was shown."""

    async def show(self, chat: Chat, *, stays: bool) -> None:
        """Prints new messages, and if it `stays`, later ones for ever."""
        while True:
            chat_state = await chat.standing() or ChatStanding()
            last, is_open = chat_state.last_request_id, chat_state.is_open
            if last - is_open > self._shown:
                await self._show_past(chat, last - is_open)
            if not stays:
                return
            if not is_open:
                await _next_turn(chat, last)
                continue
            if self._begun < last:
                self._print((await chat.messages(last))[:1])
                output.write("")
                self._begun = last
            await _show_turn(chat, last)
            self._shown = last

    async def _show_past(self, chat: Chat, last: int) -> None:
        past = [m for m in await chat.messages(self._shown + 1) if m["request_id"] <= last]
        unseen = [_SILENT | {"request_id": m["request_id"]} if self._was_shown(m) else m for m in past]
        self._print(unseen, await chat.failures(self._shown + 1))
        self._shown = self._begun = last

    def _was_shown(self, message: Mapping[str, Any]) -> bool:
        return (message["request_id"], message["role"]) == (self._begun, "user")

    def _print(self, messages: Messages, failures: Failures = MappingProxyType({})) -> None:
        if messages:
            lines = self._lines(messages, failures)
            output.write(output.plain("\n".join(("", *lines) if self._begun else lines)))


_SILENT = {"role": "assistant", "text": ""}
"""Stands for a message that was shown: a turn without other messages may have failed."""


async def _show_turn(chat: Chat, request_id: int) -> None:
    view = TurnView(chat, request_id)
    reply = await view.follow(partial(_until_over, chat, request_id))
    await view.close(reply)
    if reply.status == "failed":
        output.write(runnable(f"(failed: {output.plain(reply.message)})"))


async def _until_over(chat: Chat, request_id: int, on_frame: OnFrame) -> Reply:
    async with _frames(chat) as frames:
        while True:
            shown = await frames.next()
            if shown is not None and shown["request_id"] == request_id:
                on_frame(shown)
            if (shown is None or shown["type"] in ("closed", "began")) and not await _goes_on(chat, request_id):
                return await chat.reply(request_id)


async def _goes_on(chat: Chat, request_id: int) -> bool:
    chat_state = await chat.standing()
    return chat_state is not None and chat_state.last_request_id == request_id and chat_state.is_open


async def _next_turn(chat: Chat, last: int) -> None:
    """Waits until a turn after the `last` runs, or has run meanwhile."""
    async with _frames(chat) as frames:
        while True:
            shown = await frames.next()
            if shown is not None and shown["type"] == "began":
                return
            if shown is None and (await chat.standing() or ChatStanding()).last_request_id > last:
                return


class _Frames:
    """The frames of a chat, with timeouts."""

    def __init__(self, chat: Chat, source: Frames) -> None:
        self._chat, self._source = chat, source
        self._coming = asyncio.ensure_future(anext(source, None))

    async def next(self) -> Shown | None:
        """Returns the next frame; None if none came for a while. Raises NotFound if the world was closed."""
        came, _ = await asyncio.wait((self._coming,), timeout=LOOK_AGAIN_S)
        if not came:
            return None
        shown = self._coming.result()
        if shown is None:
            raise NotFound(f"The world of chat {self._chat.id} was closed.", code="closed")
        self._coming = asyncio.ensure_future(anext(self._source, None))
        return shown

    async def close(self) -> None:
        self._coming.cancel()
        with suppress(asyncio.CancelledError):
            await self._coming


@asynccontextmanager
async def _frames(chat: Chat) -> AsyncIterator[_Frames]:
    async with aclosing(chat.backend.run.watch(str(chat.unit))) as source:
        frames = _Frames(chat, source)
        try:
            yield frames
        finally:
            await frames.close()
