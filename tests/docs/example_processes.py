"""Runs programs in processes of their own that need not import Demiurge each: they are forked from one that did.

As a program it reads lines of JSON, `{"folder", "name", "environment", "out", "err"}`, runs `name` in that folder with
its output in the two files, and prints the exit status.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Examples", "Ran", "started_examples"]


class Ran(NamedTuple):
    status: int
    out: str
    err: str


class Examples:
    """The process that the others are forked from."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, name: str, environment: Mapping[str, str]) -> Ran:
        """Runs `folder/name` there and waits for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        out, err = folder / ".out", folder / ".err"
        asked = {
            "folder": str(folder),
            "name": name,
            "environment": dict(environment),
            "out": str(out),
            "err": str(err),
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ran(int(self._process.stdout.readline()), out.read_text("utf-8"), err.read_text("utf-8"))


@contextmanager
def started_examples() -> Iterator[Examples]:
    """Starts the process in which every warning is an error, and ends it."""
    command = [sys.executable, "-W", "error", __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Examples(process)
        assert process.stdin is not None
        process.stdin.close()


def _live(asked: Mapping[str, Any]) -> int:
    """The life of a forked process, until its exit status."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    null = os.open(os.devnull, os.O_RDONLY)
    written = [os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")]
    for number, opened in enumerate([null, *written]):
        os.dup2(opened, number)
    sys.path[0], sys.argv = asked["folder"], [asked["name"]]
    try:
        runpy.run_path(asked["name"], run_name="__main__")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else left.code is not None
    except BaseException:  # noqa: BLE001 - as the interpreter itself shows it
        traceback.print_exc()
        return 1
    return 0


def _serve() -> None:
    import demiurge.bootstrap  # noqa: F401 - so that no forked process has to

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = _live(json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
