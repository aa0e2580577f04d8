"""Texts with `$placeholders`: `string.Template`, and nothing that is put in is ever read again.

A text is dedented and stripped before anything is put in, so the lines of a value stay as they are. `$$` is a dollar
sign. What is wrong with a text is found without its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from textwrap import dedent
from typing import Any

__all__ = ["fill", "names_in", "tidy"]


def tidy(text: str) -> str:
    """`text` as it is hashed, overridden and filled: without common indentation and outer white space."""
    return dedent(text).strip()


def names_in(text: str) -> tuple[str, ...]:
    """The placeholders of `text`, each once, in order. Raises ValueError for a `$` that begins none."""
    template = Template(text)
    if not template.is_valid():
        position = next(found.start() for found in template.pattern.finditer(text) if found["invalid"] is not None)
        line = text.count("\n", 0, position) + 1
        raise ValueError(f"line {line}: a '$' begins no placeholder; write '$$' for a dollar sign")
    return tuple(template.get_identifiers())


def fill(text: str, values: Mapping[str, Any]) -> str:
    """`text` with `str(value)` for each placeholder. Raises KeyError, ValueError, and what a `__str__` raises."""
    return Template(text).substitute(values)
