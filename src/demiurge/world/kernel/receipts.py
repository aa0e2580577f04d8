"""The event that tells a module the outcome of an effect that its reducer asked for.

It goes to the cell that asked, independent of routes. A denial arrives in the same form as a failure, so no reducer
waits for an answer that never comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.values import cbor
from demiurge.world.manifest import ModuleType
from demiurge.world.manifest.system import ANY_RECEIPT, receipt_schema

__all__ = ["receipt_event"]


def receipt_event(
    module: ModuleType, intent_id: bytes, kind: str, key: str, result: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Returns the event of `module` that carries `result`; None if the module has no arm for it, as after a change of
    manifest."""
    is_ok = result["status"] == "ok"
    payload = result["payload"] if is_ok else None
    value = {"intent": intent_id, "key": key, "status": result["status"], "error": None if is_ok else result["payload"]}
    named = receipt_schema(kind)
    if named != ANY_RECEIPT and named in module.arms:
        return {"$tag": module.arms[named], "$value": {**value, "payload": payload}}
    tag = module.arms.get(ANY_RECEIPT)
    if tag is None:
        return None
    return {"$tag": tag, "$value": {**value, "kind": kind, "payload": cbor.encode(payload) if is_ok else None}}
