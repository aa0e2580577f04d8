"""The process that owns a world and has not answered: the operating system says whether it is stopped, at work, or
asleep.

A process on a busy machine may need long for an answer. A stopped one is known at once by its state. One that uses
processor time, or waits for a processor or a disk, is at work, and gets much longer than one that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from demiurge.errors import Unavailable
from demiurge.stores.lock import world_lock
from demiurge.values.clock import Clock, SystemClock

__all__ = ["BUSY_S", "IDLE_S", "READERS", "OwnerProcess", "ProcessLook", "look_at"]

IDLE_S: Final = 10.0
"""How long an owner may leave a question unanswered and use no processor time."""

BUSY_S: Final = 60.0
"""How long an owner that is at work may leave a question unanswered."""

READERS: Final = "Another process reads the world in {folder}, and no process can own it meanwhile: close it there."

_STOPPED: Final = frozenset("Tt")
_AT_WORK: Final = frozenset("RD")


@dataclass(frozen=True, slots=True)
class ProcessLook:
    """The state of a process, a letter of proc(5), and the processor time that it has used, in clock ticks."""

    state: str
    ticks: int


def look_at(pid: int) -> ProcessLook | None:
    """Returns the state of a process; None if it has gone, or if this system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        return ProcessLook(fields[0], int(fields[11]) + int(fields[12]))
    except (OSError, ValueError, IndexError):
        return None


class OwnerProcess:
    """Judges the silence of the process that owns the world in `folder`, from the first `is_silent` on. `answered`
    begins anew."""

    def __init__(
        self,
        folder: Path,
        clock: Clock | None = None,
        look: Callable[[int], ProcessLook | None] = look_at,
    ) -> None:
        self._folder, self._clock, self._look = folder, clock if clock is not None else SystemClock(), look
        self._since_ns: int | None = None
        self._worked_ns = 0
        self._ticks: int | None = None

    def answered(self) -> None:
        self._since_ns = self._ticks = None

    def is_silent(self) -> bool:
        """Returns whether the owner, which has not answered, is stopped or has had the time to answer."""
        pid, now_ns = _owner(self._folder), self._clock.monotonic_ns()
        if pid is None:
            return True
        if self._since_ns is None:
            self._since_ns = self._worked_ns = now_ns
        found = self._look(pid)
        if found is not None and found.state in _STOPPED:
            return True
        if found is not None and (found.state in _AT_WORK or self._ticks not in (None, found.ticks)):
            self._worked_ns = now_ns
        self._ticks = found.ticks if found is not None else None
        return now_ns - self._worked_ns >= IDLE_S * 1e9 or now_ns - self._since_ns >= BUSY_S * 1e9

    def sentence(self) -> str:
        """Returns a sentence for the user: which process owns the world and does not answer, or that others read it,
        what is known of it, and what to do."""
        lock = self._folder / "lock"
        if _has_only_readers(self._folder):
            return READERS.format(folder=self._folder)
        pid, since = _owner(self._folder), ""
        with suppress(OSError):
            since = datetime.fromtimestamp(lock.stat().st_mtime, UTC).strftime(" since %Y-%m-%d %H:%M:%S UTC")
        if pid is None:
            return f"Another process has had the world in {self._folder} open{since}, and it does not answer: end it."
        return f"Process {pid} has had the world in {self._folder} open{since}, and {self._known(pid)}"

    def _known(self, pid: int) -> str:
        found = self._look(pid)
        if found is not None and found.state in _STOPPED:
            return (
                f"it is stopped, so it does not answer: let it go on with `kill -CONT {pid}`, or end it with "
                f"`kill -KILL {pid}`; what it has saved stays."
            )
        now_ns = self._clock.monotonic_ns()
        idle_s = (now_ns - self._worked_ns) / 1e9 if self._since_ns is not None else 0.0
        if found is not None and idle_s >= IDLE_S:
            return (
                f"it has not answered and has used no processor time for {idle_s:.0f} s. It may hang: `kill -KILL "
                f"{pid}` ends it; what it has saved stays."
            )
        return "it has not answered yet. It is not stopped, so it may be busy: wait, or end it in the way it was begun."


def _owner(folder: Path) -> int | None:
    """Returns the process id that the lock file names."""
    try:
        text = (folder / "lock").read_bytes()[:20].decode("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _has_only_readers(folder: Path) -> bool:
    """Returns whether no process owns the lock; its file may still name an earlier owner."""
    lock = world_lock(folder)
    try:
        return lock.acquire_shared()
    except Unavailable:
        return False
    finally:
        lock.release()
