"""Response headers about an answer: request ids for enquiries at the provider, and the cost that a proxy reports.

Invariant: headers are unverified hints. A header of unexpected form is left out, and none holds the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from demiurge.models.scrub import scrub
from demiurge.values.money import micros_of
from demiurge.wire.items import Delivery

__all__ = ["read_delivery"]

_REQUEST_IDS = ("x-request-id", "request-id")
_CALL_ID = "x-litellm-call-id"
_COST = "x-litellm-response-cost"
_ID = re.compile(r"[!-~]{1,200}")


def read_delivery(headers: Mapping[str, str], key: str | None) -> Delivery | None:
    """Reads the headers of an answer (OpenAI's and Anthropic's ids; LiteLLM's call id and its cost in dollars); returns
    None if there are none of them."""
    request_id = next((found_id for name in _REQUEST_IDS if (found_id := _id(headers, name, key))), None)
    delivery = Delivery(request_id, _id(headers, _CALL_ID, key), micros_of(headers.get(_COST, "").strip()))
    return None if delivery == Delivery() else delivery


def _id(headers: Mapping[str, str], name: str, key: str | None) -> str | None:
    text = headers.get(name, "").strip()
    return scrub(text, key) if _ID.fullmatch(text) else None
