"""The difference between two versions of a tool: nothing is left out, and a terminal shows it readably."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from tests.registry.prompt_tools import prompt_tools, tool_of

from demiurge.registry.prompt_tool import FIELDS, PromptTool
from demiurge.registry.tool_diff import render_text, to_json, tool_diff
from demiurge.tools.authoring.hidden_text import without_hidden

LONG = "\n".join(f"Line {number} of the prompt." for number in range(1, 21))


def _columns(row: str) -> int:
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in row
    )


def _letters(text: str) -> str:
    return text.replace(" ", "")


def _spelled(line: str) -> str:
    shown = "".join(f"<U+{ord(c):04X}>" if c == "\t" or without_hidden(c) != c else c for c in line)
    return f"{shown[:-1]}<U+{ord(shown[-1]):04X}>" if shown and shown[-1].isspace() else shown


def test_equal_tools_have_no_difference() -> None:
    assert tool_diff(tool_of(), tool_of()) == []
    assert render_text([]) == "The two versions are the same."


def test_changed_fields_come_in_the_order_of_the_schema() -> None:
    diffs = tool_diff(tool_of(), tool_of(prompt="Read.", name="Pacer", goals=""))
    assert [diff.field for diff in diffs] == ["name", "goals", "prompt"]


def test_a_new_tool_has_only_added_lines_and_a_deleted_one_only_removed_lines() -> None:
    added, removed = tool_diff(None, tool_of()), tool_diff(tool_of(), None)
    assert [diff.field for diff in added] == [diff.field for diff in removed] == list(FIELDS)
    assert {row.kind for diff in added for hunk in diff.hunks for row in hunk} == {"added"}
    assert {row.kind for diff in removed for hunk in diff.hunks for row in hunk} == {"removed"}


def test_a_long_text_shows_three_lines_around_a_change() -> None:
    (diff,) = tool_diff(tool_of(prompt=LONG), tool_of(prompt=LONG.replace("Line 10 ", "Row 10 ")))
    (hunk,) = diff.hunks
    assert [row.new.number for row in hunk if row.new] == [7, 8, 9, 10, 11, 12, 13]
    assert render_text([diff]).splitlines()[1:6] == [
        "  @@ -7,7 +7,7 @@",
        "    Line 7 of the prompt.",
        "    Line 8 of the prompt.",
        "    Line 9 of the prompt.",
        "  - Line 10 of the prompt.",
    ]


def test_changes_far_apart_are_shown_apart() -> None:
    changed = LONG.replace("Line 2 ", "Row 2 ").replace("Line 19 ", "Row 19 ")
    (diff,) = tool_diff(tool_of(prompt=LONG), tool_of(prompt=changed))
    assert [[row.new.number for row in hunk if row.new] for hunk in diff.hunks] == [[*range(1, 6)], [*range(16, 21)]]


def test_a_short_text_is_shown_old_and_new_with_the_changed_word_marked() -> None:
    diffs = tool_diff(tool_of(name="Scene pacer"), tool_of(name="Scene reader"))
    assert render_text(diffs).splitlines() == [
        "name",
        "  - Scene pacer",
        "          ^^^^^",
        "  + Scene reader",
        "          ^^^^^^",
    ]


def test_a_long_line_is_broken_at_a_space_and_goes_on_indented() -> None:
    old = "Read the scene, and then name up to three paragraphs that slow it down. " * 2
    rows = render_text(tool_diff(tool_of(prompt=old.strip()), tool_of(prompt=old.strip() + " Stop."))).splitlines()
    assert rows[1].startswith("  - Read")
    assert rows[2].startswith("  -     ")
    assert max(map(len, rows)) <= 80
    assert not any(row.rstrip() != row for row in rows)


def test_hidden_characters_and_a_space_at_the_end_are_spelled_out() -> None:
    shown = render_text(tool_diff(tool_of(prompt="Read."), tool_of(prompt="Read\u200b.\x1b[2J\u202e ")))
    assert "Read<U+200B>.<U+001B>[2J<U+202E><U+0020>" in shown
    assert "\x1b" not in shown


def test_colour_adds_nothing_but_escape_sequences() -> None:
    diffs = tool_diff(tool_of(), tool_of(name="Scene reader", prompt=LONG))
    coloured = re.sub(r"\x1b\[[0-9;]+m", "", render_text(diffs, color=True))
    without_marks = [row for row in render_text(diffs).splitlines() if not re.fullmatch(r" *[ ^]+", row) or not row]
    assert [row.rstrip() for row in coloured.splitlines()] == without_marks


def test_a_page_gets_line_numbers_changed_words_and_gaps() -> None:
    (field,) = to_json(tool_diff(tool_of(prompt=LONG), tool_of(prompt=LONG.replace("Line 10 ", "Row 10 "))))
    assert field["rows"][0] == {"kind": "gap", "lines": 6}
    assert field["rows"][-1] == {"kind": "gap", "lines": 7}
    assert field["rows"][4] == {
        "kind": "changed",
        "old": {
            "line": 10,
            "spans": [{"text": "Line", "changed": True}, {"text": " 10 of the prompt.", "changed": False}],
        },
        "new": {
            "line": 10,
            "spans": [{"text": "Row", "changed": True}, {"text": " 10 of the prompt.", "changed": False}],
        },
    }


def test_a_page_gets_the_gap_between_two_changes() -> None:
    changed = LONG.replace("Line 2 ", "Row 2 ").replace("Line 19 ", "Row 19 ")
    (field,) = to_json(tool_diff(tool_of(prompt=LONG), tool_of(prompt=changed)))
    assert [row for row in field["rows"] if row["kind"] == "gap"] == [{"kind": "gap", "lines": 10}]


def test_a_wide_letter_takes_two_columns_and_a_mark_on_a_letter_none() -> None:
    for letter, fit in (("語", 36), ("q\u0301", 72), ("q", 72)):
        rows = render_text(tool_diff(None, tool_of(prompt=letter * (fit + 1)))).splitlines()
        at = rows.index(f"  + {letter * fit}")
        assert rows[at + 1].strip(" +") == letter


def test_texts_that_are_slow_to_compare_are_shown_as_replaced() -> None:
    old, new = "\n".join(f"x{n}\ny" for n in range(900)), "\n".join(f"z{n}\ny" for n in range(900))
    (diff,) = tool_diff(tool_of(prompt=old), tool_of(prompt=new))
    assert [row.old.text for hunk in diff.hunks for row in hunk if row.old] == old.split("\n")
    assert [row.new.text for hunk in diff.hunks for row in hunk if row.new] == new.split("\n")


@given(prompt_tools(), prompt_tools())
def test_the_new_text_follows_from_the_old_text_and_the_rows(old: PromptTool, new: PromptTool) -> None:
    for field in to_json(tool_diff(old, new)):
        lines = field["old"].split("\n") if field["old"] else []
        made: list[str] = []
        at = 0
        for row in field["rows"]:
            if row["kind"] == "gap":
                made += lines[at : at + row["lines"]]
                at += row["lines"]
                continue
            if row["old"]:
                assert row["old"]["line"] == at + 1
                at += 1
            if row["new"]:
                made.append("".join(span["text"] for span in row["new"]["spans"]))
                assert row["new"]["line"] == len(made)
        assert "\n".join(made) == field["new"]
        assert at == len(lines)


@given(prompt_tools(), prompt_tools())
def test_the_unchanged_parts_of_a_row_are_in_both_lines(old: PromptTool, new: PromptTool) -> None:
    for field in to_json(tool_diff(old, new)):
        for row in field["rows"]:
            if row["kind"] != "gap" and row["old"] and row["new"]:
                kept = ["".join(s["text"] for s in row[side]["spans"] if not s["changed"]) for side in ("old", "new")]
                assert kept[0] == kept[1]


@given(prompt_tools(), prompt_tools())
def test_a_terminal_of_80_columns_shows_each_line_whole(old: PromptTool, new: PromptTool) -> None:
    for diff in tool_diff(old, new):
        rows = render_text([diff]).split("\n")
        assert max(map(_columns, rows)) <= 80
        assert not any(unicodedata.category(letter) == "Cc" for row in rows for letter in row)
        for sign, side in (("-", "old"), ("+", "new")):
            shown = "".join(row[4:] for row in rows if row.startswith(f"  {sign} "))
            wanted = [line for row in to_json([diff])[0]["rows"] if row["kind"] != "same" and (line := row.get(side))]
            texts = ["".join(span["text"] for span in line["spans"]) for line in wanted]
            assert _letters(shown) == _letters("".join(map(_spelled, texts)))
