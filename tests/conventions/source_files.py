"""The files of the package that the rules of the source are checked on, each read and parsed once."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "demiurge"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parents[1]
NAMES = {path.relative_to(SOURCE).as_posix(): path for path in MODULES}
TEXTS = {name: path.read_text("utf-8") for name, path in NAMES.items()}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
NODES = {name: list(ast.walk(tree)) for name, tree in TREES.items()}
"""Text, syntax tree and all nodes of each module, by the module's path inside the package."""

PINNED = {
    *("apps/demiurge/reducer.py", "apps/demiurge/call_reducer.py"),
    *("world/connections.py", "world/mcp_servers.py", "world/webhooks.py", "world/workspace.py"),
}
"""Reducers whose source is part of the worlds that ran them: their text stays as it is."""
