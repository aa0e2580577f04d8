"""A world with calls that change something outside, whose process is killed; and what a later process makes of it.

Run as a program, `python -m tests.chaos.killed_world FOLDER BEGIN END HOW` makes the calls from number BEGIN to END and
kills itself: in the last of them when HOW is `within`, so that its effect is done and nobody was told, else `after` it.
When HOW is `accept` it makes no call: it accepts what is lost.
The outside is a file with a line for each effect.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demiurge import IdempotencyConfig, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.errors import DemiurgeError

__all__ = ["CALLS", "Book", "ask_for_every_call", "main", "open_small_world", "run_calls_and_die"]

CALLS = (("pay", "a"), ("order", "b"), ("look", "c"), ("order", "d"), ("pay", "e"))
"""Tool and order, in the order in which they are called."""


class Book:
    """The outside, in the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, order: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{order}\n")

    def orders(self) -> Counter[str]:
        return Counter(self.path.read_text().split()) if self.path.exists() else Counter()


def tools(book: Book, dies: Callable[[str], bool] = lambda _order: False) -> list[Any]:
    """`pay` has no key, `order` is in the ledger, `look` only reads."""

    def act(order: str) -> ToolResult[None]:
        book.write(order)
        if dies(order):
            os.kill(os.getpid(), signal.SIGKILL)
        return ToolResult(f"done: {order}")

    @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
    def pay(order: str) -> ToolResult[None]:
        """Pays, each time."""
        return act(order)

    @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig(scope="shop"))
    def order(order: str) -> ToolResult[None]:
        """Orders, once."""
        return act(order)

    @tool(effect=ToolEffect.READ_ONLY)
    def look(order: str) -> ToolResult[None]:
        """Looks."""
        return ToolResult(f"seen: {order}")

    return [pay, order, look]


def open_small_world(folder: Path, offered: list[Any], **options: Any) -> World:
    policy = ToolPolicy(allowed_tools=tuple(each.name for each in offered))
    environment = {"HOME": str(folder.with_name(f"{folder.name}.home")), "LLM_API_KEY": "sk-test"}
    return World.open(folder, offered, policy, environment=environment, **options)


async def run_calls_and_die(folder: Path, begin: int, end: int, how: str) -> None:
    """Calls, each with an id of its own, and the end of this process."""
    last = CALLS[end - 1][1] if how == "within" else None
    offered = tools(Book(folder.with_name("book")), lambda order: order == last)
    async with open_small_world(folder, offered) as world:
        for name, order in CALLS[begin:end]:
            await world.call(name, f'{{"order": "{order}"}}', f"call-{order}")
        os.kill(os.getpid(), signal.SIGKILL)


async def ask_for_every_call(folder: Path, book: Book) -> list[str]:
    """Ask for all that is open and for every call again, with its own id, and with a new one where the ledger knows it.
    What came of each: `ok`, an error's code, or the sentence of a refusal."""
    said: list[str] = []
    try:
        async with open_small_world(folder, tools(book), create=True) as world:
            await _try(said, world.settle())
            for name, order in CALLS:
                for call in (f"call-{order}", f"again-{order}") if name == "order" else (f"call-{order}",):
                    await _try(said, world.call(name, f'{{"order": "{order}"}}', call))
            said += [f"verify: {problem}" for problem in [world.journal.verify().problem] if problem]
    except DemiurgeError as error:
        said.append(error.message)
    return said


async def _try(said: list[str], work: Any) -> None:
    try:
        done = await work
    except DemiurgeError as error:
        said.append(error.message)
    else:
        said.append("ok" if done is None or done.ok else str(done.error_code))


async def accept_losses(folder: Path) -> None:
    async with open_small_world(folder, tools(Book(folder.with_name("book"))), accept_losses="I looked at the book."):
        pass


def main() -> None:
    folder, begin, end, how = sys.argv[1:]
    asyncio.run(
        accept_losses(Path(folder)) if how == "accept" else run_calls_and_die(Path(folder), int(begin), int(end), how)
    )


if __name__ == "__main__":
    main()
