"""The modules of the composition root import one another as a tree, also for types alone and inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.conventions.source_files import MODULES, SOURCE

ROOT = "demiurge.bootstrap"


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, and each name that it imports from one, which may be a module too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _graph(root: str) -> dict[str, set[str]]:
    paths = {_name(path): path for path in MODULES}
    inside = {name for name in paths if name.startswith(f"{root}.") or name == root}
    return {name: set(_imports(paths[name])) & inside for name in inside}


def test_modules_of_bootstrap_import_each_other_without_a_cycle() -> None:
    graph = _graph(ROOT)
    assert f"{ROOT}.chat" in graph[f"{ROOT}.world"]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' <- '.join(error.args[1])}")
