"""The messages of the protocol's SDK that count as the answer to a client's request.

When a server stops, or a client withdraws its request, the SDK writes an error in place of the answer. The client of
such an error does not know what came of its call.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["NO_ANSWER", "carries_answer"]

NO_ANSWER: Final = frozenset((-32800, -32000))
"""The codes of the errors which say only that no answer comes: the SDK's `REQUEST_CANCELLED`, `CONNECTION_CLOSED`."""


def carries_answer(body: bytes) -> bool:
    """Returns whether a part of a response's body is an answer: JSON, or an event of a stream whose data are JSON."""
    text = body
    if not body.startswith(b"{"):
        text = b"".join(line[5:] for line in body.splitlines() if line.startswith(b"data:"))
    try:
        message: Any = json.loads(text)
    except ValueError:
        return False
    if not isinstance(message, dict):
        return False
    error = message.get("error")
    return "result" in message or (isinstance(error, dict) and error.get("code") not in NO_ANSWER)
