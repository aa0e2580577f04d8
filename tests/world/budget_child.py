"""A process to be killed: a room makes a call, and lends two to a board, whose run makes them. `budget_child.py
FOLDER`; every call is a line in `FOLDER/calls`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.world.budget_worlds import CALL, room_order, spending_manifest, tool_result

from demiurge.stores import SqliteStore
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets
from demiurge.values.clock import SystemClock
from demiurge.world.effect import EffectCall, Restart, Result
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent

BUDGETS = Budgets(run=Allowance(max_tool_calls=4), unit=Allowance(max_tool_calls=9))
NOTES = [{"text": "call", "budget": {"max_tool_calls": 2}}, {"text": "pass", "budget": {"max_tool_calls": 1}}]


class Calls:
    kinds = ("tool.call",)

    def __init__(self, file: Path) -> None:
        self.file = file

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "in_doubt"

    async def perform(self, call: EffectCall) -> Result:
        with self.file.open("a") as lines:
            lines.write(f"{call.intent.id.hex()}\n")
        await call.put_blob(b"")
        return tool_result()


def open_host(store: SqliteStore, folder: Path) -> Host:
    return Host(store, spending_manifest(BUDGETS), [Calls(folder / "calls")], clock=SystemClock(), tail_bytes=1500)


async def main(folder: Path) -> None:
    store = SqliteStore.open(folder / "w")
    store.put_blob(CALL)
    host = open_host(store, folder)
    await host.start()
    await host.settle()
    await host.submit("ex/Ev@1", room_order(calls=["bump"], notes=NOTES), idempotency_key="once")
    await host.settle()
    await host.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
