"""The card of a call that a person decides on: what the call is, who asks for a decision, and every argument in full.

Each line of the card begins with a bar, so that no text in it can look like the words of this program.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.cells import chop_cells
from rich.text import Text

from demiurge.bootstrap import World
from demiurge.bootstrap.call_card import CallCard, call_card
from demiurge.bootstrap.mcp_tools import server_of
from demiurge.cli import output
from demiurge.cli.terminal.screen import Screen
from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.visible_text import visible, visible_lines, visible_name

__all__ = ["CardFacts", "card_facts", "card_lines", "in_order", "more_facts"]

SHORT: Final = 60
"""The most characters of a text that stands beside the name of its argument."""

LEAST: Final = 16
"""The least columns for a value."""


class CardFacts(NamedTuple):
    """The facts that a card shows beside the call: its words, the tool's schema, and the MCP server that the tool is
    of, if it is of one."""

    words: CallCard
    schema: Mapping[str, Any]
    server: str | None = None


def card_facts(world: World, pending: Mapping[str, Any], policy_name: str) -> CardFacts:
    """Returns the facts about a waiting call. `policy_name` says whose tool policy is in force."""
    node = world.manifest()
    spec = next((spec for spec in node["toolset"] if spec["name"] == pending["tool"]), None)
    words = call_card(node, pending, world.caller, policy_name)
    if spec is None:
        return CardFacts(words, {})
    return CardFacts(words, spec["input_schema"], server_of(ToolSpec.from_json(spec)))


def card_lines(
    screen: Screen, pending: Mapping[str, Any], facts: CardFacts, *, changed: Collection[str] = ()
) -> list[str]:
    """Returns the card as lines of the screen's width. `changed` are the arguments that the person has changed."""
    width = max(LEAST, screen.width - 2)
    bar = screen.lines(Text(output.symbol("│", "|"), style="yellow"))[0]
    head = Text.assemble(("? ", "bold yellow"), (visible(pending["tool"]), "bold"))
    head.append(f" {facts.words.effect.removeprefix('It ').removesuffix('.')}")
    rows = screen.lines(head)
    for text in _body(pending, facts, changed, width):
        laid_out = [text] if isinstance(text, str) else screen.lines(text, width=width)
        rows += [f"{bar} {row}" for row in laid_out]
    return rows


def more_facts(pending: Mapping[str, Any]) -> list[str]:
    """Returns what a card leaves out until somebody asks: who decides, how long the call waits, and its id."""
    needed = [" or ".join(roles) for roles in pending.get("approvers", ())]
    lines = [f"The role {' and '.join(map(visible_name, needed))} decides."] if needed else []
    if pending.get("expires_ns") is None:
        return lines
    until = datetime.fromtimestamp(pending["expires_ns"] // 10**9, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [*lines, f"The call waits until {until}; its id is {pending['id'][:12]}."]


def in_order(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Returns the names of the arguments: first those that the schema requires, in its order, then its others, then
    the names that it lacks. (A manifest keeps the order of a list, not that of an object's fields.)"""
    known = [
        name
        for name in dict.fromkeys([*schema.get("required", ()), *schema.get("properties", {})])
        if name in arguments
    ]
    return [*known, *(name for name in arguments if name not in known)]


def _body(pending: Mapping[str, Any], facts: CardFacts, changed: Collection[str], width: int) -> Iterator[Text | str]:
    """Yields the texts of the card; a `str` is a row of its own that fits the width."""
    if facts.words.description:
        yield Text(output.plain(facts.words.description.split("\n")[0]), style="dim")
    if facts.server is not None:
        yield Text(
            f"of the MCP server {visible_name(facts.server)}, pinned; its texts are somebody else's", style="yellow"
        )
    if pending.get("connection") is not None:
        used = pending["connection"]
        yield Text(f"uses the connection {visible_name(used['id'])} ({visible_name(used['provider'])})")
    yield Text("")
    yield from _arguments(pending["arguments_json"], facts.schema, changed, width)
    yield Text("")
    if facts.words.why:
        yield Text(facts.words.why, style="yellow" if pending.get("tainted") else "dim")


def _arguments(
    arguments_json: str, schema: Mapping[str, Any], changed: Collection[str], width: int
) -> Iterator[Text | str]:
    try:
        arguments = canonical_json.parse_object(arguments_json)
    except InvalidValue:
        yield Text("its arguments are no JSON object:")
        yield from _block(arguments_json, width)
        return
    if not arguments:
        yield Text("no arguments")
    longest = max((len(visible(name)) for name in arguments), default=0)
    for name in in_order(schema, arguments):
        shown = Text.assemble((visible(name), "cyan"))
        if name in changed:
            shown.append(" (changed)", style="bold yellow")
        if name not in schema.get("properties", {}):
            shown.append(" (not in the schema)", style="yellow")
        value = arguments[name]
        beside = _beside(value)
        pad = " " * max(1, min(longest, 20) + 2 - len(shown))
        if beside is not None and len(shown) + len(pad) + len(beside) <= width:
            yield shown.append(pad).append(beside)
            continue
        text = value if isinstance(value, str) else output.as_json(value, indent=2)
        size = f"  {len(text):,} characters" if isinstance(value, str) else ""
        lines = text.count("\n") + 1
        yield shown.append(size + (f", {lines:,} lines" if size and lines > 1 else ""), style="dim")
        yield from _block(text, width)


def _beside(value: Any) -> str | None:
    """Returns a short value as JSON; None for one that takes lines of its own."""
    if isinstance(value, str):
        if len(value) > SHORT or visible(value) != value or value != value.strip():
            return None
        return json.dumps(value, ensure_ascii=False)
    shown = output.as_json(value)
    return shown if len(shown) <= SHORT and visible(shown) == shown else None


def _block(text: str, width: int) -> Iterator[str]:
    """Yields a text with its line ends, two columns in. A line that is too long goes on in the next row."""
    for line in visible_lines(text):
        for row in chop_cells(line, width - 2) or [""]:
            yield f"  {row}".rstrip(" ")
