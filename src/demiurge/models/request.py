"""One request to a language model, as data: the request of the effect `llm.generate`.

Invariant: `api_key` is the only secret here; it is left out of `repr`, so that a request may be logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from demiurge.tools.spec import ToolSpec
from demiurge.wire.items import Item, TextFormat, ToolChoice

__all__ = ["GenerateRequest"]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """A request. `temperature` is decimal text ("0", "0.7") or None for the provider's default; `max_tokens` >= 1
    limits the answer; `base_url` None means the provider's usual address; `timeout_s` limits the whole request, retries
    included."""

    provider: str
    model: str
    items: tuple[Item, ...]
    specs: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice | None = None
    temperature: str | None = None
    max_tokens: int = 4096
    response_format: TextFormat | None = None
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    idempotency_key: str | None = None
    timeout_s: float = 600.0
