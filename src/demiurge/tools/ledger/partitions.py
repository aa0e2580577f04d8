"""The partitions of a ledger: an entry of one partition never answers a call of another.

A partition is named by the owner of its calls: tenant, named connection, session, and a run if there is no session.
The partition without any of these is the default. A partition without a tenant and a connection is open to a key
alone; the others can be reached with a LedgerSlot only.
"""

from __future__ import annotations

import json

__all__ = ["OPEN_PREFIX", "is_open", "partition_of"]

OPEN_PREFIX = '["", null,'
"""The beginning of the name of a partition that has a session or a run, and neither tenant nor connection."""


def partition_of(*, tenant: str = "", connection_id: str | None = None, session: str = "", run: str = "") -> str:
    """Returns the name of a partition; "" for the default one."""
    if not tenant and connection_id is None and not session and not run:
        return ""
    return json.dumps([tenant, connection_id, session, *([run] if run else [])], ensure_ascii=False)


def is_open(partition: str) -> bool:
    """Returns whether a key alone reaches the entries of this partition."""
    return not partition or partition.startswith(OPEN_PREFIX)
