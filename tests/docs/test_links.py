"""Every link of a page leads to a file of the repository, and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`([\w-]+/[\w./-]+\.py|(?:src|tests|docs)/[\w./-]+)`")
BASES = (ROOT, ROOT / "src" / "demiurge")


def headings(page: Path) -> set[str]:
    """The anchors that a page has, as they are made from its headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in LINK.findall(page.read_text("utf-8")):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        found = (page.parent / target).resolve() if target else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in headings(found)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_files_that_a_contributor_is_sent_to_are_there(page: str) -> None:
    named = set(PATH.findall((ROOT / page).read_text("utf-8")))
    ours = {name for name in named if not re.search(r"thing|NAME|yours", name)}
    assert len(ours) > 15
    assert [name for name in sorted(ours) if not any((base / name).exists() for base in BASES)] == []


def test_the_tests_that_the_page_of_faults_names_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs/design/agentos-faults.md").read_text("utf-8"))
    assert len(named) > 25
    for file, test in named:
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert f"def {test}(" in text if test else "def test_" in text, (file, test)
