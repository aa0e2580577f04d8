"""An engine that is left running for some minutes, so that the next process neither loads the model nor reads the
conversation again.

Three files lie beside the kept prompts. `engine.json` says where the engine listens, and with which key; `engine.lock`
is locked by the process that uses the engine; `engine.alive` is locked by the engine itself, so a dead engine's address
is never asked. The engine (`serve.py`) ends when nobody has used it for its time, or when `engine.json` names another
engine or none. Only the user can open the folder; in a folder that others can open, no engine is left running.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from demiurge.errors import Conflict

__all__ = ["STAYS", "EngineLease", "LeftEngine", "is_alive", "seconds_to_stay", "stop_left_engine"]

STAYS: Final = "DEMIURGE_LOCAL_MODEL_STAYS"
"""Environment variable: how many seconds the engine goes on after the last process that used it; 0: not at all."""

DEFAULT_S: Final = 300.0
_HEALTH_S: Final = 2.0
_STEP_S: Final = 0.05
_TRIES: Final = 4
_STEPS_TO_END: Final = 100


def seconds_to_stay(environment: Mapping[str, str]) -> float:
    """Returns how many seconds an engine goes on after its last user: 300 if the environment does not say it, and 0,
    which leaves no engine, for a text that is no number."""
    try:
        return max(0.0, float(environment.get(STAYS, DEFAULT_S)))
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True)
class LeftEngine:
    """An engine as `engine.json` describes it. `made_for` names the program and the model; `context` is in tokens;
    `known_prompt` names the fixed part of a prompt that the engine has read, "" for none."""

    base_url: str
    api_key: str
    context: int
    made_for: str
    known_prompt: str = ""


class EngineLease:
    """The right of one process to use the engine of a folder, and to leave one there. It ends with the process."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor = descriptor

    @classmethod
    def taken(cls, folder: Path) -> EngineLease | None:
        """Returns the lease of a folder; None while another process has it, if not the user alone can open the folder,
        and where files can't be locked."""
        try:
            found = folder.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                return None
            descriptor = os.open(folder / "engine.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        for _ in range(_TRIES):  # the engine itself locks the file for a moment, to see whether it is used
            with suppress(OSError):  # also where a file system has no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(folder, descriptor)
            time.sleep(_STEP_S)
        os.close(descriptor)
        return None

    def engine(self) -> LeftEngine | None:
        """Returns the engine that `engine.json` describes, if it runs."""
        with suppress(OSError, ValueError, TypeError):
            known = LeftEngine(**json.loads((self.folder / "engine.json").read_text("utf-8")))
            if is_alive(self.folder) and _answers(known.base_url):
                return known
        return None

    def note_known_prompt(self, name: str) -> None:
        """Writes the name of the fixed part of a prompt that the engine has read into `engine.json`. Raises OSError."""
        known = self.engine()
        if known is not None and known.known_prompt != name:
            part = self.folder / "engine.json.part"
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(json.dumps(asdict(replace(known, known_prompt=name))))
            part.replace(self.folder / "engine.json")

    def end_engine(self) -> bool:
        """Has the engine of the folder end, and waits for that for 5 seconds. Returns whether no engine runs."""
        with suppress(OSError):
            (self.folder / "engine.json").unlink(missing_ok=True)
        for _ in range(_STEPS_TO_END):
            if not is_alive(self.folder):
                return True
            time.sleep(_STEP_S)
        return False

    def give_back(self) -> None:
        """Ends the lease: the time of the engine begins."""
        os.close(self._descriptor)


def is_alive(folder: Path) -> bool:
    """Returns whether an engine runs that was left in this folder."""
    try:
        descriptor = os.open(folder / "engine.alive", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def stop_left_engine(folder: Path) -> bool:
    """Ends the engine that was left in a folder. Returns whether there was one. Raises Conflict (`engine_in_use`) while
    a process uses it, or if it does not end."""
    if not is_alive(folder):
        return False
    lease = EngineLease.taken(folder)
    if lease is None:
        raise Conflict("Another process uses the local model now: its engine ends after it.", code="engine_in_use")
    try:
        if not lease.end_engine():
            raise Conflict("The engine of the local model does not end: end its process.", code="engine_in_use")
    finally:
        lease.give_back()
    return True


def _answers(base_url: str) -> bool:
    """Returns whether an engine answers at an address on this machine within 2 seconds; no other address is asked."""
    place = urlsplit(base_url)
    if place.hostname != "127.0.0.1" or place.port is None:
        return False
    with closing(HTTPConnection(place.hostname, place.port, timeout=_HEALTH_S)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
