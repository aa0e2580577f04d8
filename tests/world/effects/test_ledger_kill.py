"""kill -9 at every step of a call that is to be made once: the outside sees it at most once, and the chat is told what
is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.world.effects.ledger_child import open_host
from tests.world.small_world import ChatClient

from demiurge.stores import SqliteStore
from demiurge.values import canonical_json
from demiurge.world.history.verify import verify

ROOT = Path(__file__).parents[3]


async def run(folder: Path, fault: str = "", death: str = "") -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.effects.ledger_child", str(folder), death, env=environment
    )
    return await child.wait()


class Death(NamedTuple):
    """Where the first process dies; how often the outside has then seen the order; what the two turns are told."""

    fault: str
    orders: int
    told: tuple[str, str]
    handler: str = ""


DONE, AGAIN, UNKNOWN = "done", "replayed", "unknown_outcome"
DEATHS = {
    "no attempt yet": Death("effect.before_attempt=kill@2", 0, (DONE, AGAIN)),
    "attempt, and nothing in the ledger": Death("effect.attempted=kill@2", 0, (UNKNOWN, DONE)),
    "the claim is not durable": Death("ledger.claim.before_commit=kill", 0, (UNKNOWN, DONE)),
    "claimed": Death("ledger.claim.after_commit=kill", 0, (UNKNOWN, UNKNOWN)),
    "in the handler": Death("", 0, (UNKNOWN, UNKNOWN), "before"),
    "in the handler, after the effect": Death("", 1, (UNKNOWN, UNKNOWN), "after"),
    "done, but not in the ledger": Death("ledger.settle.before_commit=kill", 1, (UNKNOWN, UNKNOWN)),
    "done in the ledger": Death("ledger.settle.after_commit=kill", 1, (AGAIN, AGAIN)),
    "the runner has answered": Death("tool.ran=kill", 1, (AGAIN, AGAIN)),
    "no receipt yet": Death("effect.performed=kill@2", 1, (AGAIN, AGAIN)),
    "receipt": Death("effect.received=kill@2", 1, (DONE, AGAIN)),
    "the second turn, no receipt yet": Death("effect.performed=kill@5", 1, (DONE, AGAIN)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("death", DEATHS)
async def test_a_kill_makes_no_second_order_and_hides_none(death: str, tmp_path: Path) -> None:
    fault, orders, told, handler = DEATHS[death]
    tmp_path.chmod(0o700)
    SqliteStore.create(tmp_path / "w", "world_1").close()
    (tmp_path / "orders").touch()
    assert await run(tmp_path, fault, handler) == -signal.SIGKILL
    assert len((tmp_path / "orders").read_text().split()) == orders
    assert await run(tmp_path) == 0
    assert len((tmp_path / "orders").read_text().split()) == (1 if DONE in told else orders)
    store = SqliteStore.open(tmp_path / "w")
    host = open_host(store, None, tmp_path)
    talk = ChatClient(host)
    assert tuple(outcome(talk, number) for number in range(2)) == told
    assert talk.turn["status"] == "done"
    assert verify(store).ok
    assert list(host.replay())
    await host.close()
    store.close()


def outcome(talk: ChatClient, number: int) -> str:
    receipt = talk.receipts("tool.call")[number]
    if receipt["status"] == "error":
        return str(receipt["payload"]["code"])
    if not receipt["payload"]["ok"]:
        return str(receipt["payload"]["error_code"])
    record = canonical_json.parse_object(talk.host.get_blob(receipt["payload"]["record_ref"]))
    return AGAIN if record["replayed"] else DONE
