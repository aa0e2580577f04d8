"""A port of this machine for servers that a test starts at it, one after the other."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["reserved_port"]


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yields a port of loopback that no other program is given before the block ends. A server that sets
    `SO_REUSEADDR`, as servers do, can listen there; systems other than Linux allow that for a free port only, so there
    the port is not held."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield port
