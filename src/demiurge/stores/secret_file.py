"""One secret in a file of its own, or a small file of secrets, which only this user can read.

Invariant: a file that is read is a plain file of this user, not a link, with one hard link, closed to all other users.
Any other file is refused, because somebody else may have read it or put it there. A file that is written appears whole,
with mode 0600, or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.errors import unavailable
from demiurge.stores.private import check_folder, make_folders, open_file
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS, Secret

__all__ = ["locked_folder", "read_private", "read_secret", "write_private"]

CODE: Final = "secret_unavailable"
_OPEN_TO_OTHERS: Final = 0o077


def read_secret(path: Path) -> Secret | None:
    """Returns the text in `path` without the line end that editors add; None if there is no such file.

    Raises Unavailable (`secret_unavailable`) for a file that is open to others, another user's, a link, empty, over
    16,384 bytes, or not UTF-8.
    """
    data = read_private(path, MAX_SECRET_CHARACTERS)
    if data is None:
        return None
    secret = _text(data)
    data = b""  # a traceback may show this frame's variables
    if secret is None:
        raise Unavailable(f"{path} holds no secret: write the value alone into it, as UTF-8 text.", code=CODE)
    return secret


def read_private(path: Path, limit: int) -> bytes | None:
    """Returns the bytes of a file that only this user can read; None if there is none. Raises Unavailable as
    `read_secret`."""
    problem: str | None = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        problem = "is a link: name the file itself" if is_link else f"can't be read ({error.strerror})"
        raise Unavailable(f"{path} {problem}.", code=CODE) from None
    try:
        found = os.fstat(descriptor)
        problem = _problem(found, limit)
        if problem is None:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(limit + 1)[:limit]
    except OSError as error:
        problem = f"can't be read ({error.strerror})"
    finally:
        os.close(descriptor)
    raise Unavailable(f"{path} {problem}.", code=CODE)


def _problem(found: os.stat_result, limit: int) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "is no plain file"
    if found.st_uid != os.geteuid():
        return "belongs to another user: make one of your own"
    if found.st_nlink != 1:
        return "has a second name (a hard link): remove that"
    if found.st_mode & _OPEN_TO_OTHERS:
        return "can be read by others: run `chmod 600` on it"
    return f"is longer than {limit} bytes" if found.st_size > limit else None


def _text(data: bytes) -> Secret | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    text = text.removesuffix("\n").removesuffix("\r")
    return Secret(text) if text else None


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Locks `folder` against other writers until the block ends; makes it if need be. Raises Unavailable (`exposed`:
    other users can write to it)."""
    try:
        make_folders(folder)
        check_folder(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unavailable(error, folder) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes) -> None:
    """Replaces the file at `path`; durable on return. The caller holds the folder's lock.

    Raises Unavailable.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(open_file(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            half = len(data) // 2
            file.write(data[:half])
            file.flush()
            faults.point("file.half_written")
            file.write(data[half:])
            file.flush()
            os.fsync(file.fileno())
        faults.point("file.before_rename")
        fresh.replace(path)
        faults.point("file.after_rename")
        sync_folder(path.parent)
    except OSError as error:
        raise unavailable(error, path) from error
