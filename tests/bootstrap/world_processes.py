"""Processes that have a world open (`world_process`), as a test drives them."""

from __future__ import annotations

import itertools
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["WorldProcess", "world_process"]

ROOT = Path(__file__).parents[2]
LONGEST_S = 60.0


class Refused(Exception):
    """A process answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class WorldProcess:
    """One process. `begin` asks it for something, `end` waits for the answer, and `ask` does both."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child, self._numbers = child, itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any] | None]] = {}
        self._lock, self._gone = threading.Lock(), False
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.child.pid

    def begin(self, do: str, **given: Any) -> int:
        assert self.child.stdin is not None
        number = next(self._numbers)
        try:
            self.child.stdin.write(json.dumps({"id": number, "do": do, **given}) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # `end` raises EOFError
        return number

    def end(self, number: int) -> Any:
        """Returns the result. Raises Refused, and EOFError if the process was killed."""
        answer = self._queue(number).get(timeout=LONGEST_S)
        if answer is None:
            raise EOFError
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["result"]

    def is_done(self, number: int) -> bool:
        return not self._queue(number).empty()

    def ask(self, do: str, **given: Any) -> Any:
        return self.end(self.begin(do, **given))

    def leave(self) -> None:
        """Lets the process close the world and end."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        self.child.wait(LONGEST_S)

    def _queue(self, number: int) -> queue.Queue[dict[str, Any] | None]:
        with self._lock:
            if number not in self._answers:
                self._answers[number] = queue.Queue()
                if self._gone:
                    self._answers[number].put(None)
            return self._answers[number]

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            answer = json.loads(line)
            self._queue(answer["id"]).put(answer)
        with self._lock:
            self._gone = True
            for waiting in self._answers.values():
                waiting.put(None)


@contextmanager
def world_process(folder: Path, kind: str, url: str = "", **more: Any) -> Iterator[WorldProcess]:
    """A process of this kind that has the world in `folder` open. Raises EOFError if it could not open it."""
    words = [sys.executable, "-m", "tests.bootstrap.world_process", str(folder), kind, url, json.dumps(more)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        process = WorldProcess(child)
        try:
            process.end(0)
            yield process
        finally:
            child.kill()
