from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.values import Vector, cbor

TAG = "d9d9f7"


def hexed(value: object) -> str:
    return cbor.encode(value).hex().removeprefix(TAG)


def test_the_vectors_of_the_specification() -> None:
    assert cbor.encode({}).hex() == "d9d9f7a0"
    assert cbor.encode({"a": 1, "b": 2}).hex() == "d9d9f7a2616101616202"
    empty, two = cbor.node_ref({}), cbor.node_ref({"b": 2, "a": 1})
    assert empty.startswith("sha256:75bd49cb")
    assert empty.endswith("b69")
    assert two.startswith("sha256:7d5fc784")
    assert two.endswith("7df6")
    assert cbor.digest({}).hex() == empty.removeprefix("sha256:")


@pytest.mark.parametrize(
    ("value", "code"),
    [  # RFC 8949, appendix A
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (255, "18ff"),
        (256, "190100"),
        (2**32, "1b0000000100000000"),
        (2**64 - 1, "1bffffffffffffffff"),
        (2**64, "c249010000000000000000"),
        (-1, "20"),
        (-24, "37"),
        (-25, "3818"),
        (-1000, "3903e7"),
        (-(2**64), "3bffffffffffffffff"),
        (-(2**64) - 1, "c349010000000000000000"),
        (0.0, "f90000"),
        (-0.0, "f98000"),
        (1.5, "f93e00"),
        (65504.0, "f97bff"),
        (5.960464477539063e-08, "f90001"),
        (100000.0, "fa47c35000"),
        (3.4028234663852886e38, "fa7f7fffff"),
        (1.1, "fb3ff199999999999a"),
        (1e300, "fb7e37e43c8800759c"),
        (math.inf, "f97c00"),
        (math.nan, "f97e00"),
        (False, "f4"),
        (True, "f5"),
        (None, "f6"),
        (b"\x01\x02", "420102"),
        ("ü", "62c3bc"),
        ("𐅑", "64f0908591"),
        ([], "80"),
        ((1, (2, 3)), "8201820203"),
    ],
)
def test_known_encodings(value: object, code: str) -> None:
    assert hexed(value) == code


def test_map_keys_are_sorted_by_their_encoded_bytes_at_every_depth() -> None:
    assert hexed({"z": {"bb": 1, "c": 2}, "aa": [{"y": 0, "x": 0}]}) == "a2617aa26163026262620162616181a2617800617900"


def test_integer_keys_are_sorted_by_bytes_not_by_length_or_number() -> None:
    assert list(cbor.decode(cbor.encode({-1: 0, 1000: 0, 24: 0, 10: 0, "a": 0}))) == [10, 24, 1000, -1, "a"]


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        ([Level.LOW], [3]),
        (MappingProxyType({"b": 1, "a": 2}), {"a": 2, "b": 1}),
        ({"items": Vector.of(range(40))}, {"items": list(range(40))}),
        (range(3), [0, 1, 2]),
    ],
)
def test_values_equal_to_plain_data_are_encoded_like_plain_data(value: object, plain: object) -> None:
    assert cbor.encode(value) == cbor.encode(plain)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cyclic() -> list[Any]:
    loop: list[Any] = []
    loop += [loop, loop]
    return loop


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("1.5"),
        UUID(int=1),
        bytearray(b"x"),
        ["\ud800"],
        {"\ud800": 1},
        {"a": 1, None: 2},
        {True: 1},
        {1.5: 1},
        {(1,): 1},
        deep(cbor.MAX_DEPTH + 1),
        deep(100_000),
        cyclic(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_plain_data_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        cbor.encode(value)
    assert caught.value.code == "bad_cbor"


def test_the_deepest_value_comes_back() -> None:
    value = deep(cbor.MAX_DEPTH)
    assert cbor.decode(cbor.encode(value)) == value
    innermost: Any = [1.5]
    for _ in range(cbor.MAX_DEPTH - 1):
        innermost = [innermost]
    assert cbor.decode(cbor.encode(innermost)) == innermost


def test_shared_parts_cost_their_encoding_only() -> None:
    value: list[Any] = []
    for _ in range(12):
        value = [value, value]
    assert len(cbor.encode(value)) == 3 + 2**13 - 1


@pytest.mark.parametrize(
    "code",
    [
        "",
        "a0",  # no tag
        "d9d9f7",
        "d9d9f7a1",  # cut short
        "d9d9f76261",
        "d9d9f75bffffffffffffffff",
        "d9d9f7a000",  # bytes after the item
        "d9d9f7a0f6",
        "d9d9f7a0a0",
        "d9d9f7d9d9f7a0",  # tagged twice
        "d9d9f781d9d9f701",
        "d9d9f79f01ff",  # indefinite length
        "d9d9f77f61616162ff",
        "d9d9f7a2616101616102",  # repeated key
        "d9d9f7a2616202616101",  # keys out of order
        "d9d9f71801",  # longer than need be
        "d9d9f7fb3ff0000000000000",
        "d9d9f7c24101",
        "d9d9f7a18001",  # keys and items that are not plain
        "d9d9f7a1f501",
        "d9d9f7f7",
        "d9d9f7f820",
        "d9d9f7c074323031332d30332d32315432303a30343a30305a",
        "d9d9f7d901028101",
        "d9d9f7d81c81d81d00",
        "d9d9f761ff",  # not UTF-8
        "d9d9f7" + "81" * 5000 + "01",
    ],
)
def test_decode_takes_only_what_encode_writes(code: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        cbor.decode(bytes.fromhex(code))
    assert caught.value.code == "bad_cbor"


@given(st.binary(max_size=40))
def test_decode_never_fails_otherwise(tail: bytes) -> None:
    data = bytes.fromhex(TAG) + tail
    try:
        value = cbor.decode(data)
    except InvalidValue:
        return
    assert cbor.encode(value) == data


def reference(value: Any) -> bytes:
    """Canonical CBOR, written a second time from the RFC and without any library."""
    if isinstance(value, bool) or value is None:
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return reference_int(value)
    if isinstance(value, float):
        return next(reference_floats(value))
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, Mapping):
        pairs = sorted((reference(key), reference(item)) for key, item in value.items())
        return head(5, len(pairs)) + b"".join(key + item for key, item in pairs)
    return head(4, len(value)) + b"".join(map(reference, value))


def reference_int(value: int) -> bytes:
    major, size = (0, value) if value >= 0 else (1, -1 - value)
    if size < 2**64:
        return head(major, size)
    raw = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0xC2 + major]) + head(2, len(raw)) + raw


def reference_floats(value: float) -> Iterator[bytes]:
    if math.isnan(value):
        yield b"\xf9\x7e\x00"
    for first, form in ((0xF9, ">e"), (0xFA, ">f"), (0xFB, ">d")):
        try:
            raw = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, raw)[0] == value:
            yield bytes([first]) + raw


def head(major: int, size: int) -> bytes:
    if size < 24:
        return bytes([major << 5 | size])
    width = next(n for n in (1, 2, 4, 8) if size < 256**n)
    return bytes([major << 5 | 23 + width.bit_length()]) + size.to_bytes(width, "big")


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**80), max_value=2**80)
    | st.floats(allow_nan=False)
    | st.floats(width=16, allow_nan=False)
    | st.text()
    | st.text(min_size=20, max_size=30)
    | st.binary()
)
keys = st.text(max_size=30) | st.integers(min_value=-(2**70), max_value=2**70) | st.binary(max_size=4)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.dictionaries(st.text(), inner)
)


@given(values)
def test_encoding_agrees_with_a_second_encoder_and_round_trips(value: object) -> None:
    data = cbor.encode(value)
    assert data == bytes.fromhex(TAG) + reference(value)
    again = cbor.decode(data)
    assert again == value
    assert cbor.encode(again) == data


@given(st.lists(values | st.sampled_from([Level.LOW, Colour.RED, (1, "a"), MappingProxyType({"b": 1})]), min_size=2))
def test_maps_whose_keys_are_known_are_looked_into_all_the_same(items: list[object]) -> None:
    for shape in (["a", "b"], ["b", "a"]):
        cbor.encode(dict.fromkeys(shape))
        value = {"in": [dict(zip(shape, items, strict=False))]}
        assert cbor.encode_item(value) == reference(value)


@given(st.lists(values, max_size=5))
@settings(max_examples=30)
def test_a_list_of_encoded_items_is_the_list(items: list[object]) -> None:
    assert cbor.array([cbor.encode_item(item) for item in items]) == cbor.encode(items)


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_a_head_is_how_an_item_begins(number: int) -> None:
    assert cbor.head(0, number) == reference(number)
    if number < 70_000:
        assert cbor.head(2, number) + bytes(number) == reference(bytes(number))


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_head_has_room_for_64_bits(number: int) -> None:
    with pytest.raises(InvalidValue) as refused:
        cbor.head(0, number)
    assert refused.value.code == "bad_cbor"
