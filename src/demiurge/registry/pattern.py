"""Regular expressions of test cases, matched in time linear in the text.

An agent writes them, so the engine is the one of the Rust crate `regex`, which pydantic brings: it never backtracks.
Look-around and back references are not in its syntax.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from demiurge.errors import InvalidValue

__all__ = ["MAX_PATTERN", "checked_pattern", "is_match"]

MAX_PATTERN = 200
"""The most characters of a pattern."""


def checked_pattern(pattern: object) -> str:
    """Returns the pattern. Raises InvalidValue (`bad_pattern`) if it is none."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN:
        raise InvalidValue(f"A pattern is a text of 1 to {MAX_PATTERN} characters.", code="bad_pattern")
    try:
        _matcher(pattern)
    except SchemaError:
        raise InvalidValue("The pattern is not a regular expression without look-around.", code="bad_pattern") from None
    return pattern


def is_match(pattern: str, text: str) -> bool:
    """Returns whether the pattern matches anywhere in the text. Raises InvalidValue (`bad_pattern`)."""
    try:
        _matcher(checked_pattern(pattern)).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
