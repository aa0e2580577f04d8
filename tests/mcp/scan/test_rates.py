"""How many malicious definitions `mcp scan` finds, and how many good ones it accuses.

`malicious.jsonl` holds definitions written for this test, one in three of them `held_out`: the rules are not tuned on
those. The good ones are those of real servers in `tests/tools/golden`, and all in the corpora that DEMIURGE_CORPORA may
name."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demiurge.bootstrap.shipped_tools import SHIPPED_TOOLS
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.scan import SEVERITIES, ScanFinding, ScannedTool, scan_tools

MALICIOUS = [json.loads(line) for line in Path(__file__).with_name("malicious.jsonl").read_text("utf-8").splitlines()]
GOLDEN = Path(__file__).parents[2] / "tools" / "golden"
SHIPPED = [tool.name for tool in SHIPPED_TOOLS]
MISSED = {"story-frame"}
"""Definitions for tuning that no rule finds: plain prose that gives no order."""


def found_in(row: dict[str, Any]) -> list[ScanFinding]:
    """Returns the findings about the server of a malicious definition."""
    servers = {row["server"]: [row["tool"]], **row.get("others", {})}
    tools = [ScannedTool(name, ToolDefinition.of_json(tool)) for name, tools in servers.items() for tool in tools]
    return [finding for finding in scan_tools(tools, shipped=SHIPPED) if finding.server == row["server"]]


def is_found(row: dict[str, Any]) -> bool:
    enough = SEVERITIES[: SEVERITIES.index(row["at_least"]) + 1]
    return any(finding.severity in enough for finding in found_in(row))


def good_tools() -> Iterator[ScannedTool]:
    for row in map(json.loads, (GOLDEN / "mcp.jsonl").read_text("utf-8").splitlines()):
        yield ScannedTool(row["server"], ToolDefinition.of_json(row))
    for row in map(json.loads, (GOLDEN / "bfcl.jsonl").read_text("utf-8").splitlines()):
        yield ScannedTool(row["key"], ToolDefinition(row["name"], None, row["description"], row["parameters"]))
    if corpora := os.environ.get("DEMIURGE_CORPORA"):
        folder = Path(corpora) / "tool_schemas"
        for server, tools in json.loads((folder / "mcp_tools.json").read_text("utf-8")).items():
            yield from (ScannedTool(server, ToolDefinition.of_json(tool)) for tool in tools)
        with gzip.open(folder / "bfcl_functions.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                yield ScannedTool(row["key"], ToolDefinition(row["name"], None, row["description"], row["parameters"]))


@pytest.mark.parametrize("row", [row for row in MALICIOUS if not row["held_out"]], ids=lambda row: str(row["id"]))
def test_a_malicious_definition_is_found(row: dict[str, Any]) -> None:
    assert is_found(row) is (row["id"] not in MISSED)


def test_of_the_definitions_that_no_rule_was_tuned_on_at_most_one_in_ten_is_missed() -> None:
    held_out = [row for row in MALICIOUS if row["held_out"]]
    assert len(MALICIOUS) >= 90
    assert 3 * len(held_out) >= len(MALICIOUS)
    assert sum(map(is_found, held_out)) >= 0.9 * len(held_out)


def test_no_tool_of_a_good_server_has_a_finding_of_high_severity() -> None:
    by_server: dict[str, list[ScannedTool]] = {}
    for tool in good_tools():
        by_server.setdefault(tool.server, []).append(tool)
    found = [one for tools in by_server.values() for one in scan_tools(tools, shipped=SHIPPED)]
    assert len(by_server) > 5
    assert [one for one in found if one.severity == "high"] == []
    about = {(one.server, one.tool) for one in found if one.severity == "medium"}
    assert len(about) <= 0.05 * sum(map(len, by_server.values()))
