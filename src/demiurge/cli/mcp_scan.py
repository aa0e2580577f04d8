"""`demiurge mcp scan`: what a person should know of the tools of MCP servers before they trust them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from demiurge.bootstrap.secrets import open_vault
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.long_step import goes_on
from demiurge.cli.mcp_files import (
    entry_settings,
    is_switched_off,
    read_document,
    server_entries,
    with_our_references,
    workspace_of,
)
from demiurge.cli.mcp_lines import in_one_line, setting_lines
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError, InvalidValue, NotFound, Unavailable
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.capabilities import SecretName

if TYPE_CHECKING:
    from demiurge.bootstrap.mcp_scan import ServerScan
    from demiurge.mcp.scan import ScanFinding

__all__ = ["scan"]

_SEVERITIES = ("high", "medium", "low")
_LISTED = 6
"""The most places that a line of low findings names."""
_SHOWN = 5
"""The most findings of one code that are shown for a tool: one that repeats itself may not bury the others."""


@click.command(name="scan", cls=Command)
@click.argument("name", metavar="[NAME]", required=False, callback=utf8_text)
@click.option("--file", metavar="FILE", callback=utf8_text, help="A .mcp.json, or a saved list of tools, to look at.")
@click.option("--start", is_flag=True, help="Start or ask the servers now; else their last listing is looked at.")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 if there is such a finding, or a worse one."
)
def scan(name: str | None, file: str | None, start: bool, fail_on: str | None) -> None:
    """Look at the tools of the MCP server NAME, or of all, for what to know before you trust them.

    Looks for orders to the model, hidden characters, names that are easily confused, parameters that take too much, and
    hints that can't be true. Each finding says where it is, how it was judged and what to do. The scan advises; the
    pins decide what a model sees. A file of servers is looked at only with --start, which runs their commands.
    """
    if file is not None:
        found, problems = _scan_file(file, name, start=start)
    else:
        found, problems = _scan_world(name, start=start)
    counts = Counter[str](finding.severity for finding in found.findings)
    document = {
        "servers": list(found.servers),
        "tools": found.tools,
        "unlisted": list(found.unlisted),
        "problems": problems,
        "counts": {severity: counts[severity] for severity in _SEVERITIES},
        "findings": [finding.to_json() for finding in found.findings],
    }
    lines = list(_lines(found, counts))
    for server, problem in problems.items():
        output.notice(in_one_line(f"{server}: {problem}"))
    for server in found.unlisted:
        output.notice(f"{server} never listed its tools here: `demiurge mcp scan {server} --start` asks it.")
    if fail_on is not None and any(counts[each] for each in _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]):
        raise OutcomeError("findings", "\n".join(lines), document)
    output.result({"ok": True, **document}, *lines)


def _scan_world(name: str | None, *, start: bool) -> tuple[ServerScan, dict[str, str]]:
    problems = {}
    with opened() as (world, portal):
        if start:
            for view in portal.run(world.mcp.list()):
                if name in (None, view.name):
                    try:
                        with goes_on(f"Asking {view.name} for its tools ..."):
                            portal.run(world.mcp.refresh(view.name))
                    except DemiurgeError as error:
                        problems[view.name] = error.message
        return portal.run(world.mcp.scan(name)), problems


def _scan_file(file: str, name: str | None, *, start: bool) -> tuple[ServerScan, dict[str, str]]:
    from demiurge.bootstrap.mcp_scan import scan_definitions
    from demiurge.mcp.definition import ToolDefinition
    from demiurge.mcp.scan import ScannedTool

    document = read_document(file)
    listed = _listed(document, Path(file).stem)
    if listed is None:
        return _scan_servers(file, document, name, start=start)
    chosen = {server: tools for server, tools in listed.items() if name in (None, server)}
    if not chosen:
        raise NotFound(f"The file {file} has no server {name}.", code="no_mcp_server")
    found, problems = [], {}
    for server, tools in chosen.items():
        for tool in tools:
            try:
                found.append(ScannedTool(server, ToolDefinition.of_json(tool)))
            except InvalidValue as error:
                problems[server] = f"A tool can't be read: {error}"
    return scan_definitions(found, {}), problems


def _listed(document: Mapping[str, Any], stem: str) -> Mapping[str, Sequence[Any]] | None:
    """Returns the tools in a saved list, by server: `{"tools": [...]}`, as a server answers, or `{server: [...]}`; None
    for a file of servers."""
    if isinstance(document.get("tools"), list):
        return {stem: document["tools"]}
    return document if document and all(isinstance(tools, list) for tools in document.values()) else None


def _scan_servers(
    file: str, document: Mapping[str, Any], name: str | None, *, start: bool
) -> tuple[ServerScan, dict[str, str]]:
    """Starts the servers of an editor's file, and looks at their tools. One that the editor would not start, and one
    whose entry can't be taken, is a problem. Raises InvalidValue, NotFound."""
    entries = server_entries(document)
    if entries is None:
        raise InvalidValue(f"The file {file} names no MCP servers and no list of tools.", code="no_servers")
    servers, problems = [], {}
    for key, entry in entries.items():
        if is_switched_off(entry):
            problems[key] = "It is switched off in the file."
            continue
        try:
            folder = workspace_of(file)
            servers.append(entry_settings(key, with_our_references(key, entry, folder), folder))
        except InvalidValue as error:
            problems[key] = error.message
    servers = [each for each in servers if name in (None, each.name)]
    problems = {key: problem for key, problem in problems.items() if name in (None, key)}
    if not servers and not problems:
        raise NotFound(f"The file {file} has no server {name}.", code="no_mcp_server")
    if servers and not start:
        told = [f"{each.name}: {said}" for each in servers for said in (in_one_line(each.target), *setting_lines(each))]
        left = [f"{in_one_line(key)} is left out: {in_one_line(problem)}" for key, problem in problems.items()]
        raise InvalidValue(
            "Nothing was started. To look at the tools of these servers, add --start. It runs these commands with "
            "these variables, and sends these headers to these addresses:\n  " + "\n  ".join([*told, *left]),
            code="not_started",
        )
    with goes_on(f"Asking {', '.join(each.name for each in servers)} for tools ...") if servers else nullcontext():
        return asyncio.run(_asked(servers, problems)), problems


async def _asked(servers: Sequence[ServerSettings], problems: dict[str, str]) -> ServerScan:
    """Has servers list their tools, and returns the findings; `problems` gets the servers that did not."""
    from demiurge.bootstrap.mcp_scan import scan_definitions
    from demiurge.mcp.clients import McpClients
    from demiurge.mcp.scan import ScannedTool

    clients, tools, instructions = McpClients(secret_of=_vault_value), list[ScannedTool](), dict[str, str]()
    try:
        for each in servers:
            try:
                listing = await clients.list_tools(each)
            except DemiurgeError as error:
                problems[each.name] = error.message
                continue
            tools += [ScannedTool(each.name, definition) for definition in listing.definitions]
            instructions[each.name] = listing.instructions
    finally:
        await clients.close()
    return scan_definitions(tools, instructions)


def _vault_value(name: SecretName) -> str:
    """Returns the value of a secret in the user's vault. Raises Unavailable (`setting_missing`)."""
    vault = open_vault(os.environ)
    found = vault.get(name.alias, name.version) if vault is not None else None
    if found is None:
        how = f"`demiurge secrets set {name.alias}{f' --version {name.version}' * (name.version != 1)}`"
        raise Unavailable(f"The secret {name.alias} is not set: run {how}.", code="setting_missing")
    return found.reveal()


def _lines(found: ServerScan, counts: Mapping[str, int]) -> Iterator[str]:
    seen = Counter[tuple[str, str, str, str]]()
    for finding in found.findings:
        if finding.severity != "low":
            of = finding.severity, finding.code, finding.server, finding.tool
            seen[of] += 1
            if seen[of] <= _SHOWN:
                yield from _finding_lines(finding)
    for (severity, code, server, tool), count in seen.items():
        if count > _SHOWN:
            yield f"{severity} {code}: {server} {tool}: {count - _SHOWN} more; --json lists them."
    yield from _low_lines([finding for finding in found.findings if finding.severity == "low"])
    told = ", ".join(f"{counts[severity]} {severity}" for severity in _SEVERITIES)
    servers = f"{len(found.servers)} server{'s' * (len(found.servers) != 1)}"
    yield f"Looked at {found.tools} definition{'s' * (found.tools != 1)} of {servers}: {told}."
    if found.findings:
        yield "A finding advises; what a model sees is what you trust."


def _finding_lines(finding: ScanFinding) -> Iterator[str]:
    where = f"{finding.server}{f' {finding.tool}' if finding.tool else ''}"
    yield f"{finding.severity} {finding.code}: {where}, {finding.field} at {finding.start}"
    yield f"  {finding.rule} Matched: {finding.matched}"
    if finding.excerpt != finding.matched:
        yield f"  In: {finding.excerpt}"
    yield f"  {finding.advice}"


def _low_lines(findings: Sequence[ScanFinding]) -> Iterator[str]:
    """Yields a line for all findings of a server with the same code."""
    groups: dict[tuple[str, str], list[ScanFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.server, finding.code), []).append(finding)
    for (server, code), group in groups.items():
        places = [f"{one.tool} {one.field.rpartition('/')[2]}" for one in group]
        more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
        yield f"low {code}: {server}: {', '.join(places[:_LISTED])}{more}"
        yield f"  {group[0].rule} {group[0].advice}"
