"""Docstrings and test names name their subject, and a public class name means one class in the whole package
(CONTRIBUTING.md).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conventions.source_files import MODULES, PINNED, SOURCE, TESTS

OBLIQUE = re.compile(r"(That|What|Who|Whoever|Whom|Whose|Whether|Those|One (that|which|who)|Where|Whichever)\b")
"""First words that stand for a thing without naming it."""

OBLIQUE_TEST = re.compile(
    r"test_(that|what|who|whom|whose|which|where|when|why|how|whether|whatever|whoever|whichever|wherever"
    r"|it|its|they|their|this|these|those|one_that|both|none|however|nor|and)_"
)
"""Names of tests from which a reader of a failure can't tell what broke."""

SHARED_NAMES = {
    "Decoder": "one for each wire format, named alike on purpose (docs/wire.md)",
}
"""Public class names that stand more than once, each with the reason."""


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a file, also those under fields and constants."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def _oblique(path: Path) -> list[str]:
    name = path.relative_to(SOURCE)
    return [f"{name}:{line}: {text[:60]}" for line, text in _docstrings(path) if OBLIQUE.match(text.lstrip())]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_docstring_opens_with_the_thing_that_it_describes(path: Path) -> None:
    name = path.relative_to(SOURCE)
    if str(name) in PINNED:
        return
    assert _oblique(path) == []


def test_a_public_class_name_stands_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in SHARED_NAMES} == {}
    assert SHARED_NAMES.keys() - twice.keys() == set(), "these stand once now: take them out of SHARED_NAMES"


def test_a_test_is_named_for_its_subject() -> None:
    oblique = [
        f"{path.relative_to(TESTS)}:{node.lineno}: {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and OBLIQUE_TEST.match(node.name)
    ]
    assert oblique == []
