"""Runs the mutation tests of one area after the other, and lists the mutants that no test has caught.

`python -m tests.mutants [--children N] [--sample N --seed S] [AREA ...]` (`make mutants`, `make mutants AREA=policy`,
`make mutants AREA=server ARGS="--sample 100 --seed 1"`: so many mutants of the area, drawn by chance). mutmut changes
one place of a function at a time; `tests.mutant_session` runs the tests that reach the function, each mutant within a
limit of time. Both work on a copy in `.mutants/AREA`, so the working tree may change meanwhile. What was caught once is
not run again until its function changes; what was not caught is run again each time. A mutant that only changes the
letters of a sentence for people (text with a blank in it) is counted apart: no behaviour rests on it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".mutants"
COPIED = ("src", "tests", "docs", "bench", "requirements", "Makefile", "README.md", "LICENSE", "CHANGELOG.md")
CAUGHT = frozenset([1, 3, -11, -9])
"""Exit codes of mutmut: a test failed, or the process died."""
TIMED_OUT = frozenset([-24, 24, 36, 152, 255])
NO_TESTS = frozenset([5, 33])
OPTIONS = ("-p", "tests.mutant_session", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-s")
SAMPLE = "sample.json"
"""The names of the mutants of a sample, in an area's folder."""


@dataclass(frozen=True)
class Area:
    """`mutated`: patterns of files, without those that are `left_out`; `tests`: files and folders with the tests that
    are meant to catch, and options of pytest that choose among these; `decorated`: whether functions with decorators
    (routes, properties) are changed too; `enough`: the share that has to be caught."""

    mutated: tuple[str, ...]
    tests: tuple[str, ...]
    decorated: bool = False
    enough: float = 0.95
    left_out: tuple[str, ...] = ()


CALLS_OF_THE_BACKEND = (
    *("asked_calls", "call_roles", "call_waits", "calls", "changed_call", "given_answer", "keep_calls"),
    "waiting_calls",
)

AREAS = {
    "policy": Area(
        ("src/demiurge/tools/policy.py", "src/demiurge/tools/policy_fields.py", "src/demiurge/tools/policy_rule.py"),
        ("tests/tools/test_policy.py", "tests/tools/test_policy_rule.py"),
    ),
    "ledger": Area(
        ("src/demiurge/tools/ledger/*",),
        (
            "tests/tools/ledger",
            "tests/stores/test_ledger.py",
            "tests/tools/stages/test_recall.py",
            "tests/tools/stages/test_claim.py",
            "tests/tools/stages/test_record_effect.py",
        ),
    ),
    "authority": Area(
        ("src/demiurge/world/authority/*", "src/demiurge/world/effect_kinds/*"),
        ("tests/world/authority", "tests/world/effect_kinds"),
    ),
    "stages": Area(
        ("src/demiurge/tools/stages/*",),
        (
            "tests/tools/stages",
            "tests/canaries/test_canaries.py::test_no_value_of_a_call_comes_out",
            "tests/tools/connections/test_token_exposure.py",
            "tests/tools/connections/test_leak.py",
            "tests/tools/execution/test_error_log.py",
            "tests/tools/execution/test_explain.py",
            "tests/tools/execution/test_portable.py",
            "tests/tools/ledger/test_by_key.py",
            "tests/tools/ledger/test_faults.py",
            "tests/tools/ledger/test_reconcile.py",
            "tests/tools/telemetry",
            "tests/tools/test_approvals.py",
            "tests/tools/test_events.py",
            "tests/tools/test_exec_many.py",
            "tests/tools/test_pipeline.py",
            "tests/tools/test_record.py",
            "tests/tools/test_redaction.py",
            "tests/tools/test_result.py",
            "tests/tools/test_runner.py",
            "tests/tools/test_tool_contract.py",
        ),
    ),
    "kernel": Area(
        ("src/demiurge/world/kernel/*",),
        ("tests/world/kernel", "tests/world/test_plan.py", "-m", "not hypothesis"),  # chance decides no verdict
    ),
    "wire": Area(
        ("src/demiurge/wire/*",),
        ("tests/wire", "-m", "not hypothesis"),
    ),
    "registry": Area(
        ("src/demiurge/registry/*",),
        ("tests/registry",),
        decorated=True,
        enough=0.9,
    ),
    "mcp": Area(
        ("src/demiurge/mcp/*",),
        (
            "tests/mcp",
            *(f"tests/bootstrap/mcp/test_{name}.py" for name in ("mcp_connection", "mcp_servers", "sampling")),
            "tests/bootstrap/mcp/test_server_questions.py",
            *("--ignore=tests/mcp/test_conformance.py", "--ignore=tests/mcp/test_npm_servers.py"),  # they need node
            "--ignore=tests/mcp/test_published_servers.py",  # they are installed from the network
            *(
                "--ignore=tests/mcp/test_processes.py",
                "--ignore=tests/mcp/test_lazy_modules.py",
            ),  # processes of their own
            *("--ignore=tests/mcp/gateway/test_in_doubt.py", "--ignore=tests/mcp/gateway/test_stdio.py"),
        ),
        decorated=True,
        enough=0.9,
        left_out=("src/demiurge/mcp/start_server.py",),  # a script for a Python that can't import mutmut
    ),
    "server": Area(
        ("src/demiurge/server/*",),
        (
            *("tests/server", "tests/mcp/gateway/test_http.py"),
            *("--ignore=tests/server/test_whole_api.py", "--ignore=tests/server/test_flat_costs.py"),
        ),
        decorated=True,
        enough=0.9,
    ),
    "backend": Area(
        tuple(f"src/demiurge/bootstrap/backend/{name}.py" for name in CALLS_OF_THE_BACKEND),
        (
            "tests/bootstrap/backend",
            "tests/bootstrap/test_calls_refused_unasked.py",
            "tests/bootstrap/test_cancel.py",
            "tests/bootstrap/test_edited_approvals.py",
            "tests/bootstrap/test_questions.py",
            "tests/bootstrap/test_questions_of_tools.py",
            "tests/bootstrap/test_refused_calls.py",
            "tests/bootstrap/test_standing_rules.py",
            "tests/bootstrap/test_waiting_calls.py",
            *(
                f"tests/mcp/gateway/test_{name}.py"
                for name in ("calls", "questions", "sampling", "stolen_ids", "waiting")
            ),
            *(f"tests/server/test_{name}.py" for name in ("questions", "questions_of_tools", "tool_calls")),
            *("-k", "not kill"),  # these start processes of their own
        ),
        enough=0.9,
    ),
}


@dataclass(frozen=True)
class Mutant:
    """`state`: `caught`, `timed out`, `survived`, `no tests` or `not run`."""

    name: str
    file: str
    state: str


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; default: all")
    arguments.add_argument("--children", type=int, default=os.cpu_count() or 1, help="how many run at a time")
    arguments.add_argument("--sample", type=int, metavar="N", help="of each area only N mutants, drawn by chance")
    arguments.add_argument("--seed", type=int, default=0, metavar="S", help="of that chance; the default is 0")
    arguments.add_argument("--report", action="store_true", help="run nothing, report what was run before")
    given = arguments.parse_args()
    if unknown := [name for name in given.areas if name not in AREAS]:
        arguments.error(f"there is no area {unknown[0]!r}; there are: {', '.join(AREAS)}")
    enough = True
    for name in given.areas or AREAS:
        if not given.report:
            run(name, AREAS[name], given.children, given.sample, given.seed)
        enough = report(name, drawn(name, given.sample, given.seed)) and enough
    return 0 if enough else 1


def run(name: str, area: Area, children: int, sample: int | None, seed: int) -> None:
    """Copies the tree, has mutmut make the mutants of the copy, and runs the tests on them."""
    folder = HOME / name
    folder.mkdir(parents=True, exist_ok=True)
    for entry in COPIED:
        if (folder / entry).is_dir():
            shutil.rmtree(folder / entry)
        copy = shutil.copytree if (ROOT / entry).is_dir() else shutil.copy2
        copy(ROOT / entry, folder / entry)
    (folder / "pyproject.toml").write_text(configured((ROOT / "pyproject.toml").read_text(), area))
    mutated = folder / "mutants"
    mutated.mkdir(exist_ok=True)
    forget_survivors(mutated)
    generation = [sys.executable, "-m", "tests.mutant_generation", *(["--decorated"] if area.decorated else [])]
    subprocess.run(generation, cwd=folder, check=True)
    (mutated / SAMPLE).write_text(json.dumps([mutant.name for mutant in drawn(name, sample, seed)]))
    session = [sys.executable, "-m", "pytest", "--rootdir=.", *OPTIONS, f"--children={children}", *area.tests]
    path = os.pathsep.join([str(mutated / "src"), str(mutated)])  # also of the processes that tests start
    subprocess.run(
        session, cwd=mutated, env={**os.environ, "PYTHONPATH": path, "MUTANT_UNDER_TEST": "stats"}, check=True
    )


def drawn(name: str, sample: int | None, seed: int) -> list[Mutant]:
    """Returns all mutants of an area, or a sample of so many; the same seed draws the same ones."""
    mutants = list(found(HOME / name / "mutants"))
    if sample is None or sample >= len(mutants):
        return mutants
    chosen = random.Random(seed).sample(sorted(mutant.name for mutant in mutants), sample)
    return [mutant for mutant in mutants if mutant.name in chosen]


def forget_survivors(folder: Path) -> None:
    """Takes the verdicts on mutants that were not caught out of mutmut's notes: it lets every verdict stand until the
    function changes, so a new test would never be held against them."""
    for meta in folder.rglob("*.py.meta"):
        notes = json.loads(meta.read_text())
        codes = notes["exit_code_by_key"]
        notes["exit_code_by_key"] = {name: code if state_of(code) == "caught" else None for name, code in codes.items()}
        meta.write_text(json.dumps(notes))


def configured(pyproject: str, area: Area) -> str:
    """The project's configuration with the area's files in mutmut's table."""
    before, head, after = pyproject.partition("[tool.mutmut]\n")
    assert head, "pyproject.toml has no [tool.mutmut]"
    left_out = json.dumps(area.left_out)
    return f"{before}{head}only_mutate = {json.dumps(area.mutated)}\ndo_not_mutate = {left_out}\n{after}"


def report(name: str, mutants: list[Mutant]) -> bool:
    """Prints the table of an area's mutants and the survivors; whether enough were caught."""
    survivors = [mutant for mutant in mutants if mutant.state in ("survived", "no tests")]
    diffs = {mutant: diff_of(name, mutant) for mutant in survivors}
    wording = {mutant for mutant, diff in diffs.items() if is_wording(diff)}
    print(
        f"\n{'file':52} {'mutants':>7} {'caught':>6} {'timed out':>9} {'left':>5} {'wording':>7} {'not run':>7} share"
    )
    shares = []
    for file in (*sorted({mutant.file for mutant in mutants}), f"{name}, all"):
        own = [mutant for mutant in mutants if file in (mutant.file, f"{name}, all")]
        count = {state: sum(mutant.state == state for mutant in own) for state in ("caught", "timed out", "not run")}
        words = len(wording.intersection(own))
        left = sum(mutant.state in ("survived", "no tests") for mutant in own) - words
        judged = len(own) - count["not run"] - words
        shares.append((judged - left) / judged if judged else 1.0)
        print(
            f"{file:52} {len(own):7} {count['caught']:6} {count['timed out']:9} {left:5} {words:7} {count['not run']:7}"
            f" {shares[-1]:5.1%}"
        )
    for mutant in (*(each for each in survivors if each not in wording), *wording):
        wording_too = ", wording" if mutant in wording else ""
        print(f"\n{mutant.state}{wording_too}: {mutant.name}\n{diffs[mutant]}")
    return shares[-1] >= AREAS[name].enough and not any(mutant.state == "not run" for mutant in mutants)


def found(folder: Path) -> Iterator[Mutant]:
    """The mutants of an area and what became of them, from mutmut's notes beside the mutated files."""
    for meta in sorted(folder.rglob("*.py.meta")):
        for name, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            yield Mutant(name, str(meta.relative_to(folder)).removesuffix(".meta"), state_of(code))


def state_of(code: int | None) -> str:
    if code is None:
        return "not run"
    for codes, state in ((TIMED_OUT, "timed out"), (NO_TESTS, "no tests"), (CAUGHT, "caught")):
        if code in codes:
            return state
    return "survived" if code == 0 else "caught"


def diff_of(name: str, mutant: Mutant) -> str:
    """The lines that the mutant changes, after the place of the first of them."""
    command = [sys.executable, "-m", "mutmut", "show", mutant.name]
    done = subprocess.run(command, cwd=HOME / name, capture_output=True, text=True, check=False)
    hunks = re.split(r"^@@ -(\d+).*\n", done.stdout, flags=re.MULTILINE)
    if len(hunks) < 3:
        return done.stdout
    above = next(number for number, line in enumerate(hunks[2].splitlines()) if line.startswith("-"))
    source = HOME / name / mutant.file
    line = first_line(source.read_text(), mutant.name) + int(hunks[1]) - 1 + above
    changed = [line for line in "\n".join(hunks[2::2]).splitlines() if line[:1] in ("-", "+")]
    return "\n".join([f"{mutant.file}:{line}", *changed])


def first_line(source: str, mutant: str) -> int:
    """Returns the line of the original source on which the function of a mutant begins."""
    *_, function = mutant.rpartition("__mutmut_")[0].rpartition(".")[2].removeprefix("x_").split("ǁ")
    owners = mutant.split("ǁ")[1:-1]
    tree: ast.AST = ast.parse(source)
    for owner in (*owners, function):
        tree = next(node for node in ast.walk(tree) if getattr(node, "name", None) == owner)
    return int(getattr(tree, "lineno", 1))


def is_wording(diff: str) -> bool:
    """Returns whether all that changes are the letters within texts that have a blank in them."""
    lines = [[line[1:] for line in diff.splitlines() if line.startswith(sign)] for sign in "-+"]
    before, after = ("\n".join(side) for side in lines)
    texts = list(zip(texts_of(before), texts_of(after), strict=False))
    changed = [pair for pair in texts if pair[0] != pair[1]]
    return bool(changed) and without_texts(before) == without_texts(after) and all(" " in old for old, _ in changed)


def texts_of(code: str) -> Iterable[str]:
    return re.findall(TEXT, code)


def without_texts(code: str) -> str:
    return re.sub(TEXT, '""', code)


TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"


if __name__ == "__main__":
    sys.exit(main())
