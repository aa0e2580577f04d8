"""Canonical CBOR: each value has one sequence of bytes, so a digest of the bytes is a digest of the value.

A node is the self-describe tag (d9d9f7) and one item: definite lengths, shortest integers and floats, map keys sorted
by their encoded bytes (RFC 8949 4.2.1), no repeated key. Values are plain data: None, bool, int, float, str, bytes,
lists and maps, with keys of str, int or bytes. A tuple or any other sequence counts as a list.

cbor2's compiled encoder does the work. Its canonical mode sorts map keys by length first, which is the same order for
text keys, and takes twice as long as its plain mode. The plain mode gives the same bytes for values whose keys are in
order already, such as decoded values and values in normal form. Integer keys, enums, mapping views and vectors take the
slow path below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from hashlib import sha256
from itertools import pairwise
from struct import Struct
from typing import Any

from cbor2 import CBORDecodeError, dumps, loads

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref, ref_of

MAX_DEPTH = 256
"""The deepest nesting of lists and maps. The compiled encoder has no limit of its own and would overrun the stack."""

_TAG = b"\xd9\xd9\xf7"
_LIST, _MAP = 4, 5
_TOO_DEEP = f"Lists and maps are nested deeper than {MAX_DEPTH} levels."
_SIMPLE = frozenset([str, int, type(None), bool, bytes])
_SCALARS = _SIMPLE | {float}
_SHAPES_KEPT, _LONGEST_SHAPE = 4096, 1024  # maps, characters
_MANY = 8  # from this many items on, one test of all of them is quicker than a test of each

_SHORT_HEADS = [bytes([first]) for first in range(256)]
_HEAD_8, _HEAD_16, _HEAD_32, _HEAD_64 = (Struct(f">B{size}").pack for size in "BHIQ")

_shapes: set[tuple[str, ...]] = set()
"""Key sequences that are in canonical order. Maps of one type share one, so most maps need no check."""


class _Form(IntEnum):
    """How much work it takes to encode a value."""

    ORDERED = 0  # plain data without floats, every map in canonical order already: nothing to sort or shorten
    TEXT_KEYED = 1  # plain data
    OTHER = 2


def encode(value: object) -> bytes:
    """Returns the canonical node of `value`.

    Raises InvalidValue (`bad_cbor`) for data that is not plain, or is nested deeper than MAX_DEPTH.
    """
    return _TAG + encode_item(value)


def encode_item(value: object) -> bytes:
    """Returns the node of `value` without the tag: a part of a node, to be joined by `array`. Raises as `encode`."""
    try:
        if _is_ordered(value, MAX_DEPTH):
            return dumps(value)
        form = _form(value)
        if form is _Form.ORDERED:
            return dumps(value)
        return dumps(value, canonical=True) if form is _Form.TEXT_KEYED else _item(value, MAX_DEPTH)
    except UnicodeEncodeError:
        raise _bad("Text holds a lone surrogate, which UTF-8 can't express.") from None


def head(major: int, number: int) -> bytes:
    """Returns the first bytes of an item of a major type: they hold its length, or for type 0 its value. Raises
    InvalidValue (`bad_cbor`) unless `number` is in 0 to 2^64 - 1."""
    if 0 <= number < 24:
        return _SHORT_HEADS[major << 5 | number]
    if 0 <= number < 0x10000:
        return _HEAD_8(major << 5 | 24, number) if number < 0x100 else _HEAD_16(major << 5 | 25, number)
    if 0 <= number < 0x10000000000000000:
        return _HEAD_32(major << 5 | 26, number) if number < 0x100000000 else _HEAD_64(major << 5 | 27, number)
    raise _bad("The head of an item holds 0 to 2^64 - 1.")


def array(items: Sequence[bytes]) -> bytes:
    """Returns the node of a list whose items are encoded already; equal to `encode` of the list."""
    return _TAG + head(_LIST, len(items)) + b"".join(items)


def decode(data: bytes) -> Any:
    """Returns the value of one node.

    Raises InvalidValue (`bad_cbor`) unless `encode` writes exactly `data` for the value.
    """
    if data[:3] != _TAG:
        raise _bad("A node starts with the self-describe tag d9d9f7.")
    try:
        value = loads(data[3:], max_depth=MAX_DEPTH, allow_indefinite=False, allow_duplicate_keys=False)
    except (CBORDecodeError, ValueError, TypeError, OverflowError):
        raise _bad("The bytes are not one complete item of definite length without repeated keys.") from None
    if encode(value) != data:
        raise _bad("The bytes are not one item in canonical form, or there are more after it.")
    return value


def digest(value: object) -> bytes:
    """SHA-256 of `encode(value)`: 32 bytes."""
    return sha256(encode(value)).digest()


def node_ref(value: object) -> Ref:
    """Returns the ref of `value`'s node."""
    return ref_of(encode(value))


def _is_ordered(value: Any, depth: int) -> bool:
    """Returns whether all maps of `value` have known shapes. This quick test finds the form of most values."""
    if type(value) is dict:
        if tuple(value) not in _shapes:
            return False
        value = value.values()
    elif type(value) is not list:
        return type(value) in _SIMPLE
    if depth == 0:
        return False
    if len(value) > _MANY and _SIMPLE.issuperset(map(type, value)):
        return True
    for item in value:  # noqa: SIM110  (in a generator it takes twice as long)
        if type(item) not in _SIMPLE and not _is_ordered(item, depth - 1):
            return False
    return True


def _form(value: object) -> _Form:
    """Returns the form of `value`. Looks at each container once per level, so shared containers cost nothing.

    Raises InvalidValue for values that are nested too deep, cycles included.
    """
    if type(value) in _SCALARS:
        return _Form.TEXT_KEYED if type(value) is float else _Form.ORDERED
    form = _Form.ORDERED
    level: Iterable[object] = (value,)
    for _ in range(MAX_DEPTH):
        below: dict[int, object] = {}
        for node in level:
            items: Iterable[object]
            if type(node) is dict:
                if tuple(node) not in _shapes:
                    form = max(form, _keys_form(node))
                items = node.values()
            elif type(node) is list or type(node) is tuple:
                items = node
            else:
                return _Form.OTHER
            if not _SIMPLE.issuperset(map(type, items)):
                below |= {id(item): item for item in items if type(item) not in _SCALARS}
                if float in map(type, items):
                    form = max(form, _Form.TEXT_KEYED)
        if not below:
            return form
        level = below.values()
    raise _bad(_TOO_DEEP)


def _keys_form(node: dict[Any, Any]) -> _Form:
    shape = tuple(node)
    if not all(type(key) is str for key in shape):
        return _Form.OTHER
    if any(before > after for before, after in pairwise(map(dumps, shape))):
        return _Form.TEXT_KEYED
    if sum(map(len, shape)) <= _LONGEST_SHAPE:
        if len(_shapes) >= _SHAPES_KEPT:
            _shapes.clear()
        _shapes.add(shape)
    return _Form.ORDERED


def _item(value: object, depth: int) -> bytes:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return dumps(value, canonical=True)
    if depth == 0:
        raise _bad(_TOO_DEEP)
    if isinstance(value, Mapping):
        pairs = {_key(key): _item(entry, depth - 1) for key, entry in value.items()}
        if len(pairs) < len(value):
            raise _bad("Two keys of a map are the same.")
        return head(_MAP, len(pairs)) + b"".join(key + pairs[key] for key in sorted(pairs))
    if isinstance(value, Sequence) and not isinstance(value, bytearray | memoryview):
        return head(_LIST, len(value)) + b"".join([_item(entry, depth - 1) for entry in value])
    raise _bad(f"A value of type {type(value).__name__} is not plain data.")


def _key(key: object) -> bytes:
    if isinstance(key, str | int | bytes) and not isinstance(key, bool):
        return dumps(key, canonical=True)
    raise _bad(f"A map key can't be of type {type(key).__name__}.")


def _bad(message: str) -> InvalidValue:
    return InvalidValue(message, code="bad_cbor")
