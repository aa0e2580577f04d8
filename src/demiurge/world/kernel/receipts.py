"""What comes of an effect that a reducer asked for, as the event in which its module hears of it.

It goes to the cell that asked, whatever is routed where. A denial comes back as a failure does, so that no reducer
waits for an answer that can't come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.values import cbor
from demiurge.world.manifest import ModuleType
from demiurge.world.manifest.system import ANY_RECEIPT, TYPED_RECEIPTS

__all__ = ["receipt_event"]


def receipt_event(
    module: ModuleType, intent_id: bytes, kind: str, key: str, result: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The event of `module` that brings `result`; None when it has no arm for it, as after a change of manifest."""
    is_ok = result["status"] == "ok"
    payload = result["payload"] if is_ok else None
    value = {"intent": intent_id, "key": key, "status": result["status"], "error": None if is_ok else result["payload"]}
    typed = module.arms.get(TYPED_RECEIPTS[kind]) if kind in TYPED_RECEIPTS else None
    if typed is not None:
        return {"$tag": typed, "$value": {**value, "payload": payload}}
    tag = module.arms.get(ANY_RECEIPT)
    if tag is None:
        return None
    return {"$tag": tag, "$value": {**value, "kind": kind, "payload": cbor.encode(payload) if is_ok else None}}
