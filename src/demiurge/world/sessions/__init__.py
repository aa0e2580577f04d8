"""The sessions of a world: `sessions` folds them from receipts, `recorder` notes one call's events, `checkpoint` stores
them."""

from demiurge.world.sessions.sessions import Sessions, StoredRecords

__all__ = ["Sessions", "StoredRecords"]
