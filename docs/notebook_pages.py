"""Pages of the notebooks with their stored outputs, so that a reader sees them without running anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"

_STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)


def pages() -> dict[Path, str]:
    """The page of each notebook, by its path."""
    return {path.with_suffix(".md"): _page(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}


def _page(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    made = f"This page is made by `docs/generate.py` from [{path.name}]({path.name}), which runs as a test."
    parts = [part for cell in cells for part in _cell(cell)]
    return "\n\n".join([parts[0], made, *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = _text(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "text/html" in data:  # without its style sheet: the page has its own
            yield _STYLE.sub("", _text(data["text/html"]))
        else:
            yield f"```text\n{_text(data['text/plain']).rstrip()}\n```"


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
