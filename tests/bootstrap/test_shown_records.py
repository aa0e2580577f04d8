"""The records of one unit among many whose names begin alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from demiurge import World
from demiurge.bootstrap.shown_records import ShownRecords
from demiurge.stores.protocol import Head
from demiurge.world.unit import Unit


async def test_the_records_of_a_chat_are_counted_without_a_look_at_chats_with_longer_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        for name in ("a1", "a", "a10", "a11", "b"):
            await world.chat(name).create()
        unit = world.chat("a").unit
        length = sum(1 for _ in world.journal.read(unit))
        given: list[int] = []
        heads = world.backend.read.heads

        def counting(prefix: str = "", limit: int | None = None) -> list[Head]:
            found = heads(prefix, limit)
            given.append(len(found))
            return found

        monkeypatch.setattr(world.backend.read, "heads", counting)
        records = ShownRecords(world.backend)
        assert records.count(unit) == length > 0
        assert records.count(Unit(unit.module, "")) == 0
        assert records.count(Unit(unit.module, "a100")) == 0
        assert given == [1, 1, 0]
