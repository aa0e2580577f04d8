"""kill -9 at every step of a call, and what the next process is told: never is an order placed twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.stores.ledger_child import Book, place_all
from tests.tools.order_shop import NAME

from demiurge import SqliteEffectLedger, faults
from demiurge.tools import LedgerSlot, ToolResult, compute_params_hash
from demiurge.tools.ledger.store import EntryState

ROOT = Path(__file__).parents[2]
UNKNOWN = ["unknown_outcome", None, False]
ORDERED, REPLAYED = [None, "ordered", False], [None, "ordered", True]


def run(folder: Path, how: str, *orders: str, fault: str = "") -> tuple[int, list[Any]]:
    """The exit code of a child that places orders, and what it was answered."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.stores.ledger_child", str(folder), how, *orders],
        env={**os.environ, faults.VARIABLE: fault},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, json.loads(done.stdout or "[]")


def place(folder: Path, *orders: str, how: str = "place") -> list[Any]:
    return asyncio.run(place_all(folder, how, list(orders)))


DEATHS = {
    "before the claim is durable": ("place", "ledger.claim.before_commit=kill", []),
    "after the claim": ("place", "ledger.claim.after_commit=kill", []),
    "in the handler, before the effect": ("die before", "", []),
    "in the handler, after the effect": ("die after", "", ["o"]),
    "after the handler, before done": ("place", "ledger.settle.before_commit=kill", ["o"]),
    "after done": ("place", "ledger.settle.after_commit=kill", ["o"]),
}
ANSWERS = {"before the claim is durable": ORDERED, "after done": REPLAYED}


@pytest.mark.parametrize("death", DEATHS)
def test_the_next_process_is_told_what_is_known_and_nothing_runs_twice(death: str, tmp_path: Path) -> None:
    how, fault, taken = DEATHS[death]
    code, answers = run(tmp_path, how, "o", fault=fault)
    assert (code, answers) == (-signal.SIGKILL, [])
    assert Book(tmp_path).orders() == taken
    expected = ANSWERS.get(death, UNKNOWN)
    assert run(tmp_path, "place", "o")[1] == [expected]
    assert place(tmp_path, "o", "other") == [expected if expected != ORDERED else REPLAYED, ORDERED]
    assert Book(tmp_path).orders() == [*(taken if expected != ORDERED else ["o"]), "other"]


@pytest.mark.parametrize("death", [death for death in DEATHS if death not in ANSWERS])
def test_a_tool_that_finds_out_tells_the_next_process_what_happened(death: str, tmp_path: Path) -> None:
    how, fault, taken = DEATHS[death]
    run(tmp_path, how, "o", fault=fault)
    answers = run(tmp_path, "find out", "o", "o")[1]
    if taken:
        assert answers == [[None, "was ordered", False], [None, "was ordered", True]]
    else:
        assert answers == [["execution", None, False], ORDERED]
    assert Book(tmp_path).orders() == ["o"]


def test_a_doubt_can_be_listed_and_ended_by_hand(tmp_path: Path) -> None:
    run(tmp_path, "die before", "o")
    with SqliteEffectLedger(tmp_path / "ledger.db") as ledger:
        (slot,) = ledger.in_doubt()
        assert slot.key == f"session:{NAME}:{compute_params_hash({'order_id': 'o', 'amount': 1})}"
        assert slot == LedgerSlot("", NAME, slot.key)
        assert ledger.invalidate(slot.key)
    assert place(tmp_path, "o") == [ORDERED]


def test_others_see_a_death_at_once(tmp_path: Path) -> None:
    """Not only who opens the ledger after it, and not only after a while."""
    with SqliteEffectLedger(tmp_path / "ledger.db") as ledger:
        run(tmp_path, "die after", "o")
        assert len(ledger.in_doubt()) == 1
        assert place(tmp_path, "o") == [UNKNOWN]


WAIT = """
import sys, time
from pathlib import Path
from demiurge import SqliteEffectLedger
from demiurge.tools import LedgerSlot
ledger = SqliteEffectLedger(Path(sys.argv[1]) / "ledger.db")
ledger.claim(LedgerSlot(*sys.argv[2:]), params_hash="h", ttl_ns=None, now_ns=0)
print("claimed", flush=True)
time.sleep(60)
"""


def test_a_waiter_gets_unknown_outcome_when_the_process_with_the_claim_is_killed(tmp_path: Path) -> None:
    params = {"order_id": "o", "amount": 1}
    slot = LedgerSlot("", NAME, f"session:{NAME}:{compute_params_hash(params)}")
    command = [sys.executable, "-c", WAIT, str(tmp_path), *slot]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "claimed\n"

        async def wait() -> list[Any]:
            waiter = asyncio.create_task(place_all(tmp_path, "place", ["o"]))
            done, _ = await asyncio.wait((waiter,), timeout=0.2)
            assert not done
            child.kill()
            return await waiter

        assert asyncio.run(wait()) == [UNKNOWN]
    assert Book(tmp_path).orders() == []


def test_a_ledger_that_is_closed_while_a_call_runs_leaves_a_doubt(tmp_path: Path) -> None:
    slot = LedgerSlot("", "t", "k")
    first = SqliteEffectLedger(tmp_path / "ledger.db")
    with SqliteEffectLedger(tmp_path / "ledger.db") as second:
        first.claim(slot, params_hash="h", ttl_ns=10**9, now_ns=10**18)
        later = datetime.fromtimestamp(10**9 + 1, UTC)
        assert (second.find(slot, 10**18) is not None, second.prune_expired(later)) == (True, 0)
        first.close()
        first.close()
        doubt = second.find(slot, 10**18 + 10**9 - 1)
        assert doubt is not None
        assert doubt.state is EntryState.IN_DOUBT
        assert (second.prune_expired(later), second.find(slot, 10**18)) == (1, None)


def test_dead_owners_are_swept_away(tmp_path: Path) -> None:
    run(tmp_path, "die after", "o")
    owners = tmp_path / "ledger.db-owners"
    assert len(list(owners.iterdir())) == 1
    with SqliteEffectLedger(tmp_path / "ledger.db") as ledger:
        assert list(owners.iterdir()) == []
        assert len(ledger.in_doubt()) == 1
        ledger.record(idempotency_key="k", tool_name="t", params=None, result=ToolResult("m"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "book",
        "claims-of-ledger.db",
        "ledger.db",
        "ledger.db-owners",
    ]
