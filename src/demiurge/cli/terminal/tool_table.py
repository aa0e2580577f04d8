"""`/tools`: the list of tools in the width of the screen, and the page of one tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from demiurge.cli.terminal.screen import Screen
from demiurge.cli.tool_arguments import argument_rows, verdict_lines
from demiurge.registry.core_ids import CORE_IDS

__all__ = ["plain_table", "tool_list", "tool_page"]

DECISIONS: Final = {"allow": "runs", "require_approval": "asks you", "deny": "denied"}

LEAST: Final = 20
"""The least columns for a description; with fewer left, descriptions are left out."""

GAP: Final = 3
"""The columns between two columns of a table."""

CORE_PACK: Final = frozenset(f"core__{tool_id}" for tool_id in CORE_IDS)


def tool_list(screen: Screen, views: Sequence[Mapping[str, Any]], *, folded: bool = True) -> list[RenderableType]:
    """Returns the list: the user's own tools, then the shipped ones. Names, decisions and effects are never cut;
    descriptions take what is left of a line. `folded`: the core pack is one line."""
    own = [view for view in views if view["source"] != "shipped"]
    shipped = [view for view in views if view["source"] == "shipped"]
    pack = [view for view in shipped if folded and view["id"] in CORE_PACK]
    shipped = [view for view in shipped if view not in pack]
    narrow = _table(screen, own, shipped, 0)
    room = screen.width - screen.console(1000).measure(narrow).maximum - GAP
    table = _table(screen, own, shipped, room) if room >= LEAST else narrow
    pack_line = [Text(f"{len(pack)} tools of the core pack: /tools core")] if pack else []
    return [table, *pack_line, Text("/tools NAME shows one of them.", style="dim")]


def _table(screen: Screen, own: Sequence[Mapping[str, Any]], shipped: Sequence[Mapping[str, Any]], room: int) -> Table:
    """Returns the table; descriptions take `room` columns, 0 leaves them out."""
    table = plain_table("tool", "policy", "effect", *(("what it does",) if room else ()))
    name, policy = table.columns[:2]
    name.no_wrap = policy.no_wrap = True
    name.min_width = min(screen.width, max((len(view["id"]) for view in (*own, *shipped)), default=0))
    for title, group in (("yours", own), ("shipped", shipped)):
        if own and group:
            if group is shipped:
                table.add_row()
            table.add_row(Text(title, style="dim"))
        for view in group:
            about = Text(view["description"].split("\n")[0], no_wrap=True)
            about.truncate(max(room, 1), overflow="ellipsis")
            row = view["id"], DECISIONS[view["decision"]], view["effect"].replace("_", " ")
            table.add_row(*row, *((about,) if room else ()))
    return table


def tool_page(view: Mapping[str, Any]) -> list[RenderableType]:
    """Returns one tool: what it does, its effect, the policy's decision, and its arguments."""
    texts = [view["description"], *([view["details"]] if view["details"] else []), " ".join(verdict_lines(view))]
    page: list[RenderableType] = [Text(view["id"], style="bold"), *map(Text, texts)]
    rows = argument_rows(view["input_schema"])
    if not rows:
        return page
    table = plain_table("argument", "type", "what it is")
    for row in rows:
        table.add_row(*map(Text, row))
    return [*page, Text(""), table]


def plain_table(*names: str | None) -> Table:
    """Returns a table without a frame; without a header if no column has a name."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim", header_style="bold")
    table.show_header = any(names)
    for number, name in enumerate(names):
        table.add_column(name or "", overflow="fold", no_wrap=number == 0 and not any(names))
    return table
