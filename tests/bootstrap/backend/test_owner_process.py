"""An owner that does not answer is judged by what the system says of its process, not by the time alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from demiurge.bootstrap.backend.owner_process import BUSY_S, IDLE_S, OwnerProcess, ProcessLook, look_at
from demiurge.stores.lock import world_lock
from demiurge.testing import FrozenClock

SPINS = "print('spins', flush=True)\nwhile True: pass"


@dataclass
class Owner:
    """A process whose state a test sets, and which is watched by a clock that a test moves."""

    state: str = "S"
    ticks: int = 5

    def look(self, pid: int) -> ProcessLook | None:
        return ProcessLook(self.state, self.ticks) if self.state else None


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose lock is held, and names this process."""
    with world_lock(tmp_path):
        yield tmp_path


def silent_after(owner: Owner, folder: Path, seconds: float, *, works: bool = False) -> tuple[bool, str]:
    """Returns whether the owner counts as silent when it has not answered for so long, and what is said then."""
    clock = FrozenClock()
    process = OwnerProcess(folder, clock, owner.look)
    is_silent = process.is_silent()
    while not is_silent and seconds > 0:
        clock.advance(min(1.5, seconds))
        seconds -= 1.5
        owner.ticks += works
        is_silent = process.is_silent()
    return is_silent, process.sentence()


def test_a_stopped_owner_is_known_at_once(folder: Path) -> None:
    for state in "Tt":
        is_silent, said = silent_after(Owner(state), folder, 0)
        assert is_silent
        assert "it is stopped" in said
        assert f"`kill -CONT {os.getpid()}`" in said


def test_an_owner_at_work_is_waited_for_and_nobody_is_told_to_kill_it(folder: Path) -> None:
    """On a busy machine a process waits for a processor, for a disk, or works slowly."""
    for owner, works in ((Owner("R"), False), (Owner("D"), False), (Owner("S"), True)):
        is_silent, _ = silent_after(owner, folder, BUSY_S - 2, works=works)
        assert not is_silent, owner
        is_silent, said = silent_after(owner, folder, BUSY_S + 2, works=works)
        assert is_silent, owner
        assert "it may be busy" in said
        assert "kill" not in said


def test_an_owner_that_does_nothing_may_hang(folder: Path) -> None:
    assert not silent_after(Owner("S"), folder, IDLE_S - 2)[0]
    is_silent, said = silent_after(Owner("S"), folder, IDLE_S + 2)
    assert is_silent
    assert "has used no processor time for 1" in said
    assert f"`kill -KILL {os.getpid()}`" in said


def test_only_the_silence_is_known_if_the_system_does_not_say_more(folder: Path) -> None:
    is_silent, said = silent_after(Owner(""), folder, IDLE_S + 2)
    assert is_silent
    assert "it has not answered yet" in said
    assert "kill" not in said


def test_an_answer_begins_the_watch_anew(folder: Path) -> None:
    clock, owner = FrozenClock(), Owner("S")
    process = OwnerProcess(folder, clock, owner.look)
    for _ in range(3):
        assert not process.is_silent()
        clock.advance(IDLE_S - 1)
        process.answered()


def test_a_lock_that_names_nobody_says_nothing_of_a_process(tmp_path: Path) -> None:
    process = OwnerProcess(tmp_path, FrozenClock(), Owner("R").look)
    assert process.is_silent()
    assert process.sentence().startswith("Another process")


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not say what a process does")
def test_the_state_of_a_real_process_is_read() -> None:
    with subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE) as spinning:
        assert spinning.stdout is not None
        spinning.stdout.readline()
        first = look_at(spinning.pid)
        assert first is not None
        assert first.state == "R"
        os.kill(spinning.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, spinning.pid, os.WSTOPPED | os.WNOWAIT)
        stopped = look_at(spinning.pid)
        assert stopped is not None
        assert stopped.state == "T"
        assert stopped.ticks >= first.ticks
        spinning.kill()
    assert look_at(spinning.pid) is None
