"""A lock across processes for work on one connection's credentials, such as the renewal of its tokens.

The lock is a file beside the secret vault, which is there only while somebody has the lock. The vault itself is not
locked meanwhile: a renewal waits for a server.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from demiurge.errors import Unavailable
from demiurge.stores.errors import unavailable
from demiurge.stores.private import check_folder, make_folders

__all__ = ["renewal_lock"]

_STEP_S: Final = 0.02


@contextmanager
def renewal_lock(folder: Path, name: str, seconds: float) -> Iterator[None]:
    """Holds the lock `name` in `folder` until the block ends; blocks while another task or process has it. Raises
    Unavailable (`busy` if it is not free within about `seconds`)."""
    path = folder / f".{sha256(name.encode()).hexdigest()[:24]}.renewal"
    try:
        make_folders(folder)
        check_folder(folder)
        descriptor = _locked(path, round(seconds / _STEP_S))
    except OSError as error:
        raise unavailable(error, folder) from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _locked(path: Path, tries: int) -> int:
    """Returns a descriptor of the file at `path`, locked. A file that its last holder removed meanwhile is not it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            while not _try_lock(descriptor):
                tries -= 1
                if tries < 0:
                    raise Unavailable("Another process is renewing this connection: try again.", code="busy")
                time.sleep(_STEP_S)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
