"""`gc`, `erase` and `archive` where the world is owned: what a running host has in memory is taken into account."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict
from functools import partial
from typing import Any

from demiurge.bootstrap.manifest import stored_definitions
from demiurge.errors import UsageError
from demiurge.stores.protocol import Store
from demiurge.values import cbor
from demiurge.values.clock import Clock, SystemEntropy
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.world.history.replay import Manifests
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.retention.archive import archive
from demiurge.world.retention.erasure import erase
from demiurge.world.retention.garbage import collect

__all__ = ["archive_records", "collect_garbage", "erase_blob"]

DAY_S = 24 * 3600


async def collect_garbage(
    store: Store,
    manifest: Manifest,
    blobs: tuple[bytes, ...],
    host: Host | None,
    clock: Clock,
    keep_days: float,
    dry_run: bool,
) -> dict[str, Any]:
    """The fields of `Garbage`. The manifest in force, `blobs` and what the world's own definitions name stay, and so do
    lists of units in memory, which are not written again once they were."""
    keep_s = _seconds(keep_days)
    refs = [ref_of(manifest.node), *manifest.sources.values(), *map(ref_of, blobs)]
    if host is not None and not dry_run:
        cells = [(await host.read_cell(unit)).state_hash for unit in host.loaded()]
        refs += [cell for cell in cells if cell is not None]
    kept = stored_definitions(store)
    roots = [manifest.node, *(ref.encode() for ref in refs), cbor.encode(kept.root if kept is not None else None)]
    now_s = clock.now_ns() // 10**9
    return asdict(await asyncio.to_thread(collect, store, now_s=now_s, keep_s=keep_s, roots=roots, dry_run=dry_run))


async def archive_records(
    store: Store, clock: Clock, before: int | None, keep_days: float, dry_run: bool
) -> dict[str, Any]:
    """The fields of `Archiving`."""
    if before is not None and (type(before) is not int or before < 1):
        raise UsageError("A position to archive below is a number from 1 on.", code="bad_window")
    window = {"now_ns": clock.now_ns(), "keep_s": _seconds(keep_days)}
    return asdict(await asyncio.to_thread(archive, store, before=before, dry_run=dry_run, **window))


def _seconds(days: float) -> int:
    if not (isinstance(days, int | float) and math.isfinite(days) and days >= 0):
        raise UsageError("The days to keep are a number from 0 on.", code="bad_window")
    return int(days * DAY_S)


async def erase_blob(
    store: Store, manifests: Manifests, ref: str, why: str, stamp: Stamp, host: Host | None, dry_run: bool
) -> dict[str, Any]:
    """The fields of `Erasure`."""
    parse_ref(ref)
    work = partial(erase, store, manifests, ref, why, stamp, SystemEntropy(), dry_run=dry_run)
    done = await (host.erasing(Ref(ref), work) if host is not None and not dry_run else asyncio.to_thread(work))
    return asdict(done) | {"units": list(done.units), "unchecked": list(done.unchecked)}
