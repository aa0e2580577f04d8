"""The difference between two versions of a prompt tool, field by field: rows for a page, lines for a terminal.

A person approves by reading it, so nothing is left out of it: each changed character is in a changed row, hidden
characters and spaces at the end of a line are spelled out on a terminal, and colour says nothing that a sign does not
say too. The texts come from anyone, so the time to compare them is limited: texts that are made to be slow to compare
are shown as replaced.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

from demiurge.registry.prompt_tool import FIELDS, PromptTool
from demiurge.tools.authoring.hidden_text import spell_hidden

__all__ = ["DiffLine", "DiffRow", "FieldDiff", "render_text", "text_diff", "to_json", "tool_diff"]

CONTEXT: Final = 3
"""The number of unchanged lines around a change."""

_MOST_COMPARED: Final = 500_000
_MOST_EQUAL: Final = 20_000
_ALIKE: Final = 0.4
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")

_Operation: TypeAlias = tuple[str, int, int, int, int]
"""A kind (`equal`, `replace`, `insert`, `delete`), and the ranges of the old and of the new sequence."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a text: its number from 1, and its parts, each with whether it differs from the other text."""

    number: int
    spans: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line of the old text beside the line of the new text that is in its place."""

    kind: Literal["same", "changed", "removed", "added"]
    old: DiffLine | None
    new: DiffLine | None


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """A changed field. `old` and `new` are its texts, None if there is no such tool. A hunk holds the changed rows that
    are close to each other, with up to 3 rows that are the same before and after them."""

    field: str
    old: str | None
    new: str | None
    hunks: tuple[tuple[DiffRow, ...], ...]


def tool_diff(old: PromptTool | None, new: PromptTool | None) -> list[FieldDiff]:
    """Returns the changed fields in the order of the schema. `old` is None for a new tool, `new` for a deleted one."""
    before, after = ({} if tool is None else tool.to_json() for tool in (old, new))
    return [
        text_diff(field, before.get(field), after.get(field))
        for field in FIELDS
        if before.get(field, "") != after.get(field, "")
    ]


def text_diff(field: str, old: str | None, new: str | None) -> FieldDiff:
    """Returns the difference between two texts under the name `field`. None: there is no such text."""
    return FieldDiff(field, old, new, _hunks(old or "", new or ""))


def to_json(diffs: Sequence[FieldDiff]) -> list[dict[str, Any]]:
    """Returns the rows of each field for a page that shows both versions side by side. A row `gap` stands for `lines`
    unchanged lines that are left out."""
    return [{"field": diff.field, "old": diff.old, "new": diff.new, "rows": _page_rows(diff)} for diff in diffs]


def render_text(diffs: Sequence[FieldDiff], width: int = 80, color: bool = False) -> str:
    """Returns the difference for a terminal of `width` columns. Removed lines begin with `-`, added ones with `+`; a
    line that is too long goes on in the next row, indented. Changed words are marked by `^` in the row below, or, with
    `color`, by reversed colours."""
    if not diffs:
        return "The two versions are the same."
    rows: list[str] = []
    for diff in diffs:
        rows += ([""] if rows else []) + [_styled(diff.field, "1", color)]
        is_short = all("\n" not in (text or "") for text in (diff.old, diff.new))
        for hunk in diff.hunks:
            rows += [] if is_short else [f"  {_place(hunk)}"]
            for is_same, group in groupby(hunk, lambda row: row.kind == "same"):
                block = list(group)
                for sign, lines in _signed(block, is_same):
                    rows += [row for line in lines for row in _terminal_rows(sign, line, width, color)]
    return "\n".join(rows)


def _hunks(old: str, new: str) -> tuple[tuple[DiffRow, ...], ...]:
    rows = list(_rows(_lines(old), _lines(new)))
    shown = {
        near
        for at, row in enumerate(rows)
        if row.kind != "same"
        for near in range(max(at - CONTEXT, 0), min(at + CONTEXT + 1, len(rows)))
    }
    numbered = groupby(enumerate(sorted(shown)), lambda pair: pair[1] - pair[0])
    return tuple(tuple(rows[at] for _, at in run) for _, run in numbered)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _rows(old: list[str], new: list[str]) -> Iterator[DiffRow]:
    for _, old_from, old_to, new_from, new_to in _operations(old, new):
        for at in range(max(old_to - old_from, new_to - new_from)):
            before = old[old_from + at] if old_from + at < old_to else None
            after = new[new_from + at] if new_from + at < new_to else None
            is_same = before == after
            left, right = (((before or "", False),),) * 2 if is_same else _spans(before, after)
            yield DiffRow(
                "same" if is_same else "added" if before is None else "removed" if after is None else "changed",
                None if before is None else DiffLine(old_from + at + 1, left),
                None if after is None else DiffLine(new_from + at + 1, right),
            )


def _operations(old: Sequence[str], new: Sequence[str]) -> list[_Operation]:
    """Returns the steps from `old` to `new`. The middle of texts that would take long to compare is one step."""
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - first
    last = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    numbers = Counter(after)
    equal = sum(count * numbers[item] for item, count in Counter(before).items() if not _is_blank(item))
    middle: list[_Operation] = [("replace", 0, len(before), 0, len(after))]
    if len(before) * len(after) <= _MOST_COMPARED and equal <= _MOST_EQUAL:
        middle = [*SequenceMatcher(_is_blank, before, after, autojunk=False).get_opcodes()]
    found = [("equal", 0, first, 0, first)]
    found += [(kind, a + first, b + first, c + first, d + first) for kind, a, b, c, d in middle]
    return [*found, ("equal", len(old) - last, len(old), len(new) - last, len(new))]


def _is_blank(item: str) -> bool:
    """Returns whether a line or a word is blank: no place where two texts are compared from."""
    return not item.strip()


def _spans(old: str | None, new: str | None) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """Returns the parts of two lines, word by word if the lines are alike, else each as one changed part."""
    if old is None or new is None:
        return ((old or "", True),), ((new or "", True),)
    left, right = _WORD.findall(old), _WORD.findall(new)
    steps = _operations(left, right)
    kept = sum(len("".join(left[a:b])) for kind, a, b, _, _ in steps if kind == "equal")
    if 2 * kept < _ALIKE * (len(old) + len(new)):
        return ((old, True),), ((new, True),)
    return _joined(left, [(kind, a, b) for kind, a, b, _, _ in steps]), _joined(
        right, [(kind, c, d) for kind, _, _, c, d in steps]
    )


def _joined(words: list[str], steps: Sequence[tuple[str, int, int]]) -> tuple[tuple[str, bool], ...]:
    parts = [("".join(words[start:end]), kind != "equal") for kind, start, end in steps if start < end]
    merged = groupby(parts, lambda part: part[1])
    return tuple(("".join(text for text, _ in run), changed) for changed, run in merged) or (("", True),)


def _page_rows(diff: FieldDiff) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    seen = 0
    for hunk in diff.hunks:
        first = next((row.old.number for row in hunk if row.old is not None), seen + 1)
        if first > seen + 1:
            rows.append({"kind": "gap", "lines": first - seen - 1})
        rows += [{"kind": row.kind, "old": _page_line(row.old), "new": _page_line(row.new)} for row in hunk]
        seen = max([seen, *(row.old.number for row in hunk if row.old is not None)])
    left = len(_lines(diff.old or "")) - seen
    return [*rows, {"kind": "gap", "lines": left}] if left else rows


def _page_line(line: DiffLine | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {"line": line.number, "spans": [{"text": text, "changed": changed} for text, changed in line.spans]}


def _place(hunk: tuple[DiffRow, ...]) -> str:
    """Returns the header of a hunk in unified form."""
    sides = [[row.old for row in hunk if row.old is not None], [row.new for row in hunk if row.new is not None]]
    old, new = (f"{lines[0].number if lines else 0},{len(lines)}" for lines in sides)
    return f"@@ -{old} +{new} @@"


def _signed(block: list[DiffRow], is_same: bool) -> list[tuple[str, list[DiffLine]]]:
    new = [row.new for row in block if row.new is not None]
    return [(" ", new)] if is_same else [("-", [row.old for row in block if row.old is not None]), ("+", new)]


def _terminal_rows(sign: str, line: DiffLine, width: int, color: bool) -> Iterator[str]:
    is_marked = not all(changed for _, changed in line.spans)  # a line that is new as a whole needs no marks
    tint = {"-": "31", "+": "32"}.get(sign, "")
    for at, cells in enumerate(_wrapped(_cells(line), max(width - 8, 8))):
        begin = f"  {sign} " if at == 0 else f"  {sign}     "
        marks = "".join(("^" if changed else " ") * _columns(letter) for letter, changed in cells)
        if not color or not tint:
            yield (begin + "".join(letter for letter, _ in cells)).rstrip(" ")
            if is_marked and marks.strip():
                yield " " * len(begin) + marks.rstrip()
            continue
        parts = [
            ("".join(letter for letter, _ in run), changed) for changed, run in groupby(cells, lambda cell: cell[1])
        ]
        yield _styled(begin, tint, color) + "".join(
            _styled(text, f"7;{tint}" if changed and is_marked else tint, color) for text, changed in parts
        )


def _cells(line: DiffLine) -> list[tuple[str, bool]]:
    """Returns the characters to show, each with whether it is changed. Hidden characters, tabs, and a space at the end
    are spelled out."""
    cells = [
        (letter, changed)
        for text, changed in line.spans
        for letter in spell_hidden(text, _code_point).replace("\t", _code_point("\t"))
    ]
    if cells and cells[-1][0].isspace():
        cells[-1:] = [(letter, cells[-1][1]) for letter in _code_point(cells[-1][0])]
    return cells


def _wrapped(cells: list[tuple[str, bool]], width: int) -> Iterator[list[tuple[str, bool]]]:
    """Returns the rows of a line, broken at spaces where possible; the space at a break is left out."""
    start = space = used = at = 0
    while at < len(cells):
        columns = _columns(cells[at][0])
        if used + columns <= width:
            used += columns
            space = at if cells[at][0] == " " and at > start else space
            at += 1
            continue
        end = at if cells[at][0] == " " or space <= start else space
        yield cells[start:end]
        start = end + (cells[end][0] == " ")
        at = max(at, start)
        used = sum(_columns(letter) for letter, _ in cells[start:at])
        space = start
    yield cells[start:]


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _code_point(letter: str) -> str:
    return f"<U+{ord(letter):04X}>"


def _styled(text: str, codes: str, color: bool) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if color else text
