"""The files of the package that the rules of the source are checked on."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "demiurge"
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parents[1]

PINNED = {
    *("apps/demiurge/reducer.py", "apps/demiurge/call_reducer.py"),
    *("world/connections.py", "world/mcp_servers.py", "world/webhooks.py", "world/workspace.py"),
}
"""Reducers whose source is part of the worlds that ran them: their text stays as it is."""
