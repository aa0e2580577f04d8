"""Making a fork in a folder: it is built beside it, and gets its name when it is whole.

A crash at any moment leaves the folder as it was, or the fork in it; and at most a hidden folder `.world_....fork`
beside it, which nothing reads.
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
    """A world in `folder` that has the first `records` records of another, up to its `position`. What `World.open`
    takes for a path.

    `ended` is how many intents were open there, and are answered `unknown_outcome` in the fork. `unchecked` units have
    read what was erased since: of them the fork has the records and no state, and they take no event.
    """

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
"""Fills a store; calls the second before it puts a blob that the source has."""


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
    """Lets `build` fill the store of a new world from `source`, and puts it in `folder`, which is empty or not there.
    `beside` adds the world's other files.

    Raises Conflict (`exists`: something is there), Unavailable, and what `build` raises.
    """
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
