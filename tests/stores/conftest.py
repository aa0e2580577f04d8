"""Every store under one name, so that one suite says what all of them do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demiurge.stores import MemoryStore, SqliteStore, Store

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore("world_1"),
    "sqlite": lambda folder: SqliteStore.create(folder, "world_1"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = STORES[request.param](tmp_path / "world")
    yield made
    made.close()
