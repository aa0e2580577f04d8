"""Makes the pictures of docs/terminal.md: `python -m tests.cli.terminal.pictures [FOLDER]`.

A chat runs on a pseudo-terminal against a provider that says what is written here; what the emulated terminal shows at
the end of each scene becomes an SVG file, in the colours of a light or a dark terminal.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.cli.test_terminal import Terminal
from tests.provider import Answer, Provider, serving

__all__ = ["SCENES", "Scene", "play", "svg"]

IMAGES: Final = Path(__file__).parents[3] / "docs" / "images"
PALETTES: Final = {
    "dark": {
        "default": "#d0d0d0",
        "background": "#1e1e1e",
        "black": "#1e1e1e",
        "red": "#e06c75",
        "green": "#7fb069",
        "brown": "#d7a65f",
        "blue": "#61afef",
        "magenta": "#c678dd",
        "cyan": "#56b6c2",
        "white": "#d0d0d0",
    },
    "light": {
        "default": "#303030",
        "background": "#fafafa",
        "black": "#303030",
        "red": "#b3261e",
        "green": "#3a7d1f",
        "brown": "#8a6100",
        "blue": "#0a56c2",
        "magenta": "#96259c",
        "cyan": "#00707c",
        "white": "#a0a0a0",
    },
}
CELL_X, CELL_Y, EDGE = 8.4, 18, 10

ANSWER: Final = """## Stock at the end of today

It is **00:23** in Tokyo. The stock of `shelf 3`, with what was ordered:

| part | in stock | ordered | note |
|:-----|------:|------:|:-----|
| bolt M4 | 120 | 20 | arrives on Friday |
| nut M4 | 80 | 0 | enough for two weeks, as far as I can tell |

1. Count again on Friday.
2. Order **nuts** if fewer than 50 are left.

```python
def missing(stock: dict[str, int], least: int = 50) -> list[str]:
    \"\"\"Returns the parts to order.\"\"\"
    return [part for part, count in stock.items() if count < least]
```

> The count is from the ledger, see [the page](https://example.com/ledger).
"""
PLAN: Final = "# Plan\n\n1. Order 20 bolts of the type M4, because fewer than 150 are left\n2. Count the nuts\u202e \n"
LONG: Final = "\n".join(f"Step {number}: look at shelf {number}" for number in range(1, 61))


def _call(path: str, text: str) -> Answer:
    return Provider.answer(Provider.call("workspace__write", {"path": path, "text": text}, path))


class Scene(NamedTuple):
    """A talk: what the model answers, and what the person types once the words before it were shown. `last` are the
    last words to wait for."""

    answers: Sequence[Answer]
    keys: Sequence[tuple[str, str]]
    last: str


PROMPT: Final = "chat main · "
TIME: Final = Provider.answer(Provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"}))
SCENES: Final = {
    "turn": Scene((TIME, Provider.answer(Provider.text(ANSWER))), [(PROMPT, "How is the stock?\n")], "tokens"),
    "card": Scene((_call("notes/plan.md", PLAN),), [(PROMPT, "Write the plan.\n")], "? why:"),
    "card-long": Scene((_call("notes/steps.md", LONG),), [(PROMPT, "Write all steps.\n")], "? why:"),
    "rule": Scene(
        (_call("notes/plan.md", "Count."),),
        [(PROMPT, "Write the plan.\n"), ("? why:", "a path=notes/* text=*\n")],
        "or change it:",
    ),
    "tools": Scene((Provider.answer(Provider.text("Hello.")),), [(PROMPT, "/tools\n")], "shows one of them"),
    "help": Scene((Provider.answer(Provider.text("Hello.")),), [(PROMPT, "/help\n")], "Leave."),
    "cost": Scene(
        (TIME, Provider.answer(Provider.text("It is late."))),
        [(PROMPT, "What time is it?\n"), ("tokens in", ""), (PROMPT, "/cost\n")],
        "COST",
    ),
    "why": Scene(
        (Provider.answer(Provider.text("Hello.")),), [(PROMPT, "/why workspace__write\n")], "changes the state"
    ),
}


def play(scene: Scene, columns: int, **environment: str) -> Terminal:
    """Returns the terminal at the end of a scene; close it."""
    with serving() as provider, tempfile.TemporaryDirectory() as home:
        provider.say(*scene.answers)
        given = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("DEMIURGE_", "XDG_"))},
            "LLM_API_KEY": "sk-picture",
            "OPENAI_BASE_URL": provider.url,
            "HOME": home,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "TERM": "xterm-256color",
            **environment,
        }
        given.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
        terminal = Terminal(("chat",), given, Path(home), columns, program=("demiurge",))
        try:
            for words, keys in scene.keys:
                terminal.expect(words)
                terminal.type(keys)
            terminal.expect(scene.last)
            terminal.settle()
        finally:
            terminal.process.kill()
        return terminal


def svg(terminal: Terminal, background: str) -> str:
    """Returns what a terminal shows, with what has scrolled away, as an SVG picture."""
    screen, palette = terminal.screen, PALETTES[background]
    rows = [*screen.history.top, *(screen.buffer[row] for row in range(screen.lines))]
    cells = [[row[column] for column in range(screen.columns)] for row in rows]
    while cells and not "".join(cell.data for cell in cells[-1]).strip():
        cells.pop()
    width, height = screen.columns * CELL_X + 2 * EDGE, len(cells) * CELL_Y + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">'
        f'<rect width="100%" height="100%" rx="6" fill="{palette["background"]}"/>'
        '<g font-family="Menlo, DejaVu Sans Mono, Consolas, monospace" font-size="14" xml:space="preserve">'
    ]
    for number, row in enumerate(cells):
        parts += _row(row, EDGE + number * CELL_Y, palette)
    return "".join(parts) + "</g></svg>\n"


def _row(row: Sequence[Any], top: float, palette: dict[str, str]) -> list[str]:
    runs: list[tuple[int, str, Any]] = []
    for column, cell in enumerate(row):
        style = (cell.fg, cell.bg, cell.bold, cell.italics, cell.underscore, cell.reverse)
        if runs and runs[-1][2] == style:
            runs[-1] = (runs[-1][0], runs[-1][1] + (cell.data or ""), style)
        else:
            runs.append((column, cell.data, style))
    parts = []
    for column, text, (fg, bg, bold, italic, underline, reverse) in runs:
        x, colour = EDGE + column * CELL_X, palette.get(fg, f"#{fg}" if len(fg) == 6 else palette["default"])
        if reverse:
            bg, colour = colour, palette["background"]
        if bg != "default":
            fill = bg if bg.startswith("#") else palette.get(bg, palette["default"])
            parts.append(f'<rect x="{x:.1f}" y="{top}" width="{len(text) * CELL_X:.1f}" height="18" fill="{fill}"/>')
        words, column = text.rstrip(), column + len(text) - len(text.lstrip())
        words, x = words.lstrip().replace(" ", "\u00a0"), EDGE + column * CELL_X
        if words:
            style = 'font-weight="bold" ' * bold + 'font-style="italic" ' * italic
            style += 'text-decoration="underline" ' * underline
            size = f'textLength="{len(words) * CELL_X:.1f}" lengthAdjust="spacingAndGlyphs"'
            parts.append(f'<text x="{x:.1f}" y="{top + 14}" fill="{colour}" {style}{size}>{escape(words)}</text>')
    return parts


def main(folder: Path, chosen: Callable[[str], bool] = lambda _: True) -> None:
    """Writes the pictures: wide and dark, narrow and light; one without colours."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, scene in SCENES.items():
        for columns, background in ((100, "dark"), (60, "light")):
            file = folder / f"terminal-{name}-{columns}.svg"
            if chosen(file.stem):
                file.write_text(svg(play(scene, columns), background), encoding="utf-8")
    if chosen("terminal-turn-plain"):
        plain = svg(play(SCENES["turn"], 60, NO_COLOR="1"), "light")
        (folder / "terminal-turn-plain.svg").write_text(plain, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES, lambda name: all(word in name for word in sys.argv[2:]))
