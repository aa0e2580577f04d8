"""A process to be killed while it settles the one doubt of a world: `settle_doubt_child.py FOLDER done|not-done`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from demiurge import IdempotencyConfig, ToolPolicy, ToolResult, World
from demiurge.tools import ToolEffect, ToolErrorCode, ToolFailure, tool

paid: list[str] = []
"""The invoices that the handler was called for."""


@dataclass(frozen=True)
class Receipt:
    number: int


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig(scope="shop"))
def pay(invoice: str) -> ToolResult[Receipt]:
    """Pays an invoice. Of the first payment of a process nobody knows what became of it."""
    paid.append(invoice)
    if len(paid) == 1 and invoice.startswith("lost"):
        raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
    return ToolResult("Paid.", Receipt(len(paid)))


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring(bell: str) -> str:
    """Rings a bell; nobody knows whether it rang."""
    raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)


def opened(folder: str, url: str = "http://127.0.0.1:9") -> World:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url}
    return World.open(folder, [pay, ring], ToolPolicy(("pay", "ring")), environment=environment, titles="off")


async def main(folder: str, verdict: str) -> None:
    async with opened(folder) as world:
        [doubt] = await world.doubts()
        result = {"number": 7} if verdict == "done" else None
        await world.settle_doubt(doubt["id"], done=verdict == "done", reason="I asked the bank.", result=result)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
