"""`demiurge mcp trust` without names, at a real pseudo-terminal: each text is shown whole, and asked about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.mcp_servers import EVIL, ScriptedServer, tool_of
from tests.cli.test_terminal import Terminal, terminal

__all__ = ["terminal"]

ASKED = "(a person is asked before each call)? y, n or q: "


def test_each_tool_that_waits_is_shown_and_asked_about(
    demiurge: Run, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    mail = ScriptedServer(tmp_path / "mail.json", tool_of("read", EVIL), tool_of("search"), tool_of("send"))
    assert demiurge("mcp", "add", "mail", "--", *mail.command).status == 0
    screen = terminal("mcp", "trust", "mail")
    screen.expect("Reads mail.<U+001B>[2J")
    screen.expect("trust read of mail " + ASKED)
    screen.type("n\n")
    screen.expect("trust search of mail " + ASKED)
    screen.type("perhaps\n")
    screen.expect("trust search of mail " + ASKED)
    screen.type("y\n")
    screen.expect("trust send of mail " + ASKED)
    screen.type("q\n")
    screen.expect("A model may call 1 tool of mail")
    assert screen.end() == 0
    [server] = demiurge("mcp", "ls", "--json").document["servers"]
    assert {tool["name"]: tool["state"] for tool in server["tools"]} == {
        "read": "new",
        "search": "trusted",
        "send": "new",
    }
    screen = terminal("mcp", "trust", "mail")
    screen.expect("trust read of mail " + ASKED)
    screen.type("q\n")
    screen.expect("Nothing was trusted")
    assert screen.end() == 1


def test_a_finding_of_a_scan_begins_with_its_severity(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    tools = [{"name": "read", "description": EVIL, "inputSchema": {"type": "object"}}]
    (tmp_path / "mail.json").write_text(json.dumps({"tools": tools}))
    screen = terminal("mcp", "scan", "--file", str(tmp_path / "mail.json"))
    screen.expect("high terminal_escape: mail read, description at ")
    assert screen.end() == 0
