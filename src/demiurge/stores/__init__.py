"""Where a world is kept: journal and blobs behind one protocol, on SQLite and files or in memory.

Imports only `errors`, `faults` and `values`. Knows rows, units, hashes and durability; what a record says and
who may see it is decided above. Beside it, and imported by their own names: `vault`, for the sealed credentials of
connections, and `sqlite.ledger`, for what tools have done; both are defined in `demiurge.tools`.
"""

from demiurge.stores.errors import DamagedRow, UnitConflict
from demiurge.stores.lock import OwnerLock
from demiurge.stores.memory import MemoryStore
from demiurge.stores.protocol import Attempt, Batch, BlobStore, Head, JournalStore, Outgoing, Row, Snapshot, Store
from demiurge.stores.rows import GENESIS, Tail, verify_chains, verify_journal
from demiurge.stores.sqlite import SqliteStore

__all__ = [
    "GENESIS",
    "Attempt",
    "Batch",
    "BlobStore",
    "DamagedRow",
    "Head",
    "JournalStore",
    "MemoryStore",
    "Outgoing",
    "OwnerLock",
    "Row",
    "Snapshot",
    "SqliteStore",
    "Store",
    "Tail",
    "UnitConflict",
    "verify_chains",
    "verify_journal",
]
