"""Views of results in a notebook: one description of what to show, written as HTML and as Markdown.

Invariant: texts of tools and models are shown, and never become markup. Each text is escaped, hidden characters are
spelled out, and there is no script, no link and no external resource. A dollar sign and a backslash stand in elements
of their own, so that no notebook takes text for a formula. Colours are those of the notebook, light or dark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from demiurge.tools.authoring.hidden_text import spell_hidden

__all__ = ["ShownRows", "Table", "Verbatim", "View", "clipped", "json_code", "shown"]

MOST_ROWS: Final = 200
"""The most rows of a table that are shown."""

MOST_CHARACTERS: Final = 4000
"""The most characters of a text that are shown."""

_STYLE: Final = (
    ".dmg{color:inherit;font:inherit;line-height:1.4;max-width:60em;overflow-x:auto}"
    ".dmg table{border-collapse:collapse;margin:.4em 0;color:inherit}"
    ".dmg th,.dmg td{border:1px solid rgba(128,128,128,.4);padding:.2em .6em;text-align:left;vertical-align:top;"
    "color:inherit;background:transparent;overflow-wrap:anywhere;white-space:pre-wrap;max-width:40em}"
    ".dmg td{min-width:5em}.dmg th{font-weight:600;white-space:nowrap}"
    ".dmg .n{min-width:0;text-align:right;white-space:nowrap}"
    ".dmg pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4em 0;padding:.4em .6em;max-height:24em;"
    "overflow:auto;color:inherit;background:rgba(128,128,128,.12)}"
    ".dmg p{margin:.3em 0;white-space:pre-wrap;overflow-wrap:anywhere}.dmg .bad{font-weight:600}"
    ".dmg .bad::before{content:'\\2717\\00a0'}"
)

_ESCAPES: Final = {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord('"'): "&quot;",
    ord("'"): "&#x27;",
    ord("$"): "<span>$</span>",
    ord("\\"): "<span>&#92;</span>",
}
_SHAPING: Final = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners and emoji selectors, which Persian, Hindi and emoji need."""

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&$:@=^])")


class Verbatim(str):
    """A text that is shown as it is, in a fixed width."""

    __slots__ = ()


Cell: TypeAlias = str | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their headers. Numbers are set to the right; None is an empty cell."""

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class View:
    """A description of what to show: a title, a problem if there is one, facts by their names, and then paragraphs
    (`str`), `Verbatim` and tables."""

    title: str
    problem: str = ""
    facts: Sequence[tuple[str, Cell]] = ()
    parts: Sequence[str | Verbatim | Table] = ()


T = TypeVar("T")


def shown(kind: type[T]) -> type[T]:
    """Lets notebooks show the values of a class by what its method `_view` returns, a `View`. A decorator, so that a
    class with slots keeps the layout that `fast_constructor` needs."""

    def as_html(self: Any) -> str:
        return _html(self._view())

    def as_markdown(self: Any) -> str:
        return _markdown(self._view())

    kind._repr_html_ = as_html  # type: ignore[attr-defined]
    kind._repr_markdown_ = as_markdown  # type: ignore[attr-defined]
    return kind


@shown
class ShownRows(list[dict[str, Any]]):
    """A list of dicts that notebooks show as a table, with the columns that it is made with."""

    __slots__ = ("_columns", "_title")

    def __init__(self, rows: Iterable[dict[str, Any]], title: str, columns: Sequence[str]) -> None:
        super().__init__(rows)
        self._title, self._columns = title, tuple(columns)

    def _view(self) -> View:
        rows = [[_cell(row.get(column)) for column in self._columns] for row in self]
        return View(f"{self._title}: {len(self)}", parts=[Table(self._columns, rows)] if rows else [])


def json_code(value: Any) -> Verbatim:
    """Returns JSON-ready data as indented text; anything else in it as its `repr()`."""
    return Verbatim(json.dumps(value, ensure_ascii=False, indent=2, default=repr))


def clipped(text: str, most: int) -> str:
    """Returns the first `most` characters of a text, with a sign if there are more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _cell(value: Any) -> Cell:
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False, default=repr)


def _plain(text: str) -> str:
    """Returns a text as it may be shown: not too long, with hidden characters spelled out."""
    return spell_hidden(clipped(text, MOST_CHARACTERS), _spelled)


def _spelled(character: str) -> str:
    return character if character in _SHAPING else f"⟨U+{ord(character):04X}⟩"


def _html(view: View) -> str:
    parts = [f"<strong>{_escaped(view.title)}</strong>"]
    if view.problem:
        parts.append(f'<p class="bad" dir="auto">{_escaped(view.problem)}</p>')
    if view.facts:
        rows = "".join(
            f'<tr><th scope="row">{_escaped(name)}</th>{_html_cell(value)}</tr>' for name, value in view.facts
        )
        parts.append(f"<table><tbody>{rows}</tbody></table>")
    for part in view.parts:
        if isinstance(part, Table):
            parts.append(_html_table(part))
        else:
            tag = "pre" if isinstance(part, Verbatim) else "p"
            parts.append(f'<{tag} dir="auto">{_escaped(part)}</{tag}>')
    body = "\n".join(parts)
    return f'<div class="dmg tex2jax_ignore mathjax_ignore"><style>{_STYLE}</style>\n{body}\n</div>'


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in table.headers)
    rows = "\n".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in table.rows[:MOST_ROWS])
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>{_left_out(table, '<p>{}</p>')}"


def _html_cell(value: Cell) -> str:
    if isinstance(value, int):
        return f'<td class="n">{value:,}</td>'
    return f'<td dir="auto">{_escaped(value or "")}</td>'


def _escaped(text: str) -> str:
    return _plain(text).translate(_ESCAPES)


def _left_out(table: Table, form: str) -> str:
    left = len(table.rows) - MOST_ROWS
    return form.format(f"{left:,} more rows are not shown.") if left > 0 else ""


def _markdown(view: View) -> str:
    title = _marked(view.title)
    parts = [f"**{title}**"] if title else []
    if view.problem:
        parts.append(_marked(view.problem))
    if view.facts:
        parts.append("\n".join(f"* {_marked(name)}: {_marked_cell(value)}" for name, value in view.facts))
    for part in view.parts:
        if isinstance(part, Table):
            parts.append(_markdown_table(part))
        elif isinstance(part, Verbatim):
            text = _plain(part)
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            parts.append(f"{fence}text\n{text}\n{fence}")
        else:
            parts.append("\n\n".join(_marked(line) for line in part.splitlines() if line.strip()))
    return "\n\n".join(filter(None, parts))


def _markdown_table(table: Table) -> str:
    lines = ["| " + " | ".join(map(_marked, table.headers)) + " |", "|" + " --- |" * len(table.headers)]
    lines += ["| " + " | ".join(map(_marked_cell, row)) + " |" for row in table.rows[:MOST_ROWS]]
    return "\n".join(lines) + _left_out(table, "\n\n{}")


def _marked_cell(value: Cell) -> str:
    return f"{value:,}" if isinstance(value, int) else _marked(value or "")


def _marked(text: str) -> str:
    """Returns a text as one line of Markdown that shows exactly it."""
    return _MARKDOWN.sub(r"\\\1", " ".join(_plain(text).split()))
