"""Texts with `$placeholders`: a `string.Template` whose inserted values are never parsed again.

A text is dedented and stripped before values are inserted, so the lines of a value stay unchanged. `$$` is a dollar
sign. Faults of a text are found without its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template
from textwrap import dedent
from typing import Any

__all__ = ["fill", "names_in", "tidy"]


def tidy(text: str) -> str:
    """Returns `text` as it is hashed, overridden and filled: without common indentation and outer white space."""
    return dedent(text).strip()


def names_in(text: str) -> tuple[str, ...]:
    """Returns the placeholders of `text`, each once, in order. Raises ValueError for a `$` that begins none."""
    template = Template(text)
    if not template.is_valid():
        position = next(found.start() for found in template.pattern.finditer(text) if found["invalid"] is not None)
        line = text.count("\n", 0, position) + 1
        raise ValueError(f"line {line}: a '$' begins no placeholder; write '$$' for a dollar sign")
    return tuple(template.get_identifiers())


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Returns `text` with `str(value)` for each placeholder. Raises KeyError, ValueError, and what a `__str__`
    raises."""
    return Template(text).substitute(values)
