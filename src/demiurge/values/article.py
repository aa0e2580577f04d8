"""The indefinite article for a name in a message: `an int`, `a UUID`."""

from __future__ import annotations

import re

__all__ = ["with_article"]

_VOWEL = re.compile(r"[aeio]|u(?!ni|s[aeu]|uid|r[il]|ti)", re.IGNORECASE)
_CONSONANT = re.compile(r"eu|one(?![a-z])", re.IGNORECASE)


def with_article(name: str) -> str:
    """Returns `name` after `a` or `an`, by its pronunciation in English."""
    is_vowel = _VOWEL.match(name) is not None and _CONSONANT.match(name) is None
    return f"{'an' if is_vowel else 'a'} {name}"
