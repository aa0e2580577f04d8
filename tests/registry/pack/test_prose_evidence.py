"""Evidence of the core tools that read prose: every item stands in its file, whatever the file holds."""

from __future__ import annotations

import asyncio
import string
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.registry.pack.prose_calls import CALLS
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.pack.result import Gathered
from demiurge.registry.pack.sources import split_lines
from demiurge.registry.pack.text import QUOTE

QUOTED = {
    *("text", "original", "quote", "excerpt", "content", "scene_content"),
    *("opening", "ending", "from_ending", "to_opening"),
}

PIECES = st.sampled_from(
    [
        *(
            "## Scene 1: The Gate (POV: Ann)\n",
            "POV: Bo\n",
            "# Title\n",
            "***\n",
            "- ",
            "\n\n",
            "\r\n",
            "  ",
            " ",
            "\n",
        ),
        *("Mara ", "Vale ", "must ", "if ", "but ", "really ", "slowly ", "dawn ", "lantern ", "Dr. ", ". ", "? ", '"'),
        *("\u201c", "\u201d", "\u2019", "...", "word " * 40, "x" * 300, "word\n" * 40),
    ]
)
TEXTS = st.lists(PIECES | st.text(string.printable + "é\u2028\u00a0", max_size=20), max_size=40).map("".join)


@pytest.mark.parametrize("tool", CALLS)
@given(first=TEXTS, second=TEXTS)
@settings(max_examples=60, deadline=None)
def test_every_quote_stands_on_its_lines(tool: str, first: str, second: str) -> None:
    files = {"a.md": first, "b.md": second}
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_gathered(tool, files, Path(folder)))
        assert found == asyncio.run(_gathered(tool, files, Path(folder)))
    for item in found.evidence:
        lines = split_lines(files[item.path])
        assert 1 <= item.start_line <= item.end_line <= len(lines)
        assert item.quote
        assert item.quote in "\n".join(lines[item.start_line - 1 : item.end_line])
        assert item.sha256 == "sha256:" + sha256(files[item.path].encode()).hexdigest()
    for text in _quoted(found.value):
        assert any(text[:QUOTE].rstrip() in item.quote for item in found.evidence)


def _quoted(value: Any) -> Iterator[str]:
    """Yields the texts of a result that come from a file."""
    if isinstance(value, list):
        for entry in value:
            yield from _quoted(entry)
    elif isinstance(value, dict):
        yield from (text for name, text in value.items() if name in QUOTED and text)
        for entry in value.values():
            yield from _quoted(entry)


async def _gathered(tool: str, files: dict[str, str], folder: Path) -> Gathered:
    return await CALLS[tool](sources_with(folder, files))
