"""The write-ahead log of a world that was killed: where its transactions lie, and how the end of one may be torn.

A log is a header of 32 bytes and frames of 24 bytes and a page; the number in a frame's bytes 4 to 8 is not 0 in the
last frame of a transaction. Frames of an earlier use of the file have other salts (bytes 8 to 16).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["damage_middle", "log_of", "tears", "transactions"]


def log_of(folder: Path) -> Path:
    return folder / "journal.db-wal"


def transactions(folder: Path) -> list[tuple[int, int]]:
    """The first byte of each, and the first byte behind it."""
    log = log_of(folder).read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    found, begin = [], 32
    for at in range(32, len(log) - size + 1, size):
        if log[at + 8 : at + 16] != log[16:24]:
            break
        if int.from_bytes(log[at + 4 : at + 8], "big"):
            found.append((begin, at + size))
            begin = at + size
    return found


def tears(folder: Path) -> Mapping[str, bytes]:
    """The log as it may be found when the power went while its last transaction was written, by what is wrong with it:
    cut, filled up with zeros, or with pages missing before the last one."""
    log = log_of(folder).read_bytes()
    begin, end = transactions(folder)[-1]
    size = 24 + int.from_bytes(log[8:12], "big")
    cuts = {begin, begin + 10, begin + 24, begin + 1000, end - size, end - size + 24, end - 1}
    torn = {f"cut at {at}": log[:at] for at in cuts}
    torn |= {f"zeros from {at}": log[:at] + bytes(end - at) for at in cuts}
    torn["cut in the last page"] = log[: end - size // 2]
    torn["zeros in the last page"] = log[: end - size // 2] + bytes(size // 2)
    torn["first page missing"] = log[: begin + 24] + bytes(size - 24) + log[begin + size : end]
    torn["garbled in the last page"] = log[: end - 100] + b"garbled" + log[end - 93 : end]
    return torn


def damage_middle(folder: Path) -> None:
    """Change a byte of a transaction that others follow."""
    log = bytearray(log_of(folder).read_bytes())
    found = transactions(folder)
    log[found[len(found) // 2][0] + 500] ^= 1
    log_of(folder).write_bytes(log)
