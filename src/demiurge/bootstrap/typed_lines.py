"""The lines that a person typed at `demiurge chat`, in the file `history` of the world's folder.

Invariant: an erased line does not come back, also not from a terminal that was open when it was erased: a writer reads
the file again, under its lock, and appends its new lines. The file is plain text, one line each; a message of several
lines is a JSON string after a control character. Files that libedit wrote for older versions are read too.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from demiurge.stores.errors import unavailable
from demiurge.stores.private import open_file
from demiurge.values.refs import ref_of
from demiurge.world.messages import user_blob

__all__ = ["TypedLines", "message_of_line"]

NAME: Final = "history"
MOST: Final = 1000

_SEVERAL: Final = "\x02"
"""The first character of a line that stands for several lines."""

_LIBEDIT: Final = b"_HiStOrY_V2_"
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def message_of_line(line: str) -> str:
    """Returns the address of the message that was sent with a typed line."""
    return ref_of(user_blob(line.strip()))


class TypedLines:
    """The lines typed in the world in `folder`. Raises Unavailable, also for anything but a plain file of this user's
    own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def read(self) -> list[str]:
        """Returns the lines, oldest first; none if there is no file."""
        if not os.path.lexists(self.path):
            return []
        with self._open() as file:
            return _read(file)

    def add(self, lines: Iterable[str]) -> None:
        """Appends these lines, and keeps the newest 1000 of all."""
        given = list(lines)
        if given:
            with self._open() as file:
                _write(file, [*_read(file), *given][-MOST:])

    def forget(self, says: Callable[[str], bool], *, dry_run: bool = False) -> int:
        """Removes the lines of which `says` is true. Returns their number."""
        if not os.path.lexists(self.path):
            return 0
        with self._open() as file:
            lines = _read(file)
            kept = [line for line in lines if not says(line)]
            if len(kept) < len(lines) and not dry_run:
                _write(file, kept)
            return len(lines) - len(kept)

    @contextmanager
    def _open(self) -> Iterator[int]:
        try:
            file = open_file(self.path, os.O_RDWR | os.O_CREAT)
            try:
                os.fchmod(file, 0o600)
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)
        except OSError as error:
            raise unavailable(error, self.path) from error


def _read(file: int) -> list[str]:
    data = os.pread(file, os.fstat(file).st_size, 0)
    first, *lines = data.split(b"\n")
    if first.rstrip() == _LIBEDIT:
        lines = [_OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), line) for line in lines]
    else:
        lines = [first, *lines]
    return [_decoded(line.decode("utf-8", "replace")) for line in lines if line]


def _decoded(line: str) -> str:
    if line.startswith(_SEVERAL):
        with suppress(ValueError):
            return str(json.loads(line.removeprefix(_SEVERAL)))
    return line


def _write(file: int, lines: Iterable[str]) -> None:
    """Writes the file in place, so that no copy of a removed line is left in the folder."""
    written = (_SEVERAL + json.dumps(line) if "\n" in line else line for line in lines)
    data = "".join(f"{line}\n" for line in written).encode("utf-8", "replace")
    os.ftruncate(file, 0)
    os.pwrite(file, data, 0)
    os.fsync(file)
