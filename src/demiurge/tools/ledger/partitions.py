"""The partitions of a ledger: entries of two partitions never answer for each other.

A partition is named by whose call it is: tenant, named connection, session, and a run where there is no session. The
one without any of these is the default partition. Partitions that name neither tenant nor connection are open to a
key alone, because a key says as much as they do; the others are reached by a LedgerSlot only.
"""

from __future__ import annotations

import json

__all__ = ["OPEN_PREFIX", "is_open", "partition_of"]

OPEN_PREFIX = '["", null,'
"""How the name of a partition begins that has a session or a run, and neither tenant nor connection."""


def partition_of(*, tenant: str = "", connection_id: str | None = None, session: str = "", run: str = "") -> str:
    """The name of a partition: no entry of one ever answers in another. Empty for the default one."""
    if not tenant and connection_id is None and not session and not run:
        return ""
    return json.dumps([tenant, connection_id, session, *([run] if run else [])], ensure_ascii=False)


def is_open(partition: str) -> bool:
    """Returns whether a key alone reaches the entries of this partition."""
    return not partition or partition.startswith(OPEN_PREFIX)
