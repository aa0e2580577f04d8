"""`Host.submit`: what it refuses, what it answers, and that nothing begins before it is durable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.world.small_world import EchoAdapter, poke_event, running_host, small_manifest, stored_records

from demiurge import faults
from demiurge.errors import DemiurgeError, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores import MemoryStore, SqliteStore


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ("ex/None@1", {}, NotFound),
        ("ex/Ev@1", {"$tag": "Poke", "$value": {"room": "a"}}, InvalidValue),
        ("ex/Aside@1", "x", UsageError),
        ("ex/Ev@1", {"$tag": "PlanFailed", "$value": {}}, InvalidValue),
    ],
)
async def test_an_event_that_cannot_be_accepted_is_refused_and_not_stored(
    memory: MemoryStore, schema: str, value: Any, error: type[DemiurgeError]
) -> None:
    async with running_host(memory, small_manifest(), []) as host:
        with pytest.raises(error):
            await host.submit(schema, value)
    assert stored_records(memory) == []


async def test_submit_returns_where_the_event_is_recorded(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), []) as host:
        unit, seq, event_hash = await host.submit("ex/Ev@1", poke_event("hello"), idempotency_key="k")
        assert await host.submit("ex/Ev@1", poke_event("hello"), idempotency_key="k") == (unit, seq, event_hash)
    assert [r.body["value"] for r in stored_records(memory) if (str(r.unit), r.unit_seq) == (unit, seq)] == [
        poke_event("hello")
    ]


async def test_no_effect_begins_before_its_intent_is_durable(tmp_path: Path) -> None:
    echo = EchoAdapter()
    with SqliteStore.create(tmp_path / "w", "world_1") as disk:
        async with running_host(disk, small_manifest(), [echo]) as host:
            with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
                await host.submit("ex/Ev@1", poke_event("ask:x"))
        assert (stored_records(disk), echo.performed) == ([], [])
