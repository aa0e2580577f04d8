"""What every world has: the `sys/*` definitions, which no manifest may define anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

__all__ = [
    "ANY_RECEIPT",
    "DOUBT_SETTLED",
    "RESERVED",
    "TYPED_RECEIPTS",
    "WORKSPACE_EVENTS",
    "WORKSPACE_ROUTE",
    "system_definitions",
]

RESERVED = "sys/"

WORKSPACE_ROUTE: Mapping[str, str] = MappingProxyType(
    {"event": "sys/WorkspaceEvent@1", "module": "sys/Workspace@1", "key_field": "$value.workspace"}
)

WORKSPACE_EVENTS = frozenset({"sys/WorkspaceEvent@1", "sys/WorkspaceCommit@1", "sys/WorkspaceEdit@1"})
"""What moves a workspace on: an effect's commit under a grant, or a person's edit. No plan raises them."""

ANY_RECEIPT = "sys/EffectReceipt@1"
"""The event that brings a reducer what came of any effect that it asked for."""

TYPED_RECEIPTS: Mapping[str, str] = MappingProxyType(
    {"timer.set": "sys/TimerFired@1", "blob.put": "sys/BlobPutResult@1", "blob.get": "sys/BlobGetResult@1"}
)
"""Kind of effect -> the event that is used in place of that, by a module that has it."""

DOUBT_SETTLED = "sys/DoubtSettled@1"
"""The event that tells a module what a person found out about an effect whose outcome was unknown."""


@cache
def system_definitions() -> tuple[Mapping[str, Any], ...]:
    """The `sys/*` definitions that every new manifest is given; one that is stored keeps its own."""
    text = resources.files("demiurge.world").joinpath("air/sys.json").read_text("utf-8")
    return tuple(json.loads(text))
