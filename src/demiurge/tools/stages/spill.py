"""Stage: puts a result over its byte budget into the blob store and refers to it by its address.

The model's text and the public view are measured and stored separately: the address of the view must not lead to
fields that the redaction removed.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic_core import to_json

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports

__all__ = ["spill", "spilled_ref"]

_NOTE: Final = re.compile(
    r"The result has \d+ bytes, more than the \d+ allowed here\. It is stored as (sha256:[0-9a-f]{64})\."
)


def spill(ports: Ports, call: Call) -> None:
    """Replaces the content or the view by a reference if it exceeds the policy's `max_result_bytes`. Sizes are UTF-8
    bytes: of the model's text, and of the view as compact JSON. Raises ToolFailure (`result_too_large`) without a
    blob store."""
    limit = ports.policy.budgets.max_result_bytes
    if limit is None:
        return
    text = call.content.encode()
    if len(text) > limit:
        ref = _put_blob(ports, text)
        call.content = f"The result has {len(text)} bytes, more than the {limit} allowed here. It is stored as {ref}."
    view = to_json(call.view)
    if len(view) > limit:
        call.view = {"bytes": len(view), "ref": _put_blob(ports, view)}


def spilled_ref(content: str) -> str | None:
    """Returns the address of the text that was put in the blob store in place of this content; None for any other
    content."""
    found = _NOTE.fullmatch(content)
    return found[1] if found is not None else None


def _put_blob(ports: Ports, data: bytes) -> str:
    if ports.blobs is None:
        raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE)
    ref = ports.blobs.put(data)
    if not isinstance(ref, str):
        raise TypeError("the blob store's `put` did not return an address as text")
    return ref
