"""Values that must not be found again, and the looking for them."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

__all__ = ["bytes_below", "found", "quoted", "tapped"]


def quoted(value: str) -> dict[str, str]:
    """A value as others may write it."""
    data = value.encode()
    return {
        "plain": value,
        "url": quote(value, safe=""),
        "json": json.dumps(value)[1:-1],
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "base64": b64encode(data).decode(),
        "base64url": urlsafe_b64encode(data).decode(),
        "basic": b64encode(b"user:" + data).decode(),
    }


def found(values: Iterable[str], *places: bytes | str) -> list[tuple[str, str]]:
    """(form, value) of all that is somewhere: in any form, also inside of longer base64."""
    texts = [place if isinstance(place, bytes) else place.encode() for place in places]
    return [(form, value) for value in values for form, look in _looks(value) if any(look in text for text in texts)]


def _looks(value: str) -> Iterator[tuple[str, bytes]]:
    data = value.encode()
    for form, text in quoted(value).items():
        if not form.startswith("base"):
            yield form, text.encode()
    for shift in range(3):  # the digits that don't depend on what stands before or after
        for encode in (b64encode, urlsafe_b64encode):
            digits = encode(bytes(shift) + data)
            yield f"base64+{shift}", digits[4:-4]


def bytes_below(folder: Path) -> Iterator[bytes]:
    """Every byte of every file in a folder, and the names."""
    for path in folder.rglob("*"):
        yield str(path).encode()
        if path.is_file():
            yield path.read_bytes()


@contextmanager
def tapped(path: Path) -> Iterator[list[bytes]]:
    """All that goes over the socket at `path` while the block runs, both ways."""
    real = path.with_suffix(".real")
    path.rename(real)
    heard: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with source, target:
            try:
                while data := source.recv(65536):
                    heard.append(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def serve() -> None:
        while True:
            try:
                guest, _ = listener.accept()
            except OSError:
                return
            owner = socket.socket(socket.AF_UNIX)
            owner.connect(str(real))
            for source, target in ((guest.dup(), owner.dup()), (owner, guest)):
                threading.Thread(target=pass_on, args=(source, target), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
