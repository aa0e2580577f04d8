"""Reads fields of a provider's JSON by type, so that a field of a wrong type counts as absent and never raises.

Invariant: every value that is read can be stored. Counts fit into JSON's exact numbers, labels are short, and a
provider's own JSON is kept only if canonical JSON can write it and read it back. So an answer that was paid for is
never lost over a number beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.values.money import micros_of
from demiurge.wire.items import Usage

__all__ = [
    "cost",
    "count",
    "label",
    "mapping",
    "mappings",
    "mend_surrogates",
    "raw_text",
    "storable",
    "text",
    "usage",
]

_MAX_COUNT = 2**53 - 1
_MAX_DOLLARS = 10**9
_MAX_LABEL = 256
_SURROGATE = re.compile("[\ud800-\udfff]")


def mend_surrogates(text: str) -> str:
    """Joins surrogate pairs that were escaped in two separate JSON strings; a lone half becomes U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return mend_surrogates(value) if isinstance(value, str) else ""


def raw_text(body: Mapping[str, Any], key: str) -> str:
    """Returns text like `text`, but keeps halves of surrogate pairs: the other half may be in the next fragment."""
    value = body.get(key)
    return value if isinstance(value, str) else ""


def label(body: Mapping[str, Any], key: str) -> str | None:
    """Returns a name or id of the provider's; None unless it has 1 to 256 printable characters."""
    value = text(body, key)
    return value if 0 < len(value) <= _MAX_LABEL and value.isprintable() else None


def mapping(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def mappings(body: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = body.get(key)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def count(body: Mapping[str, Any], *keys: str) -> int | None:
    """Returns the first whole number from 0 to 2^53 - 1 under these keys, or None."""
    for key in keys:
        value = body.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
            return value
    return None


def cost(usage: Mapping[str, Any]) -> Decimal | None:
    """Returns the cost of an answer as a proxy (OpenRouter, LiteLLM) reports it, in exact millionths of a dollar."""
    dollars = usage.get("cost")
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < _MAX_DOLLARS:
        return None
    return micros_of(repr(dollars))


def storable(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns a provider's own JSON in a form that canonical JSON can write and read back, with the halves of surrogate
    pairs joined; None if there is no such form (numbers beyond RFC 8785, lone halves, too deep)."""
    try:
        stored = canonical_json.parse_object(json.dumps(raw))
        canonical_json.encode(stored)
    except (InvalidValue, ValueError, RecursionError):
        return None
    return stored


def usage(
    prompt: int | None,
    completion: int | None,
    cached: int | None,
    reasoning: int | None,
    cache_written: int | None = None,
    cost_micros: Decimal | None = None,
) -> Usage | None:
    """Returns the usage; None unless the provider counted at least one side."""
    if prompt is None and completion is None:
        return None
    return Usage(prompt or 0, completion or 0, cached or 0, reasoning or 0, cache_written or 0, cost_micros)
