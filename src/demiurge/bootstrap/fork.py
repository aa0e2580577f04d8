"""Makes a fork in a folder. The fork is built in a hidden folder beside the target, and renamed when it is complete.

A crash at any moment leaves the target folder as it was, or with the whole fork in it. At most a hidden folder
`.world_....fork` is left beside it, which nothing reads.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from demiurge import faults
from demiurge.errors import Conflict
from demiurge.stores import SqliteStore, Store
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.errors import unavailable
from demiurge.values.clock import Entropy, new_id
from demiurge.values.refs import Ref
from demiurge.world.fork import Forked

__all__ = ["Fork", "absolute", "make_fork"]

_TAKEN: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY})


@dataclass(frozen=True, slots=True)
class Fork:
    """A world in `folder` that has the first `records` records of another world, up to its `position`. `World.open`
    accepts it as a path.

    `ended` is the number of intents that were open there; in the fork they are answered `unknown_outcome`. `unchecked`
    are units whose inputs were erased since: the fork has their records but not their state, and they take no event."""

    folder: Path
    world_id: str
    position: int
    records: int
    units: int
    ended: int
    unchecked: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return str(self.folder)


Build: TypeAlias = Callable[[Store, Callable[[Ref], object]], Forked]
"""Fills the store of a new world. It calls its second argument with the address of each blob of the source before it
stores that blob."""


def _no_files(_ref: Ref) -> None:
    pass


def _nothing(_folder: Path) -> None:
    pass


def absolute(path: str | os.PathLike[str]) -> Path:
    """Returns `path` as an absolute path."""
    return Path(path).absolute()


def make_fork(
    source: Store, folder: Path, entropy: Entropy, build: Build, beside: Callable[[Path], object] = _nothing
) -> Forked:
    """Fills the store of a new world from `source` with `build`, and moves the world to `folder`, which is empty or
    missing. `beside` adds the world's other files. Raises Conflict (`exists`: something is there), Unavailable, and
    what `build` raises."""
    folder = folder.resolve()
    taken = Conflict(f"There is something in {folder} already: choose an empty folder for the fork.", code="exists")
    world_id = new_id("world", entropy)
    site = folder.parent / f".{world_id}.fork"
    try:
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise taken
        with SqliteStore.create(site, world_id) as store:
            done = build(store, partial(store.share_blob, source) if isinstance(source, SqliteStore) else _no_files)
        beside(site)
        faults.point("fork.before_rename")
        os.rename(site, folder)
        faults.point("fork.after_rename")
        sync_folder(folder.parent)
    except OSError as error:
        raise (taken if error.errno in _TAKEN else unavailable(error, folder)) from error
    finally:
        shutil.rmtree(site, ignore_errors=True)
    return done
