"""Finds names that a reader may confuse, between servers and with the tools that ship with Demiurge, and texts that
name a tool of another server."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.names import spelling
from demiurge.mcp.scan.finding import Severity
from demiurge.mcp.scan.texts import texts_of
from demiurge.tools.ids import RESERVED_PREFIXES

__all__ = ["NameRemark", "ScannedTool", "mentions", "name_remarks"]

_TYPO_LENGTH: Final = 8
"""Letters of a name from which one letter more, less or other is a likely imitation and not another word."""
_ORDER: Final = re.compile(
    r"\b(?:call|use|invoke|run|execute|before|after|when(?:ever)?|instead|first|then|also|always|never|replaces?)\b",
    re.IGNORECASE,
)
_NEAR: Final = 60


class ScannedTool(NamedTuple):
    """A tool of a server. `state`: `pinned` for a trusted definition, `listed` for one that the server lists now."""

    server: str
    definition: ToolDefinition
    state: str = "listed"


class NameRemark(NamedTuple):
    """A remark about the name of a tool; `tool` is None for one about the name of the server."""

    code: str
    severity: Severity
    server: str
    tool: ScannedTool | None
    start: int
    end: int
    rule: str


def name_remarks(
    tools: Sequence[ScannedTool], shipped: Collection[str], servers: Collection[str] = ()
) -> Iterator[NameRemark]:
    """Returns the remarks about the names of all servers and tools. `shipped`: the ids of the shipped tools."""
    yield from _servers(sorted({*servers, *(tool.server for tool in tools)}))
    named = {(tool.server, tool.definition.name): tool for tool in tools}
    forms: dict[str, list[ScannedTool]] = defaultdict(list)
    for tool in named.values():
        forms[spelling(tool.definition.name)].append(tool)
    for group in forms.values():
        yield from _same_form(group)
    yield from _typos(forms)
    for tool in named.values():
        yield from _shadows(tool, shipped)


def _servers(servers: list[str]) -> Iterator[NameRemark]:
    seen: dict[str, str] = {}
    for server in servers:
        form = spelling(server)
        for other_form, other in seen.items():
            if form == other_form or (min(len(form), len(other_form)) >= 5 and _is_typo(form, other_form)):
                rule = f"The name of the server reads like the one of the server {other}."
                yield NameRemark("look_alike_server", "high", server, None, 0, len(server), rule)
                break
        seen.setdefault(form, server)


def _same_form(group: list[ScannedTool]) -> Iterator[NameRemark]:
    """Yields a remark about each tool of the group: nobody but the user knows which one is meant."""
    for tool in group:
        other = next((one for one in group if one is not tool), None)
        if other is None:
            return
        name, its = tool.definition.name, other.definition.name
        if name == its:
            rule = f"The server {other.server} has a tool of the same name."
            yield NameRemark("same_name", "low", tool.server, tool, 0, len(name), rule)
            continue
        # names that differ in more than case and separators are spelled to be confused
        is_spelling = re.sub(r"[\W_]+", "", name).casefold() == re.sub(r"[\W_]+", "", its).casefold()
        where = "of this server" if tool.server == other.server else f"of the server {other.server}"
        severity: Severity = "medium" if is_spelling else "high"
        rule = f"The name reads like {its} {where}."
        yield NameRemark("look_alike_tool", severity, tool.server, tool, 0, len(name), rule)


def _typos(forms: dict[str, list[ScannedTool]]) -> Iterator[NameRemark]:
    """Yields the names of two servers that differ in one letter. Each form is compared with those that are equal to it
    after the removal of one letter, so the cost grows with the number of names."""
    shorter: dict[str, list[str]] = defaultdict(list)
    told: set[tuple[str, str]] = set()
    for form in forms:
        if len(form) < _TYPO_LENGTH:
            continue
        for key in {form, *(form[:at] + form[at + 1 :] for at in range(len(form)))}:
            for other in shorter[key]:
                pair = (other, form)
                if pair not in told and _is_typo(form, other):
                    told.add(pair)
                    yield from _typo(forms[form], forms[other])
                    yield from _typo(forms[other], forms[form])
            shorter[key].append(form)


def _typo(tools: list[ScannedTool], others: list[ScannedTool]) -> Iterator[NameRemark]:
    for tool in tools:
        other = next((one for one in others if one.server != tool.server), None)
        if other is not None:
            name = tool.definition.name
            rule = f"The name differs in one letter from {other.definition.name} of the server {other.server}."
            yield NameRemark("look_alike_tool", "medium", tool.server, tool, 0, len(name), rule)


def _is_typo(one: str, other: str) -> bool:
    """Returns whether two forms differ in one letter, which is not a digit or a plural's `s` at the end, or in the
    order of two letters side by side."""
    if one == other:
        return False
    if len(one) == len(other):
        places = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
        if len(places) == 1:
            return not (one[places[0]].isdigit() and other[places[0]].isdigit())
        return len(places) == 2 and places[1] == places[0] + 1 and one[places[0]] == other[places[1]]
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) != 1 or (long[:-1] == short and (long[-1] == "s" or long[-1].isdigit())):
        return False
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def _shadows(tool: ScannedTool, shipped: Collection[str]) -> Iterator[NameRemark]:
    name = tool.definition.name
    form = spelling(name)
    for known in shipped:
        if form == spelling(known):
            rule = f"The name reads like the shipped tool {known}."
            yield NameRemark("shadows_core_tool", "high", tool.server, tool, 0, len(name), rule)
            return
        last = known.split("__", 1)[-1]
        if "_" in last and form == spelling(last):
            if name == last:
                rule = f"The shipped tool {known} has the same name."
                yield NameRemark("same_name", "low", tool.server, tool, 0, len(name), rule)
            else:
                rule = f"The name reads like {last} of the shipped tool {known}."
                yield NameRemark("shadows_core_tool", "medium", tool.server, tool, 0, len(name), rule)
            return
    head = re.match(r"(.*?[^\W_])(?:__|[:.])", name)
    prefix = next((one for one in RESERVED_PREFIXES if head and spelling(one) == spelling(head[1])), None)
    if head is not None and prefix is not None:
        rule = f"The name begins like those of the shipped tools ({prefix}__)."
        yield NameRemark("shadows_core_tool", "high", tool.server, tool, 0, head.end(), rule)


def mentions(tool: ScannedTool, others: Sequence[ScannedTool]) -> Iterator[tuple[str, str, int, int, Severity, str]]:
    """Returns where the texts of a tool name a tool of another server: field, text, start, end, severity and rule. A
    name of one word counts only as an id (`mcp__mail__send`); a name that the tool's own server has, too, does not
    count."""
    others = [other for other in others if other.definition.kind == "tool"]
    own = {other.definition.name for other in others if other.server == tool.server}
    names: dict[str, str] = {}
    for other in others:
        name = other.definition.name
        if other.server != tool.server and name not in own and re.search(r"[A-Za-z0-9][_-]+[A-Za-z0-9]", name):
            names.setdefault(name.lower(), other.server)
    servers = {other.server.lower() for other in others if other.server != tool.server}
    if not names and not servers:
        return
    alternatives = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "(?!)"
    by_server = "|".join(sorted(map(re.escape, servers), key=len, reverse=True)) or "(?!)"
    pattern = re.compile(
        rf"(?<![\w-])(?:mcp(?:__|:)[\w-]+?(?:__|:))?({alternatives})(?![\w-])"
        rf"|(?<![\w-])(?:{by_server})(?:'s)? (?:mcp )?(?:server|tools?)\b"
        rf"|(?<![\w-])mcp(?:__|:)(?:{by_server})(?:__|:)[\w-]+",
        re.IGNORECASE,
    )
    for text in texts_of(tool.definition):
        if text.is_name:
            continue
        for found in pattern.finditer(text.text):
            around = text.text[max(0, found.start() - _NEAR) : found.end() + _NEAR]
            severity: Severity = "high" if _ORDER.search(around) else "medium"
            owner = names.get((found[1] or "").lower())
            of = f"a tool of the server {owner}" if owner else "another server or its tools"
            order = " beside words that order calls" if severity == "high" else ""
            yield text.field, text.text, *found.span(), severity, f"The text names {of}{order}."
