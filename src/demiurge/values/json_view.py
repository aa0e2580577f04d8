"""Values of records as JSON-ready data, for people and programs that look at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["json_view"]


def json_view(value: Any) -> Any:
    """Returns the value with byte strings in hexadecimal, keys as text, and tuples as lists."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): json_view(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [json_view(held) for held in value]
    return value
