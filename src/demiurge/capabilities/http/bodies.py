"""Reads a server's answer, never more of it than is allowed, neither on the wire nor unpacked.

A few kilobytes of gzip can unpack to gigabytes, so unpacking stops at the limit and not after it.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

from demiurge.errors import DemiurgeError

__all__ = ["BodyRefused", "read_body"]

SLACK = 1024
"""How many bytes packing may add to a body that does not compress."""


class BodyRefused(DemiurgeError):
    """A body is too large or cannot be unpacked."""

    code = "response_too_large"


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> bytes:
    """Returns the unpacked body of at most `limit` bytes; `encoding` is the value of Content-Encoding.

    Raises BodyRefused (`response_too_large`, `bad_encoding`).
    """
    name = encoding.strip().lower()
    if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise BodyRefused("The answer has a Content-Encoding that was not asked for.", code="bad_encoding")
    unpack = _Plain() if name in ("", "identity") else _Zlib(gzip=name != "deflate")
    body = bytearray()
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        if received > limit + SLACK:
            raise _too_large(limit)
        body += unpack.feed(chunk, limit - len(body) + 1)
        if len(body) > limit:
            raise _too_large(limit)
    if not unpack.complete:
        raise BodyRefused("The compressed answer is incomplete.", code="bad_encoding")
    return bytes(body)


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(f"The answer is larger than {limit} bytes.")


class _Plain:
    complete = True

    def feed(self, data: bytes, most: int) -> bytes:
        return data[:most]


class _Zlib:
    """Unpacks gzip (any number of members) or deflate, which servers send with or without zlib's frame."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip, self._stream = gzip, zlib.decompressobj(31)
        self._begun, self._held = False, b""

    @property
    def complete(self) -> bool:
        return self._stream.eof or not (self._begun or self._held)

    def feed(self, data: bytes, most: int) -> bytes:
        """Returns the next unpacked bytes, at most `most`; the caller stops once it got that many."""
        if not self._gzip and not self._begun:
            data = self._held = self._held + data
            if len(data) < 2:
                return b""
            framed = data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream, self._held = zlib.decompressobj(15 if framed else -15), b""
        out = bytearray()
        while data and len(out) < most:
            if self._stream.eof:
                if not self._gzip:
                    break
                self._stream = zlib.decompressobj(31)
            self._begun = True
            try:
                out += self._stream.decompress(data, most - len(out))
            except zlib.error as error:
                raise BodyRefused("The answer can't be unpacked.", code="bad_encoding") from error
            data = self._stream.unused_data or self._stream.unconsumed_tail
        return bytes(out)
