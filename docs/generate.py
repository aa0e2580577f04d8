"""Writes what the docs take from elsewhere: the examples' code and what they print, the command line's help,
the docstrings, the tables of the effect kinds, and the pages of the notebooks.

`python docs/generate.py` writes; with `--check` it exits with 1 and says which pages are not current. What an example
prints is checked by running it, in `tests/docs`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import api_reference
import cli_reference
import effects_reference
import http_reference
import notebook_pages

DOCS = Path(__file__).parent
INCLUDED = re.compile(r"(<!-- (examples/[\w/.]+) -->\n```\w+\n)(.*?)(```\n)", re.DOTALL)

TABLE = re.compile(r"(<!-- table of ([\w ]+) -->\n)((?:\|.*\n)*)")


def pages() -> dict[Path, str]:
    """Every page that takes something from elsewhere, as it should be."""
    written = {DOCS / "api.md": api_reference.page(), DOCS / "cli.md": cli_reference.page()}
    written[DOCS / "http-reference.md"] = http_reference.page()
    written |= notebook_pages.pages()
    for path in (*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"):
        if path not in written:
            written[path] = TABLE.sub(_table, INCLUDED.sub(_included, path.read_text("utf-8")))
    return written


def _included(block: re.Match[str]) -> str:
    return block[1] + (DOCS / block[2]).read_text("utf-8") + block[4]


def _table(block: re.Match[str]) -> str:
    return block[1] + "".join(f"{line}\n" for line in effects_reference.TABLES[block[2]]())


def main() -> None:
    stale = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    if "--check" not in sys.argv:
        for path, text in stale.items():
            path.write_text(text, encoding="utf-8")
    elif stale:
        sys.exit(f"not current: {', '.join(path.name for path in stale)}; run `make docs`")


if __name__ == "__main__":
    main()
