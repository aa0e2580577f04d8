"""One request to a language model, as data: the request of the effect `llm.generate`.

Invariant: `api_key` is the only secret here; it is left out of `repr`, so that a request may be logged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.values.formats import dec128
from demiurge.wire.items import Item, TextFormat, ToolChoice

__all__ = ["GenerateRequest", "temperature_text"]

_HOTTEST = 2


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """A request. `temperature` is decimal text ("0", "0.7") or None for the provider's default; `max_tokens` >= 1
    limits the answer; `strict` names the tools whose calls the provider has to keep to their schema (the formats of
    OpenAI); `base_url` None means the provider's usual address; `timeout_s` limits the whole request, retries
    included."""

    provider: str
    model: str
    items: tuple[Item, ...]
    specs: tuple[ToolSpec, ...] = ()
    strict: frozenset[str] = frozenset()
    tool_choice: ToolChoice | None = None
    temperature: str | None = None
    max_tokens: int = 4096
    response_format: TextFormat | None = None
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    idempotency_key: str | None = None
    timeout_s: float = 600.0


def temperature_text(given: float | str) -> str:
    """Returns a temperature as decimal text, such as "0.7". Raises InvalidValue for anything but 0 to 2."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    try:
        text = dec128(f"{Decimal(repr(given)):f}" if is_number else given if isinstance(given, str) else "")
    except ValueError:
        text = "-1"
    if not 0 <= Decimal(text) <= _HOTTEST:
        raise InvalidValue(f"is a number from 0 to {_HOTTEST}, such as 0.7", path="temperature")
    return text
