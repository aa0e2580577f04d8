"""Rules of the source that no linter knows: injected clocks, one way to run a tool, packages that say what they are."""

import ast
import re
from collections.abc import Iterator

from tests.conventions.source_files import MODULES, NAMES, PINNED, nodes, text, tree
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
CLOCK_MODULE = "values/clock.py"


def _attributes(name: str) -> Iterator[tuple[str, str, int]]:
    for node in nodes(name):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr, node.lineno


def _imports(name: str) -> Iterator[tuple[str, int]]:
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


def test_time_ids_and_randomness_come_from_the_injected_sources() -> None:
    others = [name for name in NAMES if name != CLOCK_MODULE]
    assert len(others) == len(MODULES) - 1
    clocks = [
        f"{name}:{line}: {owner}.{attribute}"
        for name in others
        for owner, attribute, line in _attributes(name)
        if (owner, attribute) in CLOCKS
    ]
    drawn = [
        f"{name}:{line}: {module}" for name in others for module, line in _imports(name) if module in RANDOM_MODULES
    ]
    assert clocks + drawn == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name in NAMES if not ast.get_docstring(tree(name))] == []


def test_a_module_can_be_read_in_one_sitting() -> None:
    lines = {name: len(text(name).splitlines()) for name in NAMES}
    assert {name: count for name, count in lines.items() if count > 450} == {}


def test_no_module_refers_to_a_document_that_is_not_here() -> None:
    elsewhere = re.compile(r"\bseeds? 00\d|(?<!docs/)architecture\.md|\baos\.md")
    named = [
        f"{name}: {line}"
        for name in NAMES.keys() - PINNED
        for line in text(name).splitlines()
        if elsewhere.search(line)
    ]
    assert named == []


def test_tools_read_no_environment_and_no_files() -> None:
    core = [name for name in NAMES if name.startswith("tools/core/")]
    assert core
    for module in core:
        names = {name for name, _ in _imports(module)}
        assert names.isdisjoint({"os", "pathlib", "socket", "httpx", "sqlite3", "subprocess"}), module


def test_the_tests_that_mutants_are_run_against_are_there() -> None:
    named = [test for area in AREAS.values() for test in area.tests if test.startswith("tests/")]
    assert len(named) > 20
    assert [test for test in named if not (ROOT / test.partition("::")[0]).exists()] == []
