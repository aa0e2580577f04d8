"""Text that is what it looks like: nothing in it is hidden from a person and told to a model.

Control characters move terminals, bidi overrides turn words around, and characters without a shape (tags,
fillers, variation selectors) carry whole instructions that no reviewer sees. Letters of every script stay.

The ranges are written out and not taken from `unicodedata`: a spec's hash must not depend on the Python version.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["hidden_character", "hidden_in", "without_hidden"]

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for tab and line feed
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u2028\u2029"
    "\ufe00-\ufe0d"  # variation selectors; the two of emoji are below
    "\ud800-\udfff\ue000-\uf8ff\ufffe\uffff"  # no characters, and private ones
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
_SHAPING = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners and emoji selectors: Persian, Hindi and emoji are written with them."""

_ALL = re.compile(f"[{_HIDDEN}{_SHAPING}]")
_UNSHAPED = re.compile(f"[{_HIDDEN}]")


def hidden_character(text: str) -> str | None:
    """The first character of an author's `text` that must not be there, as `U+202E`; None if there is none. Tab,
    line feed and what shapes letters and emoji may be there."""
    found = _UNSHAPED.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def hidden_in(node: Any, path: str = "#") -> tuple[str, str] | None:
    """Where in a schema a text or a name has such a character, and which: `("#/properties/q", "U+202E")`; None if
    there is none. Hidden characters are left out of the place. A line may end in CR LF."""
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
    """A stranger's `text` without any of them. Line breaks of every kind become line feeds."""
    return _ALL.sub("", "\n".join(text.splitlines()))
