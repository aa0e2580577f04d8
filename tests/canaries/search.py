"""Secret values that are planted to be looked for (canaries), and the search for them in whatever came out."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

__all__ = ["Traces", "bytes_below", "find_values", "spellings_of", "tap_socket"]


@dataclass(frozen=True)
class Traces:
    """What a journey left. `planted`: each place where a secret value went in, and the value. `surfaces`: all that came
    out, by the surface on which others see it. `public`: the places whose value the surfaces may show."""

    planted: Mapping[str, str]
    surfaces: Mapping[str, Iterable[bytes | str]]
    public: frozenset[str] = frozenset()

    def leaks(self) -> list[tuple[str, str, str]]:
        """Returns (surface, place, spelling) of each value that a surface shows in any spelling and should not."""
        return [
            (surface, place, spelling)
            for surface, texts in self.surfaces.items()
            for place, value in self.planted.items()
            if place not in self.public
            for spelling, _ in find_values([value], *texts)
        ]


def spellings_of(value: str) -> dict[str, str]:
    """Returns the spellings in which others may write a value."""
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


def find_values(values: Iterable[str], *places: bytes | str) -> list[tuple[str, str]]:
    """Returns (spelling, value) of each value that is in one of the places, also inside of longer base64."""
    texts = [place if isinstance(place, bytes) else place.encode("utf-8", "surrogatepass") for place in places]
    return [
        (form, value) for value in values for form, look in _spellings(value) if any(look in text for text in texts)
    ]


@cache
def _spellings(value: str) -> tuple[tuple[str, bytes], ...]:
    plain = [(form, text.encode()) for form, text in spellings_of(value).items() if not form.startswith("base")]
    digits = [
        (f"base64+{shift}", encode(bytes(shift) + value.encode())[4:-4])  # what doesn't depend on the text around it
        for shift in range(3)
        for encode in (b64encode, urlsafe_b64encode)
    ]
    return (*plain, *digits)


def bytes_below(folder: Path) -> Iterator[bytes]:
    """Yields the name and the bytes of every file below a folder."""
    for path in folder.rglob("*"):
        yield str(path).encode()
        if path.is_file():
            yield path.read_bytes()


@contextmanager
def tap_socket(path: Path) -> Iterator[list[bytes]]:
    """Listens in on the socket at `path` while the block runs. Yields all that goes over it, both ways."""
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
