"""Files and folders of a world that are reached through no link and open to nobody else.

Invariant: what these functions return or let pass is a plain file or a folder of this user, in the world's folder
itself. A world's folder may come from elsewhere, in a repository or an archive: a link in it could make opening the
world empty a folder or overwrite a file anywhere. Since nobody else may write to the folder, what was checked stays so.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from demiurge.errors import Unavailable
from demiurge.stores.errors import unavailable

__all__ = ["check_file", "check_folder", "foreign_entry", "make_file", "open_file", "open_folder"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOREIGN: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
"""What opening says of a link, of a file in place of a folder, and the other way round."""


def foreign_entry(path: Path) -> Unavailable:
    """The Unavailable (code `strange_entry`) for something at `path` that a world doesn't make."""
    if path.is_symlink():
        return Unavailable(f"{path} is a link, and a world follows none: remove it.", code="strange_entry")
    return Unavailable(
        f"{path} is not what a world has there, or not yours alone: move it out of the world's folder.",
        code="strange_entry",
    )


def check_folder(folder: Path) -> None:
    """Refuse a folder that others can write to. Raises Unavailable, also when there is none; OSError."""
    try:
        found = folder.stat()
    except FileNotFoundError as error:
        raise Unavailable(f"There is no folder {folder}: make it first.", code="no_folder") from error
    if found.st_uid not in (os.geteuid(), 0):
        raise Unavailable(f"{folder} belongs to somebody else: use `chown`, or another folder.", code="exposed")
    if found.st_mode & 0o022:
        shared = found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX
        advice = "choose a folder of your own" if shared else "run `chmod go-w` on it, or choose another folder"
        raise Unavailable(f"Others can write to {folder}: {advice}.", code="exposed")


def open_folder(path: Path, *, make: bool = False) -> int:
    """A descriptor of the folder `path`, made for this user alone with `make`; the last part of it is no link.

    Raises Unavailable (`strange_entry`), OSError.
    """
    if make:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError as error:
        raise (foreign_entry(path) if error.errno in _FOREIGN else error) from error
    return descriptor


def open_file(path: Path, flags: int, *, dir_fd: int | None = None, shared: bool = False) -> int:
    """A descriptor of the plain file `path`, or of its last part in the folder `dir_fd`; made with mode 0600.

    Raises Unavailable (`strange_entry`: a link, no file, somebody else's, or one with a second name unless it may be
    `shared`, being read only and checked), OSError. A file of root may be read, as on a disk that root mounted.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path if dir_fd is None else path.name, flags, 0o600, dir_fd=dir_fd)
    except OSError as error:
        raise (foreign_entry(path) if error.errno in _FOREIGN else error) from error
    try:
        reads = flags & os.O_ACCMODE == os.O_RDONLY
        if not _is_own(os.fstat(descriptor), shared=shared, reads=reads):
            raise foreign_entry(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_file(path: Path) -> None:
    """Have an own plain file at `path` that nobody else can read. Raises Unavailable."""
    try:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unavailable(error, path) from error


def check_file(path: Path, *, close: bool = True) -> None:
    """Refuse what is at `path` unless it is an own plain file, and with `close` take all rights on it from others. It
    is not opened, so that locks on it stay. Raises Unavailable, OSError."""
    found = path.lstat()
    if not _is_own(found, reads=not close):
        raise foreign_entry(path)
    if close and found.st_mode & 0o077:
        path.chmod(0o600)


def _is_own(found: os.stat_result, *, shared: bool = False, reads: bool = False) -> bool:
    owners = (os.geteuid(), 0) if reads else (os.geteuid(),)
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners and (shared or found.st_nlink == 1)
