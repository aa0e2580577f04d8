"""Finds invisible characters in text, so that nothing is hidden from a person and visible to a model.

Control characters move the cursor of terminals, bidi overrides reorder words, and characters without a shape (tags,
fillers, variation selectors) can carry whole instructions that no reviewer sees. Letters of every script are kept.

The ranges are written out and not taken from `unicodedata`, because a spec's hash must not depend on the Python
version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["hidden_character", "hidden_in", "plain_json", "spell_hidden", "without_hidden"]

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u2028\u2029"
    "\ufe00-\ufe0d"  # variation selectors; the two of emoji are below
    "\ud800-\udfff\ue000-\uf8ff\ufffe\uffff"  # code points that are not characters, and private ones
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
_SHAPING = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners and emoji selectors, which Persian, Hindi and emoji need."""

_ALL = re.compile(f"[{_HIDDEN}{_SHAPING}]")
_UNSHAPED = re.compile(f"[{_HIDDEN}]")


def hidden_character(text: str) -> str | None:
    """Returns the first forbidden character of an author's `text`, as `U+202E`; None if there is none. Tab, line
    feed, and what shapes letters and emoji are allowed."""
    found = _UNSHAPED.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def hidden_in(node: Any, path: str = "#") -> tuple[str, str] | None:
    """Returns the place of a text or name in a schema that has a forbidden character, and the character:
    `("#/properties/q", "U+202E")`; None if there is none. The place leaves hidden characters out. A line may end in
    CR LF."""
    if isinstance(node, str):
        found = hidden_character(node.replace("\r\n", "\n"))
        return (path, found) if found else None
    children = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, dict) else ()
    for key, child in children:
        below = f"{path}/{without_hidden(str(key))}"
        if found_below := hidden_in(str(key), below) or hidden_in(child, below):
            return found_below
    return None


def without_hidden(text: str) -> str:
    """Returns a foreign `text` without hidden characters. Line breaks of every kind become line feeds."""
    return _ALL.sub("", "\n".join(text.splitlines()))


def plain_json(node: Any) -> Any:
    """Returns foreign JSON whose texts and names have no hidden characters. A line feed at the end of a text stays."""
    if isinstance(node, str):
        return without_hidden(f"{node}|")[:-1]
    if isinstance(node, Mapping):
        return {plain_json(str(key)): plain_json(value) for key, value in node.items()}
    return [plain_json(each) for each in node] if isinstance(node, Sequence) else node


def spell_hidden(text: str, spell: Callable[[str], str]) -> str:
    """Returns `text` with each hidden character replaced by `spell` of it, so that a person sees it. Tabs and line
    feeds stay."""
    return _ALL.sub(lambda found: spell(found[0]), text)
