"""The pages of the documentation: their length, and that each page is in the navigation of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GENERATED = {"api.md", "cli.md", "http-reference.md"}
LONGEST = 250
"""How many lines a page that people write may have."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_that_people_write_is_short(page: Path) -> None:
    if page.name not in GENERATED:
        assert len(page.read_text("utf-8").splitlines()) <= LONGEST


def test_a_picture_shows_no_path_of_the_machine_that_drew_it() -> None:
    pictures = sorted((DOCS / "images").glob("*.svg"))
    assert pictures
    shown = {picture.name: re.sub(r"<[^>]*>", "", picture.read_text("utf-8")) for picture in pictures}
    assert {name for name, text in shown.items() if "demiurge.cli" in text or re.search(r"/\w+/\w+/", text)} == set()
