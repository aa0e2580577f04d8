"""A process to be killed: a chat whose model orders the same thing in each of two turns, with a tool that does it once.
`ledger_child.py FOLDER [before|after]`: the second argument ends the process in the handler, before or after its work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.world.small_world import MAIN, SYSTEM, ChatClient, call_answer, chat_manifest, text_answer

from demiurge.models.request import GenerateRequest
from demiurge.stores import SqliteStore
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.source import StaticToolSource
from demiurge.values.clock import SystemClock
from demiurge.wire.items import Completion, ToolOutput
from demiurge.world.effects.llm import LlmGenerate
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.host import Host
from demiurge.world.secrets import Secrets


class Ordering:
    """A model that orders when it is told to, and then says so."""

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        if isinstance(request.items[-1], ToolOutput):
            return text_answer("done")
        return call_answer((f"c{len(request.items)}", "order", {"part": "bolt"}))


def order_tool(orders: Path, death: str = "") -> Tool[Any, Any]:
    def order(part: str) -> str:
        """Orders a part."""
        if death == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with orders.open("a") as file:
            file.write(f"{part}\n")
        if death == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"ordered {part}"

    return Tool.wrap(
        order, name="order", effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig(scope="shop")
    )


def open_host(store: SqliteStore, ledger: SqliteEffectLedger | None, folder: Path, death: str = "") -> Host:
    tool, clock = order_tool(folder / "orders", death), SystemClock()
    calls = ToolCalls(StaticToolSource((*CORE_TOOLS, tool)), clock, ledger=ledger)
    model = LlmGenerate(Ordering(), Secrets({"LLM_API_KEY": "sk-test"}))
    return Host(store, chat_manifest([tool]), [model, calls], clock=clock)


async def main(folder: Path, death: str) -> None:
    store = SqliteStore.open(folder / "w")
    store.put_blob(SYSTEM)
    with SqliteEffectLedger(folder / "ledger.db") as ledger:
        host = open_host(store, ledger, folder, death)
        await host.start()
        await host.settle()
        talk = ChatClient(host)
        if host.state(MAIN).cell is None:
            await talk.create()
        for turn in (1, 2):
            if talk.state["last_request_id"] < turn:
                await talk.say("order a bolt")
        await host.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
