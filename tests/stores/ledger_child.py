"""A process that uses a ledger, perhaps to its death.

`ledger_child.py FOLDER HOW ORDER...` places each order through a runner, with the ledger and the shop's book in FOLDER,
and prints what was answered as JSON. HOW: `place`; `race`: the same, when told on stdin; `die before` or `die after`
the effect, inside the handler; `find out`: with a `reconcile` that looks into the book; `fill`: see fill_disk; `fork`:
see fork.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from tests.tools.order_shop import NAME, Order, Receipt, order_tool, runner_for

from demiurge import SqliteEffectLedger
from demiurge.tools import LedgerSlot, ToolContext, ToolExecResult, ToolResult


class Book:
    """The shop's own, outside of the process: a line for each order that it took."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "book"

    def write(self, order_id: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{order_id}\n".encode())
        os.close(descriptor)

    def orders(self) -> list[str]:
        return self._path.read_text().split() if self._path.exists() else []


def shop_tool(folder: Path, how: str) -> Any:
    book = Book(folder)

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        if how == "die before":
            os.kill(os.getpid(), signal.SIGKILL)
        book.write(params.order_id)
        if how == "die after":
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        return ToolResult("ordered" * (1000 if how == "long" else 1), Receipt(params.order_id))

    def find_out(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        if params.order_id in book.orders():
            return ToolResult("was ordered", Receipt(params.order_id))
        return ToolResult("was not ordered", None, success=False)

    return order_tool(place, reconcile=find_out if how == "find out" else None)


def result_as_list(result: ToolExecResult) -> list[Any]:
    return [result.error_code, result.content.split("\n")[0] if result.ok else None, result.record.replayed]


async def place_all(folder: Path, how: str, orders: list[str]) -> list[Any]:
    with SqliteEffectLedger(folder / "ledger.db") as ledger:
        runner = runner_for(shop_tool(folder, how), ledger)
        return [result_as_list(await runner.exec(NAME, {"order_id": order})) for order in orders]


async def fill_disk(folder: Path) -> list[Any]:
    """Places orders until the disk is full, then makes room: the answers before, in between and after."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    answers: list[Any] = []
    with SqliteEffectLedger(folder / "ledger.db") as ledger:
        runner = runner_for(shop_tool(folder, "long"), ledger)
        full = 0
        for number in itertools.count():
            result = await runner.exec(NAME, {"order_id": str(number)})
            answers.append([str(number), result.error_code])
            full += result.error_code is not None
            if full == 3:
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for order, _ in list(answers):
            again = await runner.exec(NAME, {"order_id": order})
            answers.append([order, again.error_code])
    return answers


def fork(folder: Path) -> dict[str, Any]:
    """One ledger in a parent and its child, and then only in the child: what each was answered and saw."""
    ledger = SqliteEffectLedger(folder / "ledger.db")
    runner = runner_for(shop_tool(folder, "place"), ledger)

    def place(*orders: str) -> list[Any]:
        return [result_as_list(runner.exec_sync(NAME, {"order_id": order})) for order in orders]

    def claim(key: str) -> None:
        ledger.claim(LedgerSlot("", "held", key), params_hash="h", ttl_ns=None, now_ns=0)

    claim("by the parent, before")
    seen: dict[str, Any] = {"parent before": place("before")}
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(to_child[0], 1)
        claim("by the child")
        mine = {"child": place("before", "child"), "doubts in the child": ledger.in_doubt()}
        os.write(to_parent[1], json.dumps(mine).encode())
        os.read(to_child[0], 1)
        place("alone")
        os._exit(0)
    claim("by the parent, after")
    os.write(to_child[1], b"x")
    seen |= json.loads(os.read(to_parent[0], 100_000))
    seen |= {"parent": place("child", "parent"), "doubts in the parent": ledger.in_doubt()}
    ledger.close()
    os.write(to_child[1], b"x")
    os.waitpid(child, 0)
    with SqliteEffectLedger(folder / "ledger.db") as ledger:
        runner = runner_for(shop_tool(folder, "place"), ledger)
        seen |= {"later": place("before", "child", "parent", "alone"), "doubts later": ledger.in_doubt()}
    return seen


def main() -> None:
    folder, how, orders = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if how == "race":
        print("ready", flush=True)
        sys.stdin.readline()
    if how == "fork":
        print(json.dumps(fork(folder)), flush=True)
        return
    answers = asyncio.run(fill_disk(folder) if how == "fill" else place_all(folder, how, orders))
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
