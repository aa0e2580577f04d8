"""A pytest plugin for `tests/mutants.py`: tries each mutant in a fork of a session that collected the tests once.

The working folder is mutmut's copy of the tree, and the verdicts go into mutmut's own notes. The unchanged code runs
first: it has to pass, and shows which tests reach which function. A test that reaches none (it may start processes that
do) is held against every mutant.

A function that no test reaches may have run when the modules were imported, such as one that makes a table or marks
other functions. Its mutants are tried in a process that begins with them: that process runs all tests, by pytest alone.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings

REACHED, SAMPLE = Path("reached.json"), Path("sample.json")
TIMED_OUT, NO_TESTS = -24, 33
"""Exit codes by which mutmut knows these verdicts."""
SPARE_SECONDS, TIMES = 20.0, 5.0
"""A mutant may take `TIMES` as long as the unchanged code, and some seconds more."""


class Mutant(NamedTuple):
    """`seconds`: how long its `tests` took with the unchanged code. `is_imported`: its function ran when the modules
    were imported, and no test reaches it."""

    name: str
    notes: Path
    tests: list[pytest.Item]
    seconds: float
    is_imported: bool = False


class Trial(NamedTuple):
    """A process that runs a mutant; `folder` is the one for its temporary files."""

    mutant: Mutant
    ends: float
    folder: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--children", type=int, default=1, help="how many mutants run at a time")


def pytest_sessionstart() -> None:
    """Chance decides no verdict, and nobody reads the smallest example that a mutant fails with."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings.default, phases=phases, database=None, derandomize=True)
    settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if os.environ["MUTANT_UNDER_TEST"] != "stats":
        return None  # the mutant was there from the beginning: pytest runs the tests
    imported = frozenset(reached_functions())
    os.environ["MUTANT_UNDER_TEST"] = ""
    check_unchanged(session)
    notes = {path: json.loads(path.read_text()) for path in sorted(Path("src").rglob("*.py.meta"))}
    sample = set(json.loads(SAMPLE.read_text()))
    mutants = [mutant for mutant in undecided(session.items, notes, imported) if mutant.name in sample]
    mutants.sort(key=lambda mutant: mutant.seconds)
    trials = tried(mutants, session.config.getoption("children"), lambda mutant: judged(session, mutant))
    for number, (mutant, code) in enumerate(trials, 1):
        notes[mutant.notes]["exit_code_by_key"][mutant.name] = code
        mutant.notes.write_text(json.dumps(notes[mutant.notes]))
        if number % 10 == 0 or number == len(mutants):
            print(f"{number} of {len(mutants)} mutants", flush=True)
    return True


def judged(session: pytest.Session, mutant: Mutant) -> int:
    """Returns how many tests failed, or the exit code of the process that began with the mutant; 0: none noticed it."""
    if not mutant.is_imported:
        return failures(session, mutant.tests)
    command = [sys.executable, "-m", "pytest", "--exitfirst", *session.config.invocation_params.args]
    return subprocess.run(command, check=False).returncode


def reached_functions() -> set[str]:
    """Returns the functions that were called while `MUTANT_UNDER_TEST` was `stats`, as mutmut notes them."""
    reached: set[str] = import_module("mutmut.state").state()._stats
    return reached


def check_unchanged(session: pytest.Session) -> None:
    """Raises UsageError unless the unchanged code passes, also with the fast tests first, as mutants are tried."""
    REACHED.write_text("[]")
    unchanged = Mutant("stats", REACHED, session.items, 600.0)
    [(_, code)] = tried([unchanged], 1, lambda _: note_reached(session))
    if code == 0:
        reached = json.loads(REACHED.read_text())
        tests = sorted(session.items, key=lambda item: float(reached[item.nodeid][1]))
        [(_, code)] = tried([unchanged._replace(name="", tests=tests)], 1, lambda each: failures(session, each.tests))
        REACHED.write_text(json.dumps(reached if code == 0 else []))
    if code != 0:
        failed = ", ".join(json.loads(REACHED.read_text())) or f"the exit code was {code}, with the fast tests first"
        raise pytest.UsageError(f"The unchanged code does not pass: {failed}")


def note_reached(session: pytest.Session) -> int:
    """Runs each test, and notes the functions it reaches and its seconds; or all that failed."""
    reached = reached_functions()
    notes: dict[str, tuple[list[str], float]] = {}
    failed = []
    for item in session.items:
        reached.clear()
        start = time.monotonic()
        if failures(session, [item]):
            failed.append(item.nodeid)
            session.testsfailed = 0
        notes[item.nodeid] = (sorted(reached), time.monotonic() - start)
    REACHED.write_text(json.dumps(failed or notes))
    return len(failed)


def undecided(
    items: Sequence[pytest.Item], notes: dict[Path, dict[str, dict[str, int | None]]], imported: frozenset[str]
) -> Iterator[Mutant]:
    """Yields the mutants without a verdict, each with the tests that may notice it: the fast ones first."""
    reached: dict[str, tuple[list[str], float]] = json.loads(REACHED.read_text())
    only_imported = imported.difference(*(functions for functions, _ in reached.values()))
    for path, content in notes.items():
        for name, code in content["exit_code_by_key"].items():
            if code is None:
                function = name.rpartition("__mutmut_")[0]
                is_imported = function in only_imported
                tests = [
                    item
                    for item in items
                    if is_imported or not reached[item.nodeid][0] or function in reached[item.nodeid][0]
                ]
                tests.sort(key=lambda item: reached[item.nodeid][1])
                yield Mutant(name, path, tests, sum(reached[item.nodeid][1] for item in tests), is_imported)


def tried(mutants: Iterable[Mutant], children: int, run: Callable[[Mutant], int]) -> Iterator[tuple[Mutant, int]]:
    """Runs each mutant in a process of its own, `children` at a time; yields it with its exit code."""
    running: dict[int, Trial] = {}
    gc.freeze()
    try:
        for mutant in mutants:
            if not mutant.tests:
                yield mutant, NO_TESTS
                continue
            while len(running) >= children:
                yield from ended(running)
            folder = tempfile.mkdtemp()
            if (pid := os.fork()) == 0:
                in_child(mutant, folder, run)
            running[pid] = Trial(mutant, time.monotonic() + SPARE_SECONDS + TIMES * mutant.seconds, folder)
        while running:
            yield from ended(running)
    finally:
        for pid in running:
            end_group(pid)


def in_child(mutant: Mutant, folder: str, run: Callable[[Mutant], int]) -> None:
    """Never returns: the process ends with 0 if no test noticed the mutant."""
    try:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        os.environ |= {"MUTANT_UNDER_TEST": mutant.name, "TMPDIR": folder, "PYTEST_DEBUG_TEMPROOT": folder}
        tempfile.tempdir = folder
        os._exit(min(run(mutant), 1))
    finally:
        os._exit(1)


def ended(running: dict[int, Trial]) -> Iterator[tuple[Mutant, int]]:
    """Waits a moment for a process that ends by itself or because its time is over; yields its mutant."""
    time.sleep(0.005)
    for pid, trial in list(running.items()):
        late = time.monotonic() > trial.ends
        if late:
            os.kill(pid, signal.SIGKILL)
        if (found := os.waitpid(pid, 0 if late else os.WNOHANG))[0]:
            del running[pid]
            end_group(pid)
            shutil.rmtree(trial.folder, ignore_errors=True)
            yield trial.mutant, TIMED_OUT if late else os.waitstatus_to_exitcode(found[1])


def end_group(pid: int) -> None:
    """Ends a trial and what its tests started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def failures(session: pytest.Session, items: Sequence[pytest.Item]) -> int:
    """Runs the tests until one fails; how many failed."""
    for item, following in zip_longest(items, items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            break
    return session.testsfailed
