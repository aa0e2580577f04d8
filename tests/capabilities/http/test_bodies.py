"""A body is taken whole or not at all, however it is packed and cut up."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.http.bodies import SLACK, BodyRefused, read_body


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    ("identity", bytes),
    ("gzip", gzip.compress),
    (" GZIP ", lambda data: gzip.compress(data[:2]) + gzip.compress(data[2:])),
    ("deflate", zlib.compress),
    ("deflate", bare),
]


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@given(st.binary(max_size=200), st.integers(0, 220), st.integers(1, 60), st.sampled_from(PACKED))
async def test_a_value_that_fits_is_read_and_any_other_is_refused(
    data: bytes, limit: int, size: int, packing: tuple[str, Callable[[bytes], bytes]]
) -> None:
    encoding, pack = packing
    if len(data) <= limit:
        assert await read_body(pieces(pack(data), size), encoding, limit) == data
    else:
        with pytest.raises(BodyRefused) as raised:
            await read_body(pieces(pack(data), size), encoding, limit)
        assert raised.value.code == "response_too_large"


@given(st.binary(max_size=200), st.integers(1, 60), st.sampled_from(["gzip", "deflate"]))
async def test_read_body_never_returns_more_than_the_limit(data: bytes, size: int, encoding: str) -> None:
    with suppress(BodyRefused):
        assert len(await read_body(pieces(data, size), encoding, 50)) <= 50


async def test_a_body_that_unpacks_to_nothing_is_limited_by_its_packed_size() -> None:
    nothing = gzip.compress(b"")
    with pytest.raises(BodyRefused, match="larger than 10 bytes"):
        await read_body(pieces(nothing * SLACK, 500), "gzip", 10)
