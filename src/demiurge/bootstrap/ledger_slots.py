"""The slots of a world's ledger in which a call may have its entry, found from the journal alone."""

from __future__ import annotations

from demiurge.stores.protocol import Store
from demiurge.tools.bound import BoundTool
from demiurge.tools.ledger.store import LedgerSlot
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.stages.recall import slot_of
from demiurge.world.connections import CONNECTION
from demiurge.world.unit import Unit

__all__ = ["slots_of_call"]


def slots_of_call(
    store: Store, tool: BoundTool, arguments: str, caller: ToolPolicyContext, unit: str
) -> list[LedgerSlot]:
    """Returns the slots of a call of `tool` with these JSON arguments: those under its unit's session or, without a
    session, its run. A tool that needs a connection has a slot under each connection of the world, because the record
    of an attempt does not name the connection. Returns no slots for arguments that the tool refuses, and if its
    `key_fn` raises."""
    connections: list[str | None] = [None]
    if tool.requires_connection:
        connections = [Unit.parse(head.unit).key for head in store.heads(f"{CONNECTION}/")]
    try:
        slots = [
            slot_of(tool, arguments, caller, session_id=session, connection_id=connection_id)
            for connection_id in connections
            for session in (unit, None)
        ]
    except Exception:  # noqa: BLE001 - a `key_fn` is the user's own
        return []
    return list(dict.fromkeys(slot for slot in slots if slot is not None))
