"""Worlds run on every store that keeps one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demiurge.stores import MemoryStore, SqliteStore, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore("world_1") if request.param == "memory" else SqliteStore.create(tmp_path / "w", "world_1")
    yield made
    made.close()


@pytest.fixture
def memory() -> MemoryStore:
    """For what no store can change."""
    return MemoryStore("world_1")
