"""A process that was forked off goes on with a ledger in memory: it hangs on nothing that stayed in the parent."""

from __future__ import annotations

import subprocess
import sys

HEAD = """
import asyncio, os, signal, sys, threading
from demiurge import EffectLedger, IdempotencyConfig, InMemoryApprovals, ToolPolicy, ToolRunner, tool
from demiurge.tools import RunSummary
from demiurge import Budget, BudgetTracker
from demiurge.tools import TokenUsage
signal.alarm(30)  # a child that hangs is ended, and seen

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

begun, go, stop = threading.Event(), threading.Event(), threading.Event()

@tool(idempotency=IdempotencyConfig(scope="shop"))
def order(number: int) -> int:
    "Orders."
    if number == 0:
        begun.set()
        go.wait()
    return number

summary, approvals = RunSummary(), InMemoryApprovals()
tracker = BudgetTracker(Budget(max_total_tokens=10**12))
ledger = EffectLedger()
runner = ToolRunner(
    [order],
    policy=ToolPolicy(("order",)),
    ledger=ledger,
    approvals=approvals,
    resources={RunSummary: summary, BudgetTracker: tracker},
)

def call(number):
    return runner.exec_sync("order", {"number": number})

def together(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads
"""

BUSY = """
def busy(seat):
    number = 0
    while not stop.is_set():
        number += 3
        call(number % 600 + seat + 1)
        tracker.record_cumulative(f"e{seat}", TokenUsage(number))
        approvals.pending()
        ledger.in_doubt()

def look():
    runs = call(10**6)
    again = call(10**6)
    tracker.check()
    approvals.pending()
    counted = summary.to_json()
    assert counted["calls"] == sum(each["calls"] for each in counted["outcomes"].values())
    return 7 if runs.ok and not runs.record.replayed and again.record.replayed else 8

threads = together(*[lambda seat=seat: busy(seat) for seat in range(3)])
codes = {forked(look) for _ in range(30)}
stop.set()
for thread in threads:
    thread.join()
sys.exit(codes.pop() if len(codes) == 1 else 98)
"""

CLAIMED = """
def look():
    codes = [call(0).error_code]
    codes.append(asyncio.run(runner.exec("order", {"number": 0})).error_code)
    doubts = len(ledger.in_doubt())
    ledger.clear()
    go.set()
    answers = [call(0), call(0)]
    went_on = [answer.ok for answer in answers] == [True, True] and answers[1].record.replayed
    return 7 if codes == ["unknown_outcome"] * 2 and doubts == 1 and went_on else 8

first, = together(lambda: call(0))
begun.wait()
code = forked(look)
go.set()
first.join()
sys.exit(code if call(0).record.replayed and not ledger.in_doubt() else 98)
"""

WAITING = """
def look():
    ledger.clear()
    begun.clear()
    answers = []
    first, = together(lambda: answers.append(call(0)))
    begun.wait()
    others = together(*[lambda: answers.append(call(0)) for _ in range(3)])
    go.set()
    for thread in (first, *others):
        thread.join()
    return 7 if sorted(answer.record.replayed for answer in answers) == [False, True, True, True] else 8

first, = together(lambda: call(0))
begun.wait()
waiting = together(*[lambda: call(0) for _ in range(3)])
watchers = ledger._watchers._waiting
while sum(len(place) for places in list(watchers.values()) for place in list(places.values())) < 3:
    pass
code = forked(look)
go.set()
for thread in (first, *waiting):
    thread.join()
sys.exit(code)
"""

WATCHED = """
from demiurge.tools import LedgerSlot
from demiurge.tools.ledger.watchers import Watchers

slot, watchers, woken = LedgerSlot("", "order", "k"), Watchers(), []
watchers.add(slot, lambda: woken.append("parent's"), None)

def look():
    watchers.add(slot, lambda: woken.append("child's"), None)
    watchers.wake_next(slot)
    return 7 if woken == ["child's"] else 8

code = forked(look)
watchers.wake_next(slot)
sys.exit(code if woken == ["parent's"] else 98)
"""


def exit_code(script: str) -> int:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", HEAD + script], timeout=60, check=False).returncode


def test_a_fork_while_other_threads_use_the_ledger() -> None:
    assert exit_code(BUSY) == 7


def test_a_call_that_runs_in_the_parent_is_in_doubt_in_the_child() -> None:
    assert exit_code(CLAIMED) == 7


def test_a_forked_child_does_not_wake_waiters_of_the_parent() -> None:
    assert exit_code(WAITING) == 7


def test_a_free_slot_is_news_for_a_watcher_of_the_child() -> None:
    assert exit_code(WATCHED) == 7
