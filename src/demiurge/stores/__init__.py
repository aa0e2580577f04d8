"""Storage of a world: journal and blobs behind one protocol, in SQLite and files or in memory.

Imports only `errors`, `faults` and `values`. Handles rows, units, hashes and durability; packages above decide what a
record says and who may see it. Two more stores live here and are imported by their own names: `connection_store`, for
sealed credentials of connections, and `sqlite.ledger`, for results of tool calls. `demiurge.tools` defines the
protocols of both.
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
