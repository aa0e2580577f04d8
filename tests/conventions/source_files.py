"""The files of the package that the rules of the source are checked on, each read and parsed once."""

import ast
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "demiurge"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parents[1]
NAMES = {path.relative_to(SOURCE).as_posix(): path for path in MODULES}
"""The path of each module, by its path inside the package."""


@cache
def text(name: str) -> str:
    """Returns the text of a module."""
    return NAMES[name].read_text("utf-8")


@cache
def tree(name: str) -> ast.Module:
    """Returns the syntax tree of a module."""
    return ast.parse(text(name))


@cache
def nodes(name: str) -> list[ast.AST]:
    """Returns all nodes of a module's syntax tree."""
    return list(ast.walk(tree(name)))


PINNED = {
    *("apps/demiurge/reducer.py", "apps/demiurge/call_reducer.py"),
    *("world/connections.py", "world/mcp_servers.py", "world/webhooks.py", "world/workspace.py"),
}
"""Reducers whose source is part of the worlds that ran them: their text stays as it is."""
