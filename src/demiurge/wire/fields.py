"""Fields of JSON that a provider sent: read by type, so that a wrong one is as good as absent, never a
crash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from demiurge.wire.items import Usage

__all__ = ["count", "mapping", "mappings", "mend_surrogates", "optional_text", "raw_text", "text", "usage"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def mend_surrogates(text: str) -> str:
    """Joins surrogate pairs that were escaped in two separate JSON strings; a lone half becomes U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return mend_surrogates(value) if isinstance(value, str) else ""


def raw_text(body: Mapping[str, Any], key: str) -> str:
    """Like `text`, but halves of surrogate pairs stay: the other half may be in the next fragment."""
    value = body.get(key)
    return value if isinstance(value, str) else ""


def optional_text(body: Mapping[str, Any], key: str) -> str | None:
    return text(body, key) or None


def mapping(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}


def mappings(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = body.get(key)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def count(body: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these keys that holds a whole number >= 0."""
    for key in keys:
        value = body.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def usage(prompt: int | None, completion: int | None, cached: int | None, reasoning: int | None) -> Usage | None:
    """None unless the provider counted at least one side."""
    if prompt is None and completion is None:
        return None
    return Usage(prompt or 0, completion or 0, cached or 0, reasoning or 0)
