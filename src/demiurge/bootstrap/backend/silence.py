"""Noticing that the process which owns a world does not answer, and telling the user who that is and what to do.

An owner may take long over a call, so the time that a call takes says nothing. When an answer does not come soon, the
owner is asked for a sign of life over another connection: one that works answers that as soon as it gets a processor,
whatever else it does. What the system says of its process decides how long that may take (`owner_process`).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from demiurge.bootstrap.backend.owner_process import OwnerProcess
from demiurge.bootstrap.backend.socket import PING, frame

__all__ = ["PATIENCE_S", "READS", "WAITS", "Silence"]

PATIENCE_S: Final = 1.5
"""The time that an answer may take before the owner is asked for a sign of life, and that this may take before its
process is looked at."""

READS: Final = "This command reads the world's files without it."
WAITS: Final = "This command waits for it; Ctrl-C, twice if need be, ends the wait."


class Silence:
    """Finds out whether the owner of the world in `folder` answers at its socket `path`. `tell` is called with a
    sentence for the user, at most once for calls that read and once for all others. Any thread may use it."""

    def __init__(self, path: Path, folder: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self._path, self._tell, self._owner = path, tell, OwnerProcess(folder)
        self._lock = threading.Lock()
        self._asked: socket.socket | None = None
        self._is_silent = False
        self._told: set[str] = set()

    @property
    def lasts(self) -> bool:
        """True while the owner, once found silent, has not answered. Returns at once."""
        with self._lock:
            return self._is_silent and self._waits(0)

    def begins(self) -> bool:
        """Asks the owner for a sign of life. Returns whether it is silent: it has not given one for longer than its
        process explains. An owner that has gone is not silent."""
        with self._lock:
            if self._waits(PATIENCE_S) or not self._answers():
                self._is_silent = self._owner.is_silent()
            else:
                self._is_silent = False
                self._owner.answered()
            return self._is_silent

    def tell(self, what: str) -> None:
        """Tells the user who is silent, and `what` this process does about it."""
        with self._lock:
            if what in self._told:
                return
            self._told.add(what)
        self._tell(f"{self._owner.sentence()} {what}")

    def close(self) -> None:
        with self._lock:
            if self._asked is not None:
                self._asked.close()
                self._asked = None

    def _answers(self) -> bool:
        """Asks the owner. Returns whether it answered in time, or has gone."""
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        wire.settimeout(PATIENCE_S)
        try:
            wire.connect(str(self._path))
            wire.sendall(frame({"op": PING, "args": []}))
            wire.recv(1)
        except TimeoutError:
            self._asked = wire
            return False
        except BlockingIOError:  # so many wait already that nobody else can
            wire.close()
            return False
        except OSError:
            pass
        wire.close()
        return True

    def _waits(self, longest_s: float) -> bool:
        """Returns True if the owner has not answered the last question for a sign of life, and does not do so within
        `longest_s` seconds."""
        if self._asked is None:
            return False
        self._asked.settimeout(longest_s)
        try:
            self._asked.recv(1)
        except (BlockingIOError, TimeoutError):
            return True
        except OSError:
            pass
        self._asked.close()
        self._asked = None
        return False
