"""Forks: the past is the source's to the byte, the future is the fork's own, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.scripted import (
    START_NS,
    SYSTEM,
    A,
    Echo,
    Script,
    Talk,
    called,
    chat_adapters,
    chat_manifest,
    plain,
    poke,
    running,
    said,
    stored,
    talking,
    tiny,
)
from tests.world.test_replay import ACTIONS, MANIFESTS, POLICY, Held, act, chat_tools, check

from demiurge.errors import Damaged, NotFound
from demiurge.stores import MemoryStore, Store
from demiurge.values.clock import SeededEntropy
from demiurge.values.refs import Ref
from demiurge.world.fork import Forked, fork
from demiurge.world.host import Host
from demiurge.world.loader import Loader
from demiurge.world.manifest import Manifest
from demiurge.world.moment import length_at, moment
from demiurge.world.record import Record, Stamp
from demiurge.world.replay import Manifests
from demiurge.world.unit import Unit
from demiurge.world.verify import verify

BOARD = Unit("ex/Board@1", "b")


def forked(
    source: Store, manifest: Manifest, at: int | None = None, *, world: str = "world_2", tail_bytes: int = 700
) -> tuple[MemoryStore, Forked]:
    target, entropy = MemoryStore(world), SeededEntropy(world.encode())

    def stamp(actor: str) -> Stamp:
        return Stamp(START_NS + 10**15, entropy.token(16), actor, manifest.ref)

    made = fork(source, target, manifest, stamp, at=at, actor="user", blobs=[SYSTEM], tail_bytes=tail_bytes)
    return target, made


def contents(store: Store) -> Any:
    return list(store.read_all()), store.outbox(), sorted(store.iter_blobs()), [*store.heads()]


def steps(store: Store) -> list[int]:
    """The last position of each step, and 0."""
    ends = [row.position - 1 for row in store.read_all() if row.ingress_id is not None]
    return [*ends, *([max(row.position for row in store.read_all())] if ends else [0])]


def own(store: Store, made: Forked) -> list[Record]:
    """What a fork has of its own."""
    return [record for record in stored(store) if (record.position or 0) > made.records]


def is_fork_of(source: Store, target: Store, made: Forked) -> None:
    past = [row for row in source.read_all() if row.position <= made.position]
    taken = [row for row in target.read_all() if row.position <= made.records]
    assert taken == past
    intents = {record.body["id"]: record for record in stored(target) if record.kind == "intent"}
    left = set(intents) - {record.body["intent"] for record in map(_record, taken) if record.kind != "intent"}
    ends = [r for r in own(target, made) if r.kind == "receipt"]
    assert len(ends) == made.ended
    assert {r.body["payload"]["code"] for r in ends} <= {"unknown_outcome"}
    assert {r.body["intent"] for r in ends} <= left
    names = {row.unit for row in past}
    assert {r.unit for r in own(target, made) if r.kind == "fork"} == names
    assert made.units == len(names)


def _record(row: Any) -> Any:
    from demiurge.world.replay import decode_row

    return decode_row(row)
