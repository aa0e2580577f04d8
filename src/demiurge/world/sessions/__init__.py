"""The sessions of a world: folded from receipts (`sessions`), written by a call (`recorder`), kept (`checkpoint`)."""

from demiurge.world.sessions.sessions import Sessions, StoredRecords

__all__ = ["Sessions", "StoredRecords"]
