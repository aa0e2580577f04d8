from __future__ import annotations

import pytest

from demiurge.errors import InvalidValue
from demiurge.values.refs import parse_ref, ref_digest, ref_from_digest, ref_of

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_blob_is_named_by_its_raw_bytes() -> None:
    assert ref_of(b"") == EMPTY


def test_a_ref_and_its_digest_are_two_spellings() -> None:
    assert ref_from_digest(ref_digest(parse_ref(EMPTY))) == EMPTY


@pytest.mark.parametrize(
    "text",
    [
        "",
        EMPTY[:-1],
        EMPTY + "0",
        EMPTY + "\n",
        EMPTY.upper(),
        EMPTY.replace("e3", "E3"),
        EMPTY.replace("sha256", "sha1"),
        EMPTY[7:],
        " " + EMPTY,
        None,
        EMPTY.encode(),
    ],
)
def test_anything_else_is_no_ref(text: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_ref(text)
    assert caught.value.code == "invalid_ref"


def test_a_digest_has_32_bytes() -> None:
    with pytest.raises(InvalidValue):
        ref_from_digest(b"short")
