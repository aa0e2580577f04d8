"""`scan_tools`: all findings about the tools of some servers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from demiurge.mcp.scan.finding import CODES, SEVERITIES, ScanFinding, Severity, excerpt, one_line
from demiurge.mcp.scan.hidden import hidden_in_text
from demiurge.mcp.scan.hints import hint_remarks
from demiurge.mcp.scan.instructions import instructions_in
from demiurge.mcp.scan.names import ScannedTool, mentions, name_remarks
from demiurge.mcp.scan.schemas import schema_remarks
from demiurge.mcp.scan.texts import texts_of

__all__ = ["ScannedTool", "scan_tools"]


def scan_tools(
    tools: Sequence[ScannedTool],
    *,
    shipped: Collection[str] = (),
    instructions: Mapping[str, str] = MappingProxyType({}),
) -> list[ScanFinding]:
    """Returns the findings about `tools`, the worst first. `shipped`: the ids of the tools that ship with Demiurge;
    `instructions`: what servers say about themselves, by the names of all servers.

    A pinned definition and the one that its server lists now are two tools of one name: each is judged."""
    found = [finding for tool in tools for finding in _about(tool)]
    found += [
        finding for server, text in instructions.items() for finding in _in_text(server, "", "instructions", text)
    ]
    for tool in tools:
        for field, text, start, end, severity, rule in mentions(tool, tools):
            place = tool.server, tool.definition.label, field, text, start, end
            found.append(_finding("names_other_tool", severity, *place, rule))
    named = [tool for tool in tools if tool.definition.kind == "tool"]
    for name in name_remarks(named, shipped, instructions):
        text = name.server if name.tool is None else name.tool.definition.name
        place = name.server, "" if name.tool is None else text, "name", text, name.start, name.end
        found.append(_finding(name.code, name.severity, *place, name.rule))
    ranks = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    distinct = dict.fromkeys(found)
    return sorted(distinct, key=lambda one: (ranks[one.severity], one.server, one.tool, one.field, one.start, one.code))


def _about(tool: ScannedTool) -> Iterator[ScanFinding]:
    name = tool.definition.label
    for text in texts_of(tool.definition):
        yield from _in_text(tool.server, name, text.field, text.text)
    if tool.definition.kind != "tool":  # a model is not offered it
        return
    for remark in (*schema_remarks(tool.definition), *hint_remarks(tool.definition)):
        place = tool.server, name, remark.place, remark.text, remark.start, remark.end
        yield _finding(remark.code, remark.severity, *place, remark.rule)


def _in_text(server: str, tool: str, field: str, text: str) -> Iterator[ScanFinding]:
    for found in (*hidden_in_text(text), *instructions_in(text)):
        yield _finding(found.code, found.severity, server, tool, field, text, found.start, found.end, found.rule)


def _finding(
    code: str, severity: Severity, server: str, tool: str, field: str, text: str, start: int, end: int, rule: str
) -> ScanFinding:
    return ScanFinding(
        code,
        severity,
        one_line(server),
        one_line(tool),
        one_line(field),
        start,
        end,
        excerpt(text, start, end),
        one_line(rule),
        one_line(text[start : min(end, start + 160)]),
        CODES[code],
    )
