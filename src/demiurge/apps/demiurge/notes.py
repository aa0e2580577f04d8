"""Notes: messages to the model at its next turn that nobody wrote in the chat.

A note is a `system` message. It waits in the chat's state until the next user message, and stands right before that
message, so it never comes between a call and its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.world.messages import user_blob

__all__ = ["ROLE", "doubt_note"]

ROLE = "system"


def doubt_note(settled: Mapping[str, Any], result: bytes | None) -> bytes:
    """Returns the message blob that tells the model a person's verdict on a call in doubt (`sys/DoubtSettled@1`)."""
    what = f"call {settled['tool_call_id']} of {settled['tool']}" if settled["tool"] else f"effect {settled['kind']}"
    found = "It took effect." if settled["done"] else "It did not take effect; it may be tried again."
    lines = [
        f"The outcome of the {what} was unknown. {settled['by']} has checked it since: {found}",
        f"Reason given: {settled['reason']}",
    ]
    if result is not None:
        lines.append(f"Result: {result.decode()}")
    return user_blob("\n".join(lines), role=ROLE)
