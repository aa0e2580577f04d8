"""The last turn of a chat that is opened again: the message and the answer, clipped, and how much was said before."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.text import Text

from demiurge.bootstrap import Chat
from demiurge.cli import output
from demiurge.cli.hints import runnable
from demiurge.cli.terminal.screen import Screen

__all__ = ["RecalledText", "clipped", "last_turn"]

MOST_ROWS: Final = 10
"""The most rows of an answer; of a message a third of them."""


class RecalledText(NamedTuple):
    """A text of the last turn. `is_end_shown`: if it is too long, its end is shown, else its beginning."""

    text: str
    is_end_shown: bool = False


async def last_turn(chat: Chat) -> list[RecalledText]:
    """Returns the last message and the last answer to it; nothing for a new chat, and for a turn that is not over,
    which goes on. Raises DemiurgeError if it can't be read."""
    standing = await chat.standing()
    if standing is None or standing.is_open or not standing.messages:
        return []
    turn = await chat.messages(standing.last_request_id)
    failures = await chat.failures(standing.last_request_id)
    shown: list[RecalledText] = []
    if earlier := standing.messages - len(turn):
        count = f"{earlier} earlier message{'s' * (earlier > 1)}"
        shown.append(
            RecalledText(runnable(f"{count}: `demiurge chat show {chat.id}` prints them, /chats lists the chats."))
        )
    said = ["(erased)" if "erased" in each else each["text"] for each in turn if each["role"] == "user"]
    answers = [
        "(erased)" if "erased" in each else each["text"]
        for each in turn
        if each["role"] == "assistant" and (each["text"] or "erased" in each)
    ]
    shown += [RecalledText(f"> {text}") for text in said[:1]]
    shown += [RecalledText(text, is_end_shown=True) for text in answers[-1:]]
    shown += [RecalledText(runnable(f"(failed: {why.message})")) for why in failures.values()]
    return shown


def clipped(screen: Screen, recalled: RecalledText) -> list[str]:
    """Returns the text dimmed, in the width of the screen, with a mark where rows are left out, and an empty row."""
    rows, more = (
        screen.lines(Text(recalled.text, style="dim")),
        screen.lines(Text(output.symbol("…", "..."), style="dim")),
    )
    most = MOST_ROWS if recalled.is_end_shown else MOST_ROWS // 3
    if len(rows) > most:
        rows = [*more, *rows[-most:]] if recalled.is_end_shown else [*rows[:most], *more]
    return [*rows, ""]
