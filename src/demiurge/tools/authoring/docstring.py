"""Reads the description of a function and its parameters from its docstring, so that it is written once.

Reads the first paragraph, and the parameter lists of Google (`Args:`) and Sphinx (`:param name:`) style.
"""

from __future__ import annotations

import re

__all__ = ["parameter_texts", "summary"]

_SECTION = re.compile(r"^(args|arguments|attributes|parameters|params)\s*:\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^:(?:param|ivar|var)\s+(?:[^:\s]+\s+)?(\w+)\s*:\s*(.*)$")


def summary(doc: str) -> str:
    """Returns the first paragraph on one line; "" if there is none. `doc` has its indentation removed."""
    lines: list[str] = []
    for line in doc.strip().splitlines():
        if not line.strip() or _SECTION.match(line.strip()) or _SPHINX.match(line.strip()):
            break
        lines.append(line.strip())
    return " ".join(lines)


def parameter_texts(doc: str) -> dict[str, str]:
    """Returns the description of each documented parameter, continuation lines joined."""
    texts: dict[str, str] = {}
    current: str | None = None
    base: int | None = None  # indentation of the entries of the open `Args:` section; None outside one
    in_section = False
    for line in doc.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped:
            current = None
            continue
        if _SECTION.match(stripped):
            in_section, base, current = True, None, None
            continue
        if sphinx := _SPHINX.match(stripped):
            current, in_section = sphinx[1], False
            texts[current] = sphinx[2]
            continue
        if in_section and indent == 0:
            in_section, current = False, None
        entry = _ENTRY.match(stripped)
        if in_section and entry and (base is None or indent <= base):
            base, current = indent, entry[1]
            texts[current] = entry[2]
        elif current is not None:
            texts[current] = f"{texts[current]} {stripped}".strip()
    return {name: text for name, text in texts.items() if text}
