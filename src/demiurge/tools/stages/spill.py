"""Stage: puts a result over its byte budget, and the parts of a result, into the blob store and refers to them by their
addresses.

The model's text and the public view are measured and stored separately: the address of the view must not lead to
fields that the redaction removed.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic_core import to_json

from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.tools.ids import READ_RESULT
from demiurge.tools.parts import part_node, with_parts

__all__ = ["spill", "spilled_ref", "spilled_refs"]

_NOTE: Final = re.compile(
    r"The result has \d+ bytes, more than the \d+ allowed here\. It is stored as (sha256:[0-9a-f]{64})\."
    r"(?: Read it in pages with core__read_result\.)?"
)


def spill(ports: Ports, call: Call) -> None:
    """Replaces the content or the view by a reference if it exceeds the policy's `max_result_bytes`. Sizes are UTF-8
    bytes: of the model's text, and of the view as compact JSON. Raises ToolFailure (`result_too_large`) without a
    blob store.

    A result over the limit is handed to nobody in its source's own form. The parts of a result do not count: their
    bytes are stored as blobs, and a public view has their addresses. Without a blob store they stay in the answer, if
    they are not more than the limit together."""
    limit = ports.policy.budgets.max_result_bytes
    if limit is not None:
        _fit(ports, call, limit)
    if call.parts:
        _store_parts(ports, call, limit)


def _fit(ports: Ports, call: Call, limit: int) -> None:
    text = call.content.encode()
    if len(text) > limit:
        ref = _put_blob(ports, text)
        note = f"The result has {len(text)} bytes, more than the {limit} allowed here. It is stored as {ref}."
        call.content = f"{note} Read it in pages with {READ_RESULT}." if _can_read(ports, call) else note
        call.verbatim = None
    view = to_json(call.view)
    if len(view) > limit:
        call.view = {"bytes": len(view), "ref": _put_blob(ports, view)}


def _store_parts(ports: Ports, call: Call, limit: int | None) -> None:
    """Stores the bytes of the parts, and adds the public ones to the view."""
    if ports.blobs is None:
        if limit is not None and sum(len(part.data) for part in call.parts) > limit:
            raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE)
        nodes = [part_node(part) for part in call.parts]
    else:
        nodes = [part_node(part, _put_blob(ports, part.data)) for part in call.parts]
    if call.bound.spec.redaction.parts:
        call.view = with_parts(call.view, nodes)


def _can_read(ports: Ports, call: Call) -> bool:
    """Returns whether the caller's model may read a stored result in pages."""
    known = ports.source.get(READ_RESULT) is not None
    return known and ports.policy.decide(call.caller, READ_RESULT, ToolEffect.READ_ONLY) == "allow"


def spilled_ref(content: str) -> str | None:
    """Returns the address of the text that was put in the blob store in place of this content; None for any other
    content."""
    found = _NOTE.fullmatch(content)
    return found[1] if found is not None else None


def spilled_refs(text: str) -> tuple[str, ...]:
    """Returns the addresses of all texts that were put in the blob store in place of a part of this text."""
    return tuple(_NOTE.findall(text))


def _put_blob(ports: Ports, data: bytes) -> str:
    if ports.blobs is None:
        raise ToolFailure(ToolErrorCode.RESULT_TOO_LARGE)
    ref = ports.blobs.put(data)
    if not isinstance(ref, str):
        raise TypeError("the blob store's `put` did not return an address as text")
    return ref
