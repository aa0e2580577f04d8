"""The limits of the texts that an author writes for a model, and what to do about a text that breaks one."""

from __future__ import annotations

from typing import Final

from demiurge.tools.authoring.hidden_text import hidden_character

__all__ = ["MAX_DESCRIPTION", "MAX_DETAILS", "docstring_problem", "text_problem", "tidy_text"]

MAX_DESCRIPTION: Final = 200
"""The maximum length of a description, in characters. It is the one line that lists show."""

MAX_DETAILS: Final = 2_000
"""The maximum length of details, in characters."""


def tidy_text(text: str) -> str:
    """Returns a text without white space around it, with line feeds as its line breaks."""
    return text.replace("\r\n", "\n").strip()


def text_problem(what: str, text: str, *, limit: int, advice: str, may_be_empty: bool = False) -> str | None:
    """Returns why a text cannot be used, such as `the description has 236 characters, the limit is 200: ...`; None if
    it can. `what`: the text's name in a sentence; `advice`: what to do about a text that is too long."""
    if not text and not may_be_empty:
        return f"{what} is empty: write 1 to {limit:,} characters"
    if len(text) > limit:
        return f"{what} has {len(text):,} characters, the limit is {limit:,}: {advice}"
    if hidden := hidden_character(text):
        place = text.index(chr(int(hidden.removeprefix("U+"), 16))) + 1
        return f"{what} has the invisible character {hidden} at position {place}: take it out"
    return None


def docstring_problem(name: str, text: str) -> str | None:
    """Returns why a text of a docstring cannot be the tool's `description` or `details`, and what to do; None if it
    can."""
    if name == "details":
        what, advice = "the docstring after its first paragraph", 'shorten it, or pass details= ("" for none)'
        return text_problem(what, text, limit=MAX_DETAILS, advice=advice, may_be_empty=True)
    if not text:
        return "write a docstring or pass description="
    advice = f"shorten it (the rest of the docstring may have {MAX_DETAILS:,}), or pass description="
    return text_problem("the first paragraph of the docstring", text, limit=MAX_DESCRIPTION, advice=advice)
