"""What counts as the answer to a client's request, among the messages that the protocol's SDK writes.

A server that stops, and a client that withdraws its request, make the SDK write an error in place of the answer. Whoever
takes such an error for the answer believes that a client knows what came of its call, and it does not.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["NO_ANSWER", "carries_answer"]

NO_ANSWER: Final = frozenset((-32800, -32000))
"""The codes of the errors that say only that no answer comes: `REQUEST_CANCELLED` and `CONNECTION_CLOSED` of the SDK."""


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
