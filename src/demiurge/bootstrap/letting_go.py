"""`gc` and `erase` where the world is owned: what a running host has in memory is taken into account."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict
from typing import Any

from demiurge.errors import UsageError
from demiurge.stores.protocol import Store
from demiurge.values.clock import Clock, SystemEntropy
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.replay import Manifests
from demiurge.world.retention.erasure import erase
from demiurge.world.retention.garbage import collect

__all__ = ["collect_garbage", "erase_blob"]

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
    """The fields of `Garbage`. The manifest in force and `blobs` stay, and so do lists of units in memory, which are
    not written again once they were."""
    if not (isinstance(keep_days, int | float) and math.isfinite(keep_days) and keep_days >= 0):
        raise UsageError("The days to keep are a number from 0 on.", code="bad_window")
    refs = [ref_of(manifest.node), *manifest.sources.values(), *map(ref_of, blobs)]
    for unit in host.loaded() if host is not None and not dry_run else ():
        assert host is not None
        cell = (await host.read_cell(unit)).state_hash
        refs += [cell] if cell is not None else []
    roots = [manifest.node, *(ref.encode() for ref in refs)]
    now_s, keep_s = clock.now_ns() // 10**9, int(keep_days * DAY_S)
    return asdict(await asyncio.to_thread(collect, store, now_s=now_s, keep_s=keep_s, roots=roots, dry_run=dry_run))


async def erase_blob(
    store: Store, manifests: Manifests, ref: str, why: str, stamp: Stamp, host: Host | None, dry_run: bool
) -> dict[str, Any]:
    """The fields of `Erasure`."""
    parse_ref(ref)
    done = await asyncio.to_thread(erase, store, manifests, ref, why, stamp, SystemEntropy(), dry_run=dry_run)
    if host is not None:
        host.forget(Ref(ref))
    return asdict(done) | {"units": list(done.units), "unchecked": list(done.unchecked)}
