"""Markdown of a model as it comes: finished blocks are laid out once, the open one is shown as far as it goes.

Whether a block is finished is decided by whole lines alone. The source of a code block is printed as it is, between its
fences, so that it can be copied.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String
from pygments.token import Token as Code
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from demiurge.cli import output
from demiurge.cli.terminal.screen import Screen

__all__ = ["MarkdownStream"]

DEEPEST: Final = 20
"""The deepest nesting of blocks that is laid out. The parser drops deeper ones, so their text is shown as it is."""

LONGEST: Final = 20_000
"""The most characters of an open block that are laid out at each drawing, and of code that is highlighted."""

PARSER: Final = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST}).enable(["strikethrough", "table"])
"""Takes no HTML: what looks like it, as `List<int>`, is text."""

CODE_THEME: Final = ANSISyntaxTheme(
    {
        Code: Style(),
        Comment: Style(dim=True),
        Keyword: Style(color="magenta"),
        Operator.Word: Style(color="magenta"),
        Name.Function: Style(bold=True),
        Name.Class: Style(bold=True),
        Name.Builtin: Style(color="cyan"),
        Name.Decorator: Style(color="cyan"),
        Name.Tag: Style(color="magenta"),
        Name.Attribute: Style(color="cyan"),
        String: Style(color="green"),
        Number: Style(color="cyan"),
        Literal: Style(color="cyan"),
        Generic.Deleted: Style(color="red"),
        Generic.Inserted: Style(color="green"),
        Generic.Heading: Style(bold=True),
    }
)
"""Colours of code that can be read on a light and on a dark background; the background stays the terminal's."""


class MarkdownStream:
    """The text of one answer. `feed` takes pieces; `take` returns the lines of what is finished, `preview` those of the
    rest."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._rest = ""
        self._is_begun = False

    def feed(self, text: str) -> None:
        self._rest += output.plain(text.replace("\r\n", "\n"))

    def take(self, *, everything: bool = False) -> list[str]:
        """Returns the lines of the blocks that are finished since the last call; at the end of `everything`."""
        finished, self._rest = (self._rest, "") if everything else _divided(self._rest)
        return self._lines(finished, is_kept=True)

    def preview(self) -> list[str]:
        """Returns the lines of the open block so far; of a long one the end, as it is."""
        if len(self._rest) > LONGEST:
            return self._screen.lines(Text(self._rest[-LONGEST:]))
        return self._lines(self._rest, is_kept=False)

    def _lines(self, source: str, *, is_kept: bool) -> list[str]:
        lines: list[str] = []
        is_begun = self._is_begun
        for block in _blocks(source):
            shown = self._block(block)
            if shown:
                lines += ["", *shown] if is_begun else shown
                is_begun = True
        if is_kept:
            self._is_begun = is_begun
        return lines

    def _block(self, source: str) -> list[str]:
        tokens = PARSER.parse(source)
        if len(tokens) == 1 and tokens[0].type == "fence":
            return self._code(tokens[0], source)
        is_too_deep = any(token.nesting == 1 and token.level + 1 >= DEEPEST for token in tokens)
        lines = self._screen.lines(Text(source) if is_too_deep else _Markdown(source, tokens))
        filled = [number for number, line in enumerate(lines) if line.strip()]
        return lines[filled[0] : filled[-1] + 1] if filled else []

    def _code(self, fence: Token, source: str) -> list[str]:
        written = source.rstrip("\n").split("\n")
        is_closed = len(written) > 1 and written[-1].strip().startswith(fence.markup)
        body = fence.content.rstrip("\n")
        lines = self._screen.unwrapped(_highlighted(body, fence.info)) if body else []
        edge = self._screen.unwrapped(Text(f"{fence.markup}{fence.info}", style="dim"))
        end = self._screen.unwrapped(Text(fence.markup, style="dim")) if is_closed else []
        return [*edge, *lines, *end]


def _divided(source: str) -> tuple[str, str]:
    """Returns the finished blocks and the rest, which begins with the last block of the whole lines."""
    whole = source[: source.rfind("\n") + 1]
    starts = _starts(whole)
    if len(starts) < 2:
        return "", source
    lines = source.split("\n")
    return "\n".join(lines[: starts[-1]]) + "\n", "\n".join(lines[starts[-1] :])


def _blocks(source: str) -> list[str]:
    """Returns the sources of the blocks."""
    starts, lines = _starts(source), source.split("\n")
    ends = [*starts[1:], len(lines)] if starts else []
    return ["\n".join(lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _starts(source: str) -> list[int]:
    """Returns the numbers of the lines, from 0, at which blocks begin."""
    tokens = PARSER.parse(source)
    return sorted({token.map[0] for token in tokens if token.level == 0 and token.map is not None})


def _highlighted(code: str, info: str) -> Text:
    words = info.split() if len(code) <= LONGEST else []
    shown = Syntax(code, words[0] if words else "text", theme=CODE_THEME, background_color="default").highlight(code)
    shown.rstrip()
    shown.expand_tabs(8)
    return shown


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _highlighted(str(self.text).rstrip(), self.lexer_name)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _TableElement(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, border_style="markdown.table.border")
        for column in self.header.row.cells if self.header is not None and self.header.row is not None else ():
            heading = column.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold", justify=column.justify)
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Markdown(Markdown):
    def __init__(self, source: str, tokens: list[Token]) -> None:
        super().__init__("", hyperlinks=False)
        self.markup, self.parsed = source, tokens

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "heading_open": _Heading,
        "table_open": _TableElement,
    }
