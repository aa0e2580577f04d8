"""After a fork, locks are free and what they guard is whole, whatever other threads were at."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from demiurge.values.forks import lock_over_forks, renew_in_child

HEAD = """
import os, signal, sys, threading
from demiurge.values.forks import lock_over_forks, renew_in_child
signal.alarm(30)  # a child that hangs is ended, and seen

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

BUSY = """
lock, shared, stop = lock_over_forks(), [0, 0], threading.Event()

def busy():
    while not stop.is_set():
        with lock:
            shared[0] += 1
            shared[1] += 1

def look():
    with lock:
        return 7 if shared[0] == shared[1] else 8

threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
codes = {forked(look) for _ in range(50)}
stop.set()
for thread in threads:
    thread.join()
with lock:
    sys.exit(codes.pop() if len(codes) == 1 else 98)
"""

RENEWED = """
class Told:
    def __init__(self):
        self.children = 0
        renew_in_child(self.renew)
    def renew(self):
        self.children += 1

told, gone, heard = Told(), Told(), []
renew_in_child(lambda: heard.append(1))
del gone
code = forked(lambda: 10 * told.children + len(heard) + forked(lambda: 10 * told.children + len(heard)))
sys.exit(code if (told.children, heard) == (0, []) else 98)
"""

INSIDE = """
lock = lock_over_forks()
with lock:
    code = forked(lambda: 7 if lock.acquire(blocking=False) else 8)
taken = []
thread = threading.Thread(target=lambda: taken.append(lock.acquire(blocking=False)))
thread.start()
thread.join()
sys.exit(code if taken == [True] else 98)
"""

TWO_AT_ONCE = """
locks = [lock_over_forks() for _ in range(20)]
codes = []
threads = [threading.Thread(target=lambda: codes.extend(forked(lambda: 7) for _ in range(10))) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(7 if codes == [7] * 30 else 98)
"""


def exit_code(script: str) -> int:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", HEAD + script], timeout=60, check=False).returncode


def test_a_child_finds_a_lock_free_and_what_it_guards_whole() -> None:
    assert exit_code(BUSY) == 7


def test_a_forked_child_renews_the_guarded_state_of_other_threads_and_the_parent_does_not() -> None:
    assert exit_code(RENEWED) == 11 + 22


def test_a_fork_inside_a_lock_of_its_own_thread_does_not_wait_for_itself() -> None:
    assert exit_code(INSIDE) == 7


def test_threads_that_fork_at_once_do_not_wait_for_each_other() -> None:
    assert exit_code(TWO_AT_ONCE) == 7


def test_nothing_is_kept_alive() -> None:
    class Thing:
        def __init__(self) -> None:
            self.lock = lock_over_forks()
            renew_in_child(self.renew)

        def renew(self) -> None:
            return

    thing = Thing()
    gone, lock = weakref.ref(thing), weakref.ref(thing.lock)
    del thing
    gc.collect()
    assert gone() is None
    assert lock() is None
