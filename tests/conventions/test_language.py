"""Docstrings and test names name their subject, and a public class name means one class in the whole package
(CONTRIBUTING.md).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.conventions.source_files import NAMES, PINNED, TESTS, nodes

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


def _docstrings(name: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a module, also those under fields and constants."""
    for node in nodes(name):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_a_docstring_opens_with_the_thing_that_it_describes() -> None:
    oblique = [
        f"{name}:{line}: {words[:60]}"
        for name in NAMES.keys() - PINNED
        for line, words in _docstrings(name)
        if OBLIQUE.match(words.lstrip())
    ]
    assert oblique == []


def test_a_public_class_name_stands_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name in NAMES:
        for node in nodes(name):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
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
