"""Files and folders of a world that are reached through no link and that other users cannot open.

Invariant: a path that these functions return or accept is a plain file or a folder of this user, in the world's folder
itself. A world's folder may come from elsewhere, in a repository or an archive: a link in it could make opening the
world empty a folder or overwrite a file anywhere. Nobody else may write to the folder, so a checked path stays as it
is.
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

__all__ = ["check_file", "check_folder", "foreign_entry", "make_file", "make_folders", "open_file", "open_folder"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_OTHERS: Final = 0o022
"""The permissions of other users to write."""
_FOREIGN: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
"""The errors of opening a link, a file in place of a folder, or a folder in place of a file."""


def foreign_entry(path: Path) -> Unavailable:
    """Returns the Unavailable (code `strange_entry`) for an entry at `path` that a world does not make."""
    if path.is_symlink():
        return Unavailable(f"{path} is a link, and a world follows none: remove it.", code="strange_entry")
    return Unavailable(
        f"{path} is not what a world has there, or not yours alone: move it out of the world's folder.",
        code="strange_entry",
    )


def _exposed(path: Path) -> Unavailable:
    """Returns the Unavailable (code `exposed`) for a file that other users may have written to."""
    return Unavailable(
        f"Others can write to {path}: make sure that what it holds is yours, then run `chmod 600` on it.",
        code="exposed",
    )


def check_folder(folder: Path) -> None:
    """Raises Unavailable for a folder that other users can write to, and if there is none; OSError."""
    try:
        found = folder.stat()
    except FileNotFoundError as error:
        raise Unavailable(f"There is no folder {folder}: make it first.", code="no_folder") from error
    if found.st_uid not in (os.geteuid(), 0):
        raise Unavailable(f"{folder} belongs to somebody else: use `chown`, or another folder.", code="exposed")
    if found.st_mode & _OF_OTHERS:
        shared = found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX
        advice = "choose a folder of your own" if shared else "run `chmod go-w` on it, or choose another folder"
        raise Unavailable(f"Others can write to {folder}: {advice}.", code="exposed")


def make_folders(folder: Path) -> None:
    """Makes `folder` and those above it that are missing, each for this user alone, whatever the umask. Raises
    OSError."""
    if not folder.is_dir():
        make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if not folder.is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))


def open_folder(path: Path, *, make: bool = False) -> int:
    """Returns a descriptor of the folder `path`, whose last part is no link. `make`: makes the folder, for this user
    alone, if it is missing.

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
    """Returns a descriptor of the plain file `path`, or of its last part in the folder `dir_fd`. A new file has mode
    0600.

    Raises OSError, and Unavailable: `exposed` for a file that other users can write to, `strange_entry` for a link,
    another kind of entry, another user's file, or a file with a second hard link unless `shared` (for files that are
    only read, and checked). A file of root may be read, as on a disk that root mounted.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path if dir_fd is None else path.name, flags, 0o600, dir_fd=dir_fd)
    except OSError as error:
        raise (foreign_entry(path) if error.errno in _FOREIGN else error) from error
    try:
        reads = flags & os.O_ACCMODE == os.O_RDONLY
        found = os.fstat(descriptor)
        if not _is_own(found, shared=shared, reads=reads):
            raise foreign_entry(path)
        if found.st_mode & _OF_OTHERS:
            raise _exposed(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_file(path: Path) -> None:
    """Makes sure that `path` is a plain file of this user that no other user can read. Raises Unavailable."""
    try:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unavailable(error, path) from error


def check_file(path: Path, *, close: bool = True) -> None:
    """Refuses an entry at `path` that is no plain file of this user, or that other users can write to; `close` removes
    the permission of other users to read it. The file is not opened, so that locks on it stay. Raises Unavailable,
    OSError."""
    found = path.lstat()
    if not _is_own(found, reads=not close):
        raise foreign_entry(path)
    if found.st_mode & _OF_OTHERS:
        raise _exposed(path)
    if close and found.st_mode & 0o077:
        path.chmod(0o600)


def _is_own(found: os.stat_result, *, shared: bool = False, reads: bool = False) -> bool:
    owners = (os.geteuid(), 0) if reads else (os.geteuid(),)
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners and (shared or found.st_nlink == 1)
