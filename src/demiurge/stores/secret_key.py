"""A key of 32 random bytes in a file of its own, made on first use.

Invariant: a key that was made is never overwritten, also not by a second process that makes one at the same moment.
"""

from __future__ import annotations

import re
from pathlib import Path

from demiurge.errors import Unavailable
from demiurge.stores.secret_file import CODE, locked_folder, read_private, write_private
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Entropy

__all__ = ["read_key", "read_or_make_key"]

_DIGITS = re.compile(rb"[0-9a-fA-F]{64}\s*")


def read_key(path: Path) -> Secret | None:
    """Returns the 64 hexadecimal digits in `path`; None if there is no such file. Raises Unavailable."""
    data = read_private(path, 80)
    if data is None:
        return None
    if not _DIGITS.fullmatch(data):
        data = b""
        raise Unavailable(f"{path} holds no key, which is 64 hexadecimal digits: restore it.", code=CODE)
    return Secret(data.decode().strip())


def read_or_make_key(path: Path, entropy: Entropy) -> Secret:
    """Returns the key in `path`; makes the key and its folder if need be. Raises Unavailable."""
    found = read_key(path)
    if found is not None:
        return found
    with locked_folder(path.parent):
        found = read_key(path)
        if found is None:
            found = Secret(entropy.token(32).hex())
            write_private(path, found.reveal().encode() + b"\n")
        return found
