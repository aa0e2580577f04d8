"""Reorders a tool's arguments for small models.

A model writes arguments in the order of the schema, and a small one does not correct itself: asked for the state of a
module and offered `key` before `module`, it puts the module's name into `key` (0 of 4 right; in this order 3 of 4).
Schemas arrive with sorted names. So required arguments come first here, and an argument whose description mentions
another one comes after that one. Only the order changes; the schema's meaning and the spec's hash stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from demiurge.tools.spec import ToolSpec

__all__ = ["in_natural_order"]


def in_natural_order(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Returns the same specs with the top-level properties of their schemas reordered."""
    return tuple(replace(spec, input_schema=_ordered(spec.input_schema)) for spec in specs)


def _ordered(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(schema)
    required = set(schema.get("required", ()))
    waiting = sorted(properties, key=lambda name: name not in required)
    placed: list[str] = []
    while waiting:
        free = (name for name in waiting if not _mentions(properties[name], name, waiting))
        following = next(free, waiting[0])
        waiting.remove(following)
        placed.append(following)
    return {**schema, "properties": {name: properties[name] for name in placed}}


def _mentions(definition: object, name: str, others: Sequence[str]) -> bool:
    text = definition.get("description", "") if isinstance(definition, Mapping) else ""
    words = set(re.findall(r"[A-Za-z0-9_]+", text.lower())) if isinstance(text, str) else set()
    return any(other.lower() in words for other in others if other != name)
