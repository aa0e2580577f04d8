"""The store of a world in one folder. Imports `values`, the rest of `stores`, and SQLite."""

from demiurge.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
