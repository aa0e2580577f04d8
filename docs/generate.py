"""Writes what the docs take from elsewhere: the examples' code and output, and the command line's help.

`python docs/generate.py` writes, `--check` says what is out of date. Output is taken by running the example, so what a page
shows is what happens; an example that needs a model has its output recorded with the scripted one of the tests.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- (examples/[\w./]+) -->\n```\w+\n)(.*?)(```\n)", re.DOTALL)


def included(page: str) -> str:
    """The page with the code of its examples as it is now."""
    return BLOCK.sub(lambda m: m[1] + (DOCS / m[2]).read_text("utf-8") + m[4], page)


def main() -> int:
    stale = []
    for path in (*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"):
        now = path.read_text("utf-8")
        if (fresh := included(now)) != now:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(fresh, "utf-8")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
