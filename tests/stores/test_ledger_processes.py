"""Threads and processes that make the same call at once: an outside book counts what was done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.stores.ledger_child import Book, result_as_list, shop_tool
from tests.tools.order_shop import NAME, runner_for

from demiurge import SqliteEffectLedger

ROOT = Path(__file__).parents[2]
ORDERS = [str(number) for number in range(6)]


def command(folder: Path, how: str, *orders: str) -> list[str]:
    return [sys.executable, "-m", "tests.stores.ledger_child", str(folder), how, *orders]


def test_eight_threads_place_each_order_once(tmp_path: Path) -> None:
    with SqliteEffectLedger(tmp_path / "ledger.db") as ledger:
        runner = runner_for(shop_tool(tmp_path, "place"), ledger)

        def work(number: int) -> list[Any]:
            calls = [{"order_id": order} for order in ORDERS]
            if number % 2:
                return [result_as_list(runner.exec_sync(NAME, call)) for call in calls]
            return [result_as_list(asyncio.run(runner.exec(NAME, call))) for call in calls]

        with ThreadPoolExecutor(8) as pool:
            answers = [answer for answered in pool.map(work, range(8)) for answer in answered]
    check(tmp_path, answers, 8)


def test_four_processes_place_each_order_once(tmp_path: Path) -> None:
    answers: list[Any] = []
    with ExitStack() as stack:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        children: list[Any] = [
            stack.enter_context(subprocess.Popen(command(tmp_path, "race", *ORDERS), **pipes)) for _ in range(4)
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        for child in children:
            answers += json.loads(child.stdout.readline())
    check(tmp_path, answers, 4)
    assert list((tmp_path / "ledger.db-owners").iterdir()) == []


def check(folder: Path, answers: list[Any], callers: int) -> None:
    """Every call was answered, with what the one that ran did."""
    assert sorted(Book(folder).orders(), key=int) == ORDERS
    assert [answer[:2] for answer in answers] == [[None, "ordered"]] * len(ORDERS) * callers
    assert sum(not replayed for _, _, replayed in answers) == len(ORDERS)


def test_a_ledger_goes_on_in_both_processes_after_a_fork(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command(tmp_path, "fork")[1:]],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    ordered, replayed = [None, "ordered", False], [None, "ordered", True]
    held = [["", "held", f"by the {who}"] for who in ("child", "parent, after", "parent, before")]
    assert json.loads(done.stdout) == {
        "parent before": [ordered],
        "child": [replayed, ordered],
        "doubts in the child": [],
        "parent": [replayed, ordered],
        "doubts in the parent": [],
        "later": [replayed] * 4,
        "doubts later": held,
    }
    assert Book(tmp_path).orders() == ["before", "child", "parent", "alone"]


def test_a_process_that_is_stopped_is_not_dead(tmp_path: Path) -> None:
    """Its claim holds while it does nothing at all."""
    script = (
        "import os, signal, sys; from demiurge import SqliteEffectLedger; from demiurge.tools import LedgerSlot\n"
        "ledger = SqliteEffectLedger(sys.argv[1])\n"
        "ledger.claim(LedgerSlot('', 't', 'k'), params_hash='h', ttl_ns=None, now_ns=0)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    )
    path = str(tmp_path / "ledger.db")
    with subprocess.Popen([sys.executable, "-c", script, path]) as child:
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        with SqliteEffectLedger(path) as ledger:
            assert ledger.in_doubt() == ()
            child.send_signal(signal.SIGKILL)
            child.send_signal(signal.SIGCONT)
            child.wait()
            assert len(ledger.in_doubt()) == 1
