"""The progress that a running handler reports with `context.progress`: events for watchers, never records.

A handler may report from its worker thread, from the event loop or from a thread of its own. Events are emitted on
the thread that runs the call, in order, at most ten a second; of the reports between two events only the newest
counts. The newest report of a call is always emitted, at the latest when the handler ends. Reports after that do
nothing, for example those of a handler that exceeded its time limit and was abandoned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias, get_args

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.hidden_text import spell_hidden
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.events import LogLevel, ToolLog, ToolProgress
from demiurge.tools.execution.secret_mask import SecretMask
from demiurge.values.canonical_json import MAX_INTEGER
from demiurge.values.clock import Clock
from demiurge.values.environment import process_environment

__all__ = ["MAX_PROGRESS_MESSAGE", "ProgressReports", "check_log", "check_progress"]

MAX_LOGS: Final = 200
"""How many lines of one call's log are shown; the last one says that there were more."""

MAX_LOG_TEXT: Final = 1000
MAX_PROGRESS_MESSAGE: Final = 200
"""In characters. A longer message is cut and ends in `…`."""

_INTERVAL_NS: Final = 100_000_000

_Values: TypeAlias = tuple[float, float | None, str]


def check_progress(done: float, total: float | None, message: str) -> None:
    """Raises InvalidValue unless `done` and `total` are finite numbers of at least 0 and `message` is text."""
    for name, number in (("done", done), ("total", total)):
        if number is not None or name == "done":
            _check_number(name, number)
    if not isinstance(message, str):
        raise InvalidValue("The message of a progress report must be text (str).", path="message")


def check_log(level: str, text: str, logger: str) -> None:
    """Raises InvalidValue for a level that there is not, and for what is no text."""
    if level not in get_args(LogLevel):
        raise InvalidValue(f"The level of a log is one of {', '.join(get_args(LogLevel))}.", path="level")
    if not isinstance(text, str) or not isinstance(logger, str):
        raise InvalidValue("What a handler logs must be text (str).", path="text")


def _check_number(name: str, number: object) -> None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not 0 <= number <= MAX_INTEGER:  # type: ignore[operator]  # false for NaN
        raise InvalidValue("A progress report counts with finite numbers from 0 to 2^53 - 1.", path=name)


class ProgressReports:
    """The reports of one call. `report` may be called from any thread; `begin` and `end` on the thread that runs the
    call."""

    __slots__ = (
        "_begun",
        "_clock",
        "_emit",
        "_ended",
        "_logged",
        "_loop",
        "_mask",
        "_newest",
        "_next_ns",
        "_scheduled",
        "_secrets",
        "_thread",
        "_timer",
        "_tool_call_id",
    )

    def __init__(self, tool_call_id: str, emit: Callable[[ToolProgress | ToolLog], None], clock: Clock) -> None:
        self._tool_call_id, self._emit, self._clock = tool_call_id, emit, clock
        self._begun = self._ended = self._scheduled = False
        self._newest: _Values | None = None
        self._logged = 0
        self._next_ns: int | None = None
        self._thread = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._secrets: tuple[Secret, ...] = ()
        self._mask: SecretMask | None = None

    def begin(self, secrets: tuple[Secret, ...]) -> None:
        """Accepts reports from now on. `secrets` are masked in messages, like those of the environment."""
        self._secrets, self._thread, self._begun = secrets, threading.get_ident(), True
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def end(self) -> None:
        """Emits the newest report if it was not emitted yet, and ignores later ones."""
        if self._timer is not None:
            self._timer.cancel()
        self._emit_newest()
        self._ended, self._loop, self._timer = True, None, None

    def report(self, done: float, total: float | None, message: str) -> None:
        """Takes a report of the handler. Raises InvalidValue while the handler runs, nothing afterwards."""
        if self._ended or not self._begun:
            return
        check_progress(done, total, message)
        self._newest = (done, total, message)
        if threading.get_ident() == self._thread:
            self._deliver()
            return
        loop = self._loop
        if loop is not None and not self._scheduled:
            self._scheduled = True
            try:
                loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: nobody watches any more
                return

    def log(self, level: LogLevel, text: str, logger: str) -> None:
        """Takes a line of the handler's log. Raises InvalidValue while the handler runs, nothing afterwards."""
        if self._ended or not self._begun:
            return
        check_log(level, text, logger)
        self._logged += 1
        if self._logged > MAX_LOGS:
            return
        line = ToolLog(self._tool_call_id, level, self._public(text, MAX_LOG_TEXT), self._public(logger, 100))
        if self._logged == MAX_LOGS:
            line = ToolLog(self._tool_call_id, "notice", "Further lines of this call's log are left out.")
        if threading.get_ident() == self._thread:
            self._emit(line)
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody watches any more
                self._loop.call_soon_threadsafe(self._emit_line, line)

    def _emit_line(self, line: ToolLog) -> None:
        if not self._ended:
            self._emit(line)

    def _deliver(self) -> None:
        """Emits the newest report now, or when the interval since the last event is over."""
        self._scheduled = False
        if self._ended or self._timer is not None:
            return
        wait_ns = 0 if self._next_ns is None else self._next_ns - self._clock.monotonic_ns()
        if wait_ns <= 0:
            self._emit_newest()
        elif self._loop is not None:
            self._timer = self._loop.call_later(min(wait_ns, _INTERVAL_NS) / 1e9, self._emit_late)

    def _emit_late(self) -> None:
        self._timer = None
        self._emit_newest()

    def _emit_newest(self) -> None:
        newest, self._newest = self._newest, None
        if newest is None or self._ended:
            return
        self._next_ns = self._clock.monotonic_ns() + _INTERVAL_NS
        done, total, message = newest
        self._emit(ToolProgress(self._tool_call_id, done, total, self._public(message)))

    def _public(self, message: str, most: int = MAX_PROGRESS_MESSAGE) -> str:
        """Returns a message in one line, without secrets and hidden characters."""
        if not message:
            return ""
        if self._mask is None:
            self._mask = SecretMask(process_environment(), self._secrets)
        shown = " ".join(spell_hidden(self._mask(str(message)), _code_point).split())
        return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _code_point(character: str) -> str:
    return f"<U+{ord(character):04X}>"
