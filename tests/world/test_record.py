"""Records: the bytes that are hashed are the bytes that are stored, and they say all there is."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import Damaged, InvalidValue
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of
from demiurge.world.record import GENESIS, Cause, Stamp, decode_record, seal_record
from demiurge.world.unit import Unit

BODIES = st.dictionaries(st.text("abcé€", max_size=4), st.integers() | st.binary(max_size=4))
CALLERS = st.builds(
    Caller,
    st.sampled_from(["", "user"]),
    st.sampled_from(["", "shop"]),
    st.lists(st.sampled_from(["agent", "user"])).map(tuple),
    st.sampled_from(["", "http"]),
)
STAMPS = st.one_of(
    st.builds(Stamp, st.integers(0, 2**63)),
    st.builds(Stamp, st.integers(0, 2**63), st.binary(max_size=16), CALLERS, st.just(ref_of(b"m"))),
)
CAUSES: st.SearchStrategy[Cause] = st.one_of(
    st.none(), st.integers(0, 99), st.just({"unit": "ex/Room@1/a", "seq": 3, "index": 0})
)


@given(BODIES, STAMPS, CAUSES, st.lists(st.binary(max_size=2).map(ref_of), max_size=4))
def test_a_record_is_read_back_as_it_was(body: dict[str, Any], stamp: Stamp, cause: Cause, refs: list[Any]) -> None:
    sealed = seal_record("ex/Room@1/a", 7, "event", cause, stamp, body, GENESIS, refs)
    read = decode_record(sealed.data)
    assert read == sealed
    assert read.hash == sha256(sealed.data).digest()
    assert read.refs == tuple(dict.fromkeys(refs))
    assert read.is_ingress == (stamp.manifest is not None)


def test_every_field_is_under_the_hash() -> None:
    base: dict[str, Any] = {
        "unit": "u",
        "unit_seq": 0,
        "kind": "k",
        "cause": None,
        "stamp": Stamp(1),
        "body": {},
        "prev": GENESIS,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"unit": "v"},
        {"unit_seq": 1},
        {"kind": "l"},
        {"cause": 0},
        {"stamp": Stamp(2)},
        {"stamp": Stamp(1, b"", Caller(""), ref_of(b"m"))},
        {"stamp": Stamp(1, b"", Caller("", "shop"), ref_of(b"m"))},
        {"stamp": Stamp(1, b"", Caller("", "", ("shop",)), ref_of(b"m"))},
        {"stamp": Stamp(1, b"", Caller("", "", (), "shop"), ref_of(b"m"))},
        {"body": {"a": 1}},
        {"prev": b"1" * 32},
        {"refs": [ref_of(b"x")]},
    ]
    assert len({seal_record(**base | change).hash for change in changes}) == len(changes)


@pytest.mark.parametrize(
    "data", [b"", b"junk", cbor.encode([]), cbor.encode({}), cbor.encode({"unit": "u"}), cbor.encode(7)]
)
def test_bytes_that_are_no_record_are_damage(data: bytes) -> None:
    with pytest.raises(Damaged, match="position 9"):
        decode_record(data, position=9)


@pytest.mark.parametrize("key", ["", "main", "a/b", "ex/Room@1/a", "with space", "é"])
def test_a_unit_is_read_back_from_its_name(key: str) -> None:
    unit = Unit("demiurge/Demiurge@1", key)
    assert Unit.parse(str(unit)) == unit


@pytest.mark.parametrize(
    "text", ["", "main", "ex/Room", "ex/Room@1", "ex/Room@0/a", "Ex/Room@1/a", "/Room@1/a", "ex/Room@1a/"]
)
def test_a_value_that_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="is not a unit"):
        Unit.parse(text)
