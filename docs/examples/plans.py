import asyncio
import inspect
from pathlib import Path

import shop_order

from demiurge.stores import MemoryStore
from demiurge.tools import ToolPolicy
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest, read_folder
from demiurge.world.reducer import Reducer
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit
from demiurge.world.workspace import WORKSPACE, workspace_reducer

ORDER = "shop/Order@1"
CODE = {ORDER: Reducer(shop_order.reduce, inspect.getsource(shop_order).encode()), WORKSPACE: workspace_reducer()}


class Stock:
    """The adapter of `shop.reserve`."""

    kinds = ("shop.reserve",)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        if call.intent.params["part"] == "unicorn":
            return failed("sold_out", "There are no unicorns.")
        return succeeded(price=3)


async def main() -> None:
    folder = read_folder(Path("shop"))
    definitions = [part.content for part in folder.definitions]
    manifest = Manifest.build(definitions, folder.root(), CODE, tool_policy=ToolPolicy())

    host = Host(MemoryStore("example"), manifest, [Stock()])
    await host.start()
    await host.submit("shop/Placed@1", {"order": "A-1", "part": "bolt", "count": 4})
    await host.submit("shop/Placed@1", {"order": "A-2", "part": "unicorn", "count": 1})
    await host.settle()
    await host.submit("shop/Paid@1", {"order": "A-1", "amount": 5})
    await host.submit("shop/Paid@1", {"order": "A-1", "amount": 12})
    await host.settle()
    for key in ("A-1", "A-2"):
        state = host.state(Unit(ORDER, key))
        print(key, list(state.cell["history"]) if state.cell else None, "open" if state.is_open else "done")
    print("replayed:", len(list(host.replay())), "steps")
    await host.close()


asyncio.run(main())
