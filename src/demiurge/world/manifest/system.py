"""What every world has: the `sys/*` definitions, which no manifest may define anew."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from demiurge.world.effect_kinds import tables

__all__ = [
    "ANY_RECEIPT",
    "DOUBT_SETTLED",
    "RESERVED",
    "WORKSPACE_EVENTS",
    "WORKSPACE_ROUTE",
    "receipt_schema",
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

DOUBT_SETTLED = "sys/DoubtSettled@1"
"""The event that tells a module what a person found out about an effect whose outcome was unknown."""


def receipt_schema(kind: str) -> str:
    """Returns the name of the event that brings a reducer what came of an effect of this `kind`; a module that has no
    arm for that event gets `ANY_RECEIPT` in place of it."""
    found = tables().kinds.get(kind)
    return found.typed_receipt if found is not None and found.typed_receipt is not None else ANY_RECEIPT


def system_definitions() -> tuple[Mapping[str, Any], ...]:
    """Returns the `sys/*` definitions that every new manifest is given; one that is stored keeps its own."""
    return tables().definitions
