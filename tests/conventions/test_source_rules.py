"""Rules of the source that no linter knows: injected clocks, one way to run a tool, packages that say what they are."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conventions.source_files import MODULES, PINNED, SOURCE
from tests.mutants import AREAS, ROOT

CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("time", "perf_counter"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("os", "urandom"),
    ("uuid", "uuid1"),
    ("uuid", "uuid4"),
}
RANDOM_MODULES = {"random", "secrets"}
CLOCK_MODULE = SOURCE / "values" / "clock.py"


def _attributes(path: Path) -> Iterator[tuple[str, str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr, node.lineno


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_time_ids_and_randomness_come_from_the_injected_sources(path: Path) -> None:
    if path == CLOCK_MODULE:
        return
    read = [f"line {line}: {owner}.{name}" for owner, name, line in _attributes(path) if (owner, name) in CLOCKS]
    drawn = [f"line {line}: {name}" for name, line in _imports(path) if name in RANDOM_MODULES]
    assert read + drawn == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 450


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_refers_to_a_document_that_is_not_here(path: Path) -> None:
    if str(path.relative_to(SOURCE)) in PINNED:
        return
    elsewhere = re.compile(r"\bseeds? 00\d|(?<!docs/)architecture\.md|\baos\.md")
    assert [line for line in path.read_text("utf-8").splitlines() if elsewhere.search(line)] == []


def test_tools_read_no_environment_and_no_files() -> None:
    for path in (SOURCE / "tools" / "core").rglob("*.py"):
        names = {name for name, _ in _imports(path)}
        assert names.isdisjoint({"os", "pathlib", "socket", "httpx", "sqlite3", "subprocess"}), path


def test_the_tests_that_mutants_are_run_against_are_there() -> None:
    named = [test for area in AREAS.values() for test in area.tests if test.startswith("tests/")]
    assert len(named) > 20
    assert [test for test in named if not (ROOT / test.partition("::")[0]).exists()] == []
