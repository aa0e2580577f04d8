"""A process that has imported everything, and forks others: each starts in milliseconds and can be killed.

Run as `python -m demiurge.testing.crash.fork_server`. A line of JSON on stdin is `{"load": target}`, answered by
`{"loaded": null}` or by a traceback; or `{"start": number, "target", "arguments", "errors"}`, answered by `{"number",
"pid"}` and, when the process has ended, by `{"number", "status"}` (below zero: the signal); or `{"imports": modules}`,
so that no process has to import them. A target is `{"module",
"file", "function"}`; its function is called with the arguments by name, and may return an exit status. `errors` is the
file for what the process writes on stderr.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

__all__ = ["BROKEN", "function_of", "main"]

BROKEN: Final = 70
"""The status of a process whose function raised an error."""
AS_MODULE: Final = "__crash_main__"
"""The name under which the program that was started is imported here."""


def function_of(target: Mapping[str, str]) -> Callable[..., Any]:
    """Returns the function of a target, whose module is imported by its name, or from its file."""
    name, file = target["module"], target.get("file")
    if name == "__main__":
        name = AS_MODULE
    module = sys.modules.get(name)
    if module is None:
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            module = None
        if file and (module is None or not _is_from(module, file)):
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    found: Any = module
    for part in target["function"].split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _is_from(module: Any, file: str) -> bool:
    own = getattr(module, "__file__", None)
    return own is not None and os.path.realpath(own) == os.path.realpath(file)


def _live(command: Mapping[str, Any]) -> int:
    """A forked process from its first line to its exit status."""
    errors = os.open(command["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    for number, end in ((0, null), (1, null), (2, errors)):
        os.dup2(end, number)
    try:
        return int(function_of(command["target"])(**command["arguments"]) or 0)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last one to see it
        traceback.print_exc()
        sys.stderr.flush()
        return BROKEN


def _loaded(target: Mapping[str, str]) -> str | None:
    try:
        function_of(target)
    except BaseException:  # noqa: BLE001 - it is the user's module
        return traceback.format_exc()
    return None


class _Server:
    """The loop that obeys commands and reports the ends of processes."""

    def __init__(self) -> None:
        self._running: dict[int, int] = {}
        self._wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._out = os.dup(1)
        os.dup2(2, 1)  # what the imported modules print is no answer

    def serve(self) -> None:
        self._tell(ready=True)
        buffered = b""
        while True:
            ready, _, _ = select.select([0, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if 0 in ready:
                read = os.read(0, 1 << 16)
                if not read:
                    break
                *lines, buffered = (buffered + read).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)

    def _obey(self, command: dict[str, Any]) -> None:
        if "load" in command:
            self._tell(loaded=_loaded(command["load"]))
            return
        if "imports" in command:
            for name in command["imports"]:
                with suppress(Exception):  # whoever needs it will say so
                    import_module(name)
            return
        pid = os.fork()
        if pid == 0:
            status = BROKEN
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.close(self._out)
                status = _live(command)
            finally:
                os._exit(status)
        self._running[pid] = command["start"]
        self._tell(number=command["start"], pid=pid)

    def _reap(self) -> None:
        for pid in list(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._tell(number=self._running.pop(pid), status=os.waitstatus_to_exitcode(status))

    def _tell(self, **values: Any) -> None:
        os.write(self._out, json.dumps(values).encode() + b"\n")


def main() -> None:
    _Server().serve()


if __name__ == "__main__":
    main()
