"""`crash_points`: kills a call, or a chat's turn, at each point at which it can be cut off.

Each run has a folder of its own: a process makes the call and is killed, a second one opens the same world, lets it
settle and asks for the outcome. One run without a kill tells which points there are, and what is to be expected.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from demiurge.errors import InvalidValue, UsageError
from demiurge.testing.crash.fork_client import ForkedProcess, ForkServer, target_of
from demiurge.testing.crash.outside import Outside
from demiurge.testing.crash.report import CrashReport, Kill, Verdict
from demiurge.testing.in_memory import temporary_folder

__all__ = ["crash_points"]

CHILD: Final = {"module": "demiurge.testing.crash.child", "function": "live"}
AT_ONCE: Final = 4
"""How many runs take place at the same time at most."""
SHOWN: Final = 2000
"""How many characters of a process's errors are shown."""


def crash_points(
    build: Callable[[Outside], Any],
    *,
    call: tuple[str, Mapping[str, Any]] | None = None,
    message: str | None = None,
    effects: Callable[[Outside], Iterable[str]] = Outside.done,
    in_runner: bool = False,
    points: Sequence[str] = ("*",),
    hits: int | None = None,
    parallel: int | None = None,
    timeout_s: float = 60.0,
    progress: Callable[[int, int], object] | None = None,
) -> CrashReport:
    """Kills a call (`kill -9`) at every point that it passes, goes on with it in a new process, and returns what became
    of its effects.

    `build` is a function at the top level of a module: it gets the Outside of its run and returns the tools, or a
    mapping with `tools` and other arguments of `World.open` (`policy`, `resources`, `model`, ...). By default the
    policy allows the tools. It is called in each process. `call` is the tool and its arguments; or `message` is what
    is said in a chat, whose `model` is then given by `build`, such as `ScriptedModel([...], by_history=True)`. Calls
    that wait for a person are approved. `effects` returns the effects that took place, one text for each.

    The points are Demiurge's own (`demiurge.faults.POINTS`), those that a tool marks with `fault_point`, and the one
    just after each `Outside.did`. `points` chooses among their names, by patterns (`mark.*`); `hits` is how many hits
    of each point are killed, the first ones, None for all. With `in_runner` the call is made by a ToolRunner with a
    SqliteEffectLedger instead of a world, and after the kill it is made again.

    `parallel`: how many runs take place at once, by default one for each processor, at most 4. `timeout_s` bounds each
    process. `progress` is called with the number of finished and of all runs; by default it is shown on stderr, if that
    is a terminal. Raises UsageError for a function that other processes can't import, and if the run without a kill
    fails; InvalidValue for the other arguments."""
    if (call is None) == (message is None) or (in_runner and call is None):
        raise InvalidValue("give a call, or a message for a chat of a world", path="call")
    if timeout_s <= 0 or (hits is not None and hits < 1) or (parallel is not None and parallel < 1):
        raise InvalidValue("hits and parallel must be at least 1, timeout_s above 0", path="hits")
    tell = progress if progress is not None else _show
    target = target_of(build)
    with temporary_folder() as folder, ForkServer() as server:
        server.load(CHILD)
        server.load(target)
        asked = {
            "build": target,
            "call": list(call) if call is not None else None,
            "message": message,
            "in_runner": in_runner,
        }
        runs = _Runs(server, folder, asked, effects, timeout_s)
        passed, base = runs.undisturbed()
        kills = _chosen(passed, points, hits)
        with ThreadPoolExecutor(parallel or min(AT_ONCE, os.cpu_count() or 1)) as pool:
            done = []
            tell(0, len(kills))
            for kill in pool.map(lambda at: runs.killed(at[0], at[1], base), kills):
                done.append(kill)
                tell(len(done), len(kills))
        return CrashReport(dict(base.effects), tuple(done))


def _chosen(passed: Sequence[str], points: Sequence[str], hits: int | None) -> list[tuple[str, int]]:
    """Returns the points to kill at, with their hits, in the order in which they were passed."""
    seen: Counter[str] = Counter()
    chosen = []
    for name in passed:
        seen[name] += 1
        if (hits is None or seen[name] <= hits) and any(fnmatchcase(name, pattern) for pattern in points):
            chosen.append((name, seen[name]))
    return chosen


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The end of a run: what its last process was told, and what took place outside."""

    effects: Counter[str]
    ok: bool
    code: str | None
    message: str
    reading: bool
    problem: str | None


class _Runs:
    def __init__(
        self,
        server: ForkServer,
        folder: Path,
        asked: Mapping[str, Any],
        effects: Callable[[Outside], Iterable[str]],
        timeout_s: float,
    ) -> None:
        self._server, self._folder, self._asked = server, folder, asked
        self._effects, self._timeout_s = effects, timeout_s

    def undisturbed(self) -> tuple[list[str], _Outcome]:
        """Returns the points that the call passes, and its outcome. Raises UsageError if it fails."""
        with self._new_folder() as folder:
            process = self._start(folder, "first", passed=str(folder / "passed"))
            if (problem := self._problem(process, folder / "first", {0})) is not None:
                raise UsageError(f"The run without a kill failed: {problem}")
            outcome = self._outcome(folder, "first")
            if not outcome.ok:
                raise UsageError(f"The run without a kill ended with {outcome.code}: {outcome.message}")
            noted = json.loads((folder / "passed").read_text("utf-8"))
            self._server.imports(noted["modules"])
            return noted["points"], outcome

    def killed(self, point: str, hit: int, base: _Outcome) -> Kill:
        """Returns what became of a kill."""
        with self._new_folder() as folder:
            first = self._start(folder, "first", fault=f"{point}=kill@{hit}")
            problem = self._problem(first, folder / "first", {0, -signal.SIGKILL})
            if problem is None:
                second = self._start(folder, "second")
                problem = self._problem(second, folder / "second", {0})
            if problem is not None:
                found = Counter(self._effects(Outside(folder / "outside")))
                return Kill(point, hit, "broken", dict(found), detail=problem, killed=first.status != 0)
            outcome = self._outcome(folder, "second")
            detail = outcome.problem or outcome.message
            verdict = _verdict(outcome, base)
            return Kill(point, hit, verdict, dict(outcome.effects), outcome.code, detail, first.status != 0)

    def _start(self, folder: Path, name: str, *, fault: str = "", passed: str = "") -> ForkedProcess:
        ended = {"folder": str(folder), "ended": str(folder / f"{name}.json"), "fault": fault, "passed": passed}
        return self._server.start(CHILD, {**self._asked, **ended}, folder / name)

    def _problem(self, process: ForkedProcess, errors: Path, statuses: set[int]) -> str | None:
        """Waits for the end of a process, and returns why it failed, None if it did not."""
        if process.wait(self._timeout_s) is None:
            process.kill()
            process.wait()
            return f"The process did not end within {self._timeout_s:g} seconds."
        if process.status in statuses:
            return None
        said = errors.read_text("utf-8", "replace") if errors.exists() else ""
        return f"The process ended with status {process.status}.\n{said[-SHOWN:]}"

    def _outcome(self, folder: Path, name: str) -> _Outcome:
        told = json.loads((folder / f"{name}.json").read_text("utf-8"))
        effects = Counter(self._effects(Outside(folder / "outside")))
        return _Outcome(effects, told["ok"], told["code"], told["message"], told["reading"], told["problem"])

    def _new_folder(self) -> _RunFolder:
        return _RunFolder(self._folder)


class _RunFolder(tempfile.TemporaryDirectory[str]):
    """The folder of one run, with its outside."""

    def __init__(self, place: Path) -> None:
        super().__init__(dir=place, ignore_cleanup_errors=True)

    def __enter__(self) -> Path:  # type: ignore[override]
        folder = Path(super().__enter__())
        (folder / "outside").mkdir()
        return folder


def _verdict(outcome: _Outcome, base: _Outcome) -> Verdict:
    if outcome.problem is not None:
        return "broken"
    if outcome.effects - base.effects:
        return "repeated" if outcome.reading else "doubled"
    if outcome.code == "unknown_outcome":
        return "in doubt"
    if base.effects - outcome.effects:
        return "lost" if outcome.ok else "not done"
    return "once" if outcome.ok else "misreported"


def _show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done} of {total} kills", end=end, file=sys.stderr, flush=True)
