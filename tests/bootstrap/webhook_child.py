"""A process to be killed: `webhook_child.py FOLDER ADD_URL CALL REJECT` adds a webhook, makes a call that waits, and
rejects the calls that wait, each unless it is empty. It ends when the webhooks know all that waits and no attempt is
under way.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.webhook_worlds import opened

from demiurge import World


async def is_done(world: World) -> bool:
    waiting, hooks = len(await world.approvals()), await world.webhooks.list()
    told = all(hook.delivered + hook.waiting >= waiting for hook in hooks)
    return told and all(hook.waiting == 0 or (waiting and hook.problem is not None) for hook in hooks)


async def main(folder: Path, add: str, call: str, reject: str) -> None:
    async with opened(folder) as world:
        await world.settle()
        if add:
            await world.webhooks.add(add)
        if call:
            await world.call("ring_bell", '{"word": "xyzzy"}', call)
        for waiting in await world.approvals() if reject else ():
            await world.decide(waiting["id"], approve=False)
        while not await is_done(world):
            await asyncio.sleep(0.005)
        await world.settle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
