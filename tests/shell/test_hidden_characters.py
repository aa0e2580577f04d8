"""The characters that the web shell shows by number are those that the server refuses or spells out."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.async_api import expect
from tests.shell.conftest import Screen

from demiurge.tools.authoring.hidden_text import spell_hidden

SOURCE = Path(__file__).parents[2] / "shell" / "src" / "parts" / "verbatim.tsx"

EMOJI_SELECTORS = "\ufe0e\ufe0f"
"""The page leaves them in emoji; a terminal spells them out."""


def shown_by_number() -> set[str]:
    """Returns the characters that the pattern of the web shell matches."""
    found = re.search(r"const HIDDEN =\s+/(\S+)/gu;", SOURCE.read_text(encoding="utf-8"))
    assert found is not None
    pattern = re.sub(r"\\u\{([0-9a-f]+)\}", lambda code: rf"\U{int(code[1], 16):08x}", found[1])
    return set(re.findall(pattern, "".join(map(chr, range(sys.maxunicode + 1)))))


def test_the_page_shows_by_number_what_the_server_spells_out() -> None:
    spelled = {letter for letter in map(chr, range(sys.maxunicode + 1)) if spell_hidden(letter, lambda _: "") == ""}
    assert shown_by_number() == spelled - set(EMOJI_SELECTORS)


async def test_fillers_and_private_characters_are_shown_and_emoji_stay(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    await page.get_by_label("Prompt", exact=True).fill("a\u034fb\u3164c\ue000d\ufe00e\U000e0100f\U0010fffdg ❤️")
    marked = page.locator(".field-verbatim .hidden-character")
    await expect(marked).to_have_text(["U+034F", "U+3164", "U+E000", "U+FE00", "U+E0100", "U+10FFFD"])
    await expect(page.locator(".field-verbatim")).to_contain_text("❤️")
