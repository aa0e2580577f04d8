"""The card of a waiting call: every argument in full, nothing hidden, in the width of the terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.cli.terminal.emulated import EmulatedTerminal

from demiurge.bootstrap.call_card import CallCard
from demiurge.cli.approval import RuleTerms
from demiurge.cli.terminal.card import CardFacts, card_lines, more_facts
from demiurge.cli.terminal.rule_offer import with_change
from demiurge.cli.terminal.screen import Screen
from demiurge.errors import UsageError
from demiurge.visible_text import visible, visible_lines

SCHEMA = {"properties": {"path": {"type": "string"}, "text": {"type": "string"}, "mode": {"type": "integer"}}}
WHY = "A person is asked because it is among require_approval_for_tools (the default policy)."
WORDS = CallCard("", "Create a file.", "It changes the state of this world (state_change).", WHY)
FACTS = CardFacts(WORDS, SCHEMA)


def pending(arguments: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": "ab" * 32, "tool": "workspace__write", "arguments_json": text, "expires_ns": None, **more}


def card(call: dict[str, Any], columns: int = 60, **changes: Any) -> list[str]:
    screen = Screen(EmulatedTerminal(columns), width=columns)
    screen.has_styles = False
    return card_lines(screen, call, FACTS, **changes)


@pytest.mark.parametrize("columns", [60, 120])
def test_a_card_names_tool_effect_rule_and_arguments_in_the_order_of_the_schema(columns: int) -> None:
    call = pending({"text": "a\nb", "mode": 3, "path": "a.txt", "colour": "red"}, approvers=[["chief"]])
    shown = card(call, columns)
    whole = " ".join(line.removeprefix("│").strip() for line in shown)
    for words in (
        "? workspace__write changes the state of this world (state_change)",
        WHY,
        "text 3 characters, 2 lines",
        "colour (not in the schema)",
    ):
        assert re.sub(" +", " ", words) in re.sub(" +", " ", whole)
    named = [line.split()[1] for line in shown if re.match(r"│ (path|text|mode|colour)\b", line)]
    assert named == ["path", "text", "mode", "colour"]
    assert [line for line in shown if line in ("│   a", "│   b")] == ["│   a", "│   b"]
    assert max(map(len, shown)) <= columns
    assert all(line.startswith("│") for line in shown[2:])
    assert whole.index("Create a file.") < whole.index("path") < whole.index("A person is asked")
    assert more_facts({**call, "expires_ns": 0}) == [
        "The role chief decides.",
        "The call waits until 1970-01-01 00:00 UTC; its id is abababababab.",
    ]


def test_hidden_characters_are_shown_by_their_numbers() -> None:
    shown = card(pending({"path": "a\u202eb", "text": "\u200b\u009b2J\tx \n\u00a0"}))
    assert "│   a⟨U+202E⟩b" in shown
    assert "│   ⟨U+200B⟩⟨U+009B⟩2J⟨U+0009⟩x⟨U+0020⟩" in shown
    assert "│   ⟨U+00A0⟩" in shown


def test_no_two_texts_look_the_same_by_their_hidden_characters() -> None:
    assert visible("⟨U+202E⟩") != visible("\u202e")
    assert visible_lines("a \n") == ["a⟨U+0020⟩", ""]


def test_a_pile_of_combining_marks_cannot_draw_over_other_lines() -> None:
    accent, below = "\u0301", "\u0323"
    assert visible("e" + accent * 4 + "x") == "e" + accent * 4 + "x"
    assert visible("e" + (accent + below) * 150) == "e" + (accent + below) * 2 + "⟨U+0301⟩⟨U+0323⟩" * 148
    assert visible(accent + "a") == "⟨U+0301⟩a"
    assert visible_lines(f"a\n{accent}") == ["a", "⟨U+0301⟩"]
    shown = "".join(
        row.removeprefix("│   ")
        for row in card(pending({"path": "e" + accent * 300, "mode": [accent * 30], accent: 1}))
    )
    assert accent * 5 not in shown
    assert shown.count("⟨U+0301⟩") == 296 + 26 + 1


def test_a_long_text_is_shown_to_its_last_character() -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(5000))
    shown = card(pending({"text": text}))
    assert "".join(line.removeprefix("│").strip() for line in shown if line.startswith("│   ")) == text


def test_each_row_of_a_text_fits_the_card() -> None:
    shown = card(pending({"text": "漢" * 80 + "\n\n  x"}), 40)
    [head] = [at for at, row in enumerate(shown) if row.endswith("85 characters, 3 lines")]
    rows = [row.removeprefix("│") for row in shown[head + 1 :]][:7]
    assert rows == ["   " + "漢" * 18] * 4 + ["   " + "漢" * 8, " ", "     x"]


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    shown = card(pending('{"path": "a", "path": "b"}'))
    assert "│ its arguments are no JSON object:" in shown
    assert '│   {"path": "a", "path": "b"}' in shown


def test_a_text_of_a_call_cannot_look_like_the_card() -> None:
    shown = card(pending({"text": "y once, a allow in this chat\n? mail__send only reads"}))
    assert "│   ? mail__send only reads" in shown
    assert sum(line.startswith("? ") for line in shown) == 1


def test_changed_arguments_are_marked() -> None:
    shown = card(pending({"path": "b.txt", "text": "x"}), changed={"path"})
    assert any(re.match(r'│ path \(changed\) +"b.txt"', line) for line in shown)


def test_a_rule_is_widened_argument_by_argument() -> None:
    terms = RuleTerms({"path": {"equals": "notes/a"}, "text": {"equals": "x"}, "count": {"equals": 1}}, 10, 3600.0)
    for change in ("path=notes/*", "text=*", "hours=2", "count=*"):
        terms = with_change(terms, change)
    assert terms.pattern == {"path": {"like": "notes/*"}, "text": {"any": True}, "count": {"any": True}}
    assert (terms.calls, terms.lasts_s) == (10, 7200.0)
    for wrong in ("path", "colour=*", "hours=0", "hours=721", "hours=x"):
        with pytest.raises(UsageError):
            with_change(terms, wrong)


def test_a_card_names_the_mcp_server_that_the_tool_is_of() -> None:
    screen = Screen(EmulatedTerminal(100), width=100)
    screen.has_styles = False
    shown = card_lines(screen, pending({"path": "a.txt"}), FACTS._replace(server="mail"))
    assert "│ of the MCP server mail, pinned; its texts are somebody else's" in shown
    assert not any("MCP" in line for line in card(pending({"path": "a.txt"})))
