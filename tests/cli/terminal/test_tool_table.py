"""`/tools` on screens of several widths: names whole, then decision and effect, then what there is room for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.terminal.emulated import EmulatedTerminal

from demiurge.cli.terminal.screen import Screen
from demiurge.cli.terminal.tool_table import tool_list, tool_page
from demiurge.registry.core_ids import CORE_IDS

LONG = "send_newsletter_to_all_subscribers"
DESCRIPTION = "Send the newsletter to everyone who has subscribed to it, in the order of their names, with a copy."


def view(name: str, source: str = "shipped", **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "effect": "external_side_effect",
        "decision": "require_approval",
        "why": "it is asked about",
        "source": source,
        "description": DESCRIPTION,
        "details": "",
        "input_schema": {"type": "object", "properties": {}},
    } | changes


VIEWS = [
    *(view(f"core__{name}", effect="read_only", decision="allow") for name in CORE_IDS),
    view("core__ask_user", effect="read_only", decision="allow"),
    view(LONG, "yours"),
    view("zip_code", "yours", decision="deny"),
]


def lines(columns: int, *what: Any) -> list[str]:
    terminal = EmulatedTerminal(columns, 60)
    screen = Screen(terminal, width=columns)
    for each in what:
        screen.print(screen.lines(each))
    return terminal.shown


def listed(columns: int, *, folded: bool = True) -> list[str]:
    screen = Screen(EmulatedTerminal(columns), width=columns)
    return lines(columns, *tool_list(screen, VIEWS, folded=folded))


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 140])
def test_names_decisions_and_effects_are_whole_on_every_screen(columns: int) -> None:
    shown = listed(columns, folded=False)
    for each in VIEWS:
        [row] = [line for line in shown if each["id"] in line.split()]
        assert {"allow": "runs", "require_approval": "asks you", "deny": "denied"}[each["decision"]] in row
        assert each["effect"].split("_")[0] in row
    words = " ".join(shown).split()
    assert words.count("effect") == 1 + 2  # the header and two tools: no effect is cut
    assert max(map(len, shown)) <= columns


def test_a_wider_screen_shows_more_of_the_descriptions() -> None:
    said = [
        next(line.partition("effect")[2].strip() for line in listed(columns) if line.startswith(LONG))
        for columns in (60, 80, 100, 120, 140)
    ]
    assert said[:2] == ["", ""]
    assert len(said[2]) < len(said[3]) < len(said[4])
    assert all(text.endswith("…") for text in said[2:])
    assert lines(200, *tool_list(Screen(EmulatedTerminal(200), width=200), VIEWS))[4].endswith("with a copy.")


def test_own_tools_stand_under_their_heading_and_the_core_pack_is_one_line() -> None:
    shown = listed(80)
    own, name, shipped, ask = (
        next(n for n, line in enumerate(shown) if line.startswith(start))
        for start in ("yours", LONG, "shipped", "core__ask_user")
    )
    assert own < name < shipped < ask
    assert shown[shipped - 1] == ""
    assert f"{len(CORE_IDS)} tools of the core pack: /tools core" in shown
    assert not any("core__canon_checker" in line for line in shown)


def test_without_own_tools_there_is_no_heading() -> None:
    screen = Screen(EmulatedTerminal(80), width=80)
    shown = lines(80, *tool_list(screen, [view("core__ask_user")]))
    assert not any(line.startswith(("yours", "shipped")) for line in shown)


def test_a_tool_is_shown_with_types_choices_bounds_and_details() -> None:
    schema = {
        "type": "object",
        "required": ["town"],
        "properties": {
            "kind": {"type": "string", "enum": ["long", "short"]},
            "level": {"type": "integer", "minimum": 0, "maximum": 50, "description": "How deep to look."},
            "tags": {"type": "array", "items": {"type": "string"}},
            "town": {"type": "string"},
        },
    }
    shown = "\n".join(lines(80, *tool_page(view("zip_code", details="Only towns of Italy.", input_schema=schema))))
    for words in (
        '"long" or "short"',
        "integer, 0 to 50",
        "How deep to look.",
        "list of string",
        "Only towns of Italy.",
    ):
        assert words in shown
    assert shown.index("town") < shown.index("kind (optional)")
