"""The package's face."""

from __future__ import annotations

import ast
from pathlib import Path

import demiurge.tools as tools

SOURCE = Path(tools.__file__).parent


def test_all_names_are_there_once() -> None:
    assert len(tools.__all__) == len(set(tools.__all__))
    assert all(hasattr(tools, name) for name in tools.__all__)


def test_no_module_reaches_for_the_machine() -> None:
    banned = {"httpx", "os", "random", "socket", "sqlite3", "subprocess", "time", "urllib"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not banned & {name.split(".")[0] for name in names}, file
