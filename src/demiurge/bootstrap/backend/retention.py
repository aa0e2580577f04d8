"""`gc`, `erase` and `archive` where the world is owned: what a running host has in memory is taken into account."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from demiurge.bootstrap.ledger import WorldLedger
from demiurge.bootstrap.manifest import stored_definitions
from demiurge.bootstrap.typed_lines import TypedLines, message_of_line
from demiurge.errors import UsageError
from demiurge.stores.protocol import Store
from demiurge.values import cbor
from demiurge.values.clock import Clock, SystemEntropy
from demiurge.values.refs import ref_of
from demiurge.world.history.replay import Manifests
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp
from demiurge.world.retention.archive import Archiving, archive
from demiurge.world.retention.erasure import Erasure, erase
from demiurge.world.retention.garbage import Garbage, collect
from demiurge.world.retention.traces import Mention
from demiurge.world.retention.words import ErasedWords, message_of

__all__ = ["archive_records", "collect_garbage", "erase_blobs"]

DAY_S = 24 * 3600
MOST_DAYS = 100_000
"""The largest number of days that is counted: it is longer than the time since 1970, so it keeps everything."""

_OURS = frozenset(("journal.db", "ledger.db", "history", "blobs", "archives", "ledger.db-owners", "lock", "owner.sock"))
"""Files and folders of a world that have a search of their own."""


async def collect_garbage(
    store: Store,
    manifest: Manifest,
    blobs: tuple[bytes, ...],
    host: Host | None,
    clock: Clock,
    keep_days: float,
    dry_run: bool,
) -> Garbage:
    """Collects garbage. The manifest in force, `blobs` and what the world's own definitions name are kept. The chunks
    of the states in memory are kept too, because the host does not write a chunk a second time."""
    keep_s = _seconds(keep_days)
    refs = [ref_of(manifest.node), *manifest.sources.values(), *map(ref_of, blobs)]
    if host is not None and not dry_run:
        cells = [(await host.read_cell(unit)).state_hash for unit in host.loaded()]
        refs += [cell for cell in cells if cell is not None]
    kept = stored_definitions(store)
    roots = [manifest.node, *(ref.encode() for ref in refs), cbor.encode(kept.root if kept is not None else None)]
    now_s = clock.now_ns() // 10**9
    return await asyncio.to_thread(collect, store, now_s=now_s, keep_s=keep_s, roots=roots, dry_run=dry_run)


async def archive_records(store: Store, clock: Clock, before: int | None, keep_days: float, dry_run: bool) -> Archiving:
    if before is not None and (type(before) is not int or before < 1):
        raise UsageError("A position to archive below is a number from 1 on.", code="bad_window")
    window = {"now_ns": clock.now_ns(), "keep_s": _seconds(keep_days)}
    return await asyncio.to_thread(archive, store, before=before, dry_run=dry_run, **window)


def _seconds(days: float) -> int:
    if not (isinstance(days, int | float) and math.isfinite(days) and days >= 0):
        raise UsageError("The days to keep are a number from 0 on.", code="bad_window")
    return int(min(days, MOST_DAYS) * DAY_S)


async def erase_blobs(
    store: Store,
    manifests: Manifests,
    refs: Sequence[str],
    why: str,
    stamp: Stamp,
    host: Host | None,
    dry_run: bool,
    *,
    only_of: Set[str] = frozenset(),
    folder: Path | None = None,
    ledger: WorldLedger | None = None,
) -> Erasure:
    """Erases blobs and their copies (`retention.erasure.erase`), and the words in the files beside the store."""
    beside = partial(_beside, folder, ledger)
    given = (store, manifests, refs, why, stamp, SystemEntropy())
    work = partial(erase, *given, only_of=only_of, dry_run=dry_run, beside=beside)
    return await (host.erasing(work) if host is not None and not dry_run else asyncio.to_thread(work))


def _beside(
    folder: Path | None, ledger: WorldLedger | None, blobs: Sequence[bytes], found: Erasure, dry_run: bool
) -> Erasure:
    """Removes the words from the typed lines and from the ledger, which are files beside the store."""
    words = ErasedWords.of(*blobs)
    lines, quotes, inline = 0, list(found.quotes), list(found.inline)
    if folder is not None:
        said = ErasedWords.of(*(data for data in blobs if message_of(data) is not None))

        def is_gone(line: str) -> bool:
            return said.copied_in(line) or message_of_line(line) in found.refs

        lines = TypedLines(folder).forget(is_gone, dry_run=dry_run)
        inline += _strangers(folder, words)
    if ledger is not None and blobs:
        quoting, held = ledger.forget(blobs, words, dry_run=dry_run)
        quotes, inline = [*quotes, *quoting], [*inline, *held]
    return replace(found, lines=lines, quotes=tuple(quotes), inline=tuple(inline))


def _strangers(folder: Path, words: ErasedWords) -> Iterator[Mention]:
    """Yields other files in the world's folder that hold the words, such as a ledger that was set aside."""
    if not words.texts:
        return
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_ours = name.parts[0] in _OURS or str(name).removesuffix("-wal").removesuffix("-shm") in _OURS
        if is_ours or path.is_symlink() or not path.is_file():
            continue
        try:
            found = words.copied_in(path.read_bytes())
        except OSError:
            found = True  # nobody can say that it does not
        if found:
            yield Mention("file", str(name))
