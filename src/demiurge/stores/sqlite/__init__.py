"""The store of a world that lives in one folder. Imports `values` and the rest of `stores`, and SQLite."""

from demiurge.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
