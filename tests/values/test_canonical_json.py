from __future__ import annotations

import json
import struct
from contextlib import suppress
from enum import IntEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json


@pytest.mark.parametrize(
    ("bits", "text"),
    [  # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_of_the_rfc(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json.encode(number).decode() == text


def test_the_example_of_the_rfc() -> None:
    source = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + r"'" + r'B\"\\\\\"/"}'
    )
    assert canonical_json.encode(canonical_json.parse(source)).decode() == expected


def test_keys_are_sorted_by_utf16_code_units() -> None:
    source = r"""{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"""
    assert list(json.loads(canonical_json.encode(canonical_json.parse(source))).values()) == [
        2,
        4,
        6,
        7,
        1,
        5,
        3,
    ]


def test_text_is_not_normalised() -> None:
    assert canonical_json.encode(["e\u0301", "\u00e9", "\x7f\u2028"]) == '["e\u0301","\u00e9","\x7f\u2028"]'.encode()


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), float("nan"), float("inf"), "\ud800", {"\ud800": 1}, {1: 2}, object(), {1}, b"x"],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_can_not_hold_is_refused_without_quoting_it(value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical_json.encode(["secret", value])
    assert caught.value.code == "invalid_json"
    assert "secret" not in caught.value.message


def test_endless_values_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidValue):
        canonical_json.encode(loop)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a":1,}',
        "{'a':1}",
        "[1] x",
        "[01]",
        "[1.]",
        "nul",
        '{"a":1,"a":2}',
        '[{"b":{"a":1,"\\u0061":2}}]',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1e400",
        "-1e400",
        "1" * 5000,
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        '"\ud800"',
        '"a\tb"',
        '"\\x41"',
        "\ufeff{}",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        '{"a":1}'.encode("utf-16"),
        "[" * 129 + "]" * 129,
        '{"a":' * 129 + "1" + "}" * 129,
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
    ],
    ids=lambda text: repr(text)[:20],
)
def test_parsing_is_strict(text: str | bytes) -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical_json.parse(text)
    assert caught.value.code == "invalid_json"


def test_parse_reads_every_allowed_form_of_json() -> None:
    assert canonical_json.parse('"\\ud83d\\ude00"') == "😀"
    assert canonical_json.parse(b' [1, 2.5, -0, 1e2, "\\/"]\n') == [1, 2.5, 0, 100.0, "/"]
    assert canonical_json.parse("[" * 128 + "]" * 128)
    assert canonical_json.parse("[" + "[]," * 500 + "[]]") == [[]] * 501
    assert canonical_json.parse('{"a":"[[[[{{{{"}') == {"a": "[[[[{{{{"}
    assert canonical_json.parse("9" * 400) == int("9" * 400)


def test_a_syntax_error_names_the_place_and_not_the_text() -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical_json.parse('{"key":\n  secret}')
    assert "line 2, column 3" in caught.value.message
    assert "secret" not in caught.value.message


def test_an_object_may_be_asked_for() -> None:
    assert canonical_json.parse_object(b'{"a": []}') == {"a": []}
    for text in ("[]", "1", "null", '"{}"'):
        with pytest.raises(InvalidValue):
            canonical_json.parse_object(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1)
    | st.floats(min_value=-(2**53) + 1, max_value=2**53 - 1)
    | st.floats(min_value=1e21, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_one_spelling_however_often_it_is_read_and_written(value: object) -> None:
    text = canonical_json.encode(value)
    again = canonical_json.parse(text)
    assert again == value
    assert canonical_json.encode(again) == text


class Word(str):
    pass


class Level(IntEnum):
    HIGH = 3


any_text = st.text(st.characters(codec=None)) | st.text('ab\x00\x1f\x7f"\\\u2028\uffff\U0001f600\ud800', max_size=4)
any_scalars = (
    st.none() | st.booleans() | st.integers() | st.integers(2**53 - 2, 2**53) | st.floats() | any_text
) | st.sampled_from([Word("w"), Level.HIGH, b"", ()])
any_trees = st.recursive(
    any_scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner)
        | st.dictionaries(any_text, inner)
        | st.dictionaries(st.sampled_from(["a", "b", "B", "aa", Word("w"), 1, None]), inner)
    ),
)


@given(any_trees)
def test_the_quick_way_and_the_long_one_lead_to_the_same_text(value: object) -> None:
    try:
        expected = rfc8785.dumps(value)  # type: ignore[arg-type]  # whatever it may be
    except ValueError:
        with pytest.raises(InvalidValue):
            canonical_json.encode(value)
    else:
        assert canonical_json.encode(value) == expected


@given(st.text() | st.binary(max_size=60))
def test_parse_fails_in_one_way_only(text: str | bytes) -> None:
    with suppress(InvalidValue):
        canonical_json.parse(text)


_KEYS = st.sampled_from(["a", "b", "", ":", "é", "\\", '"', "\u2028"])
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_PIECES = st.sampled_from(
    [*'{}[]":,\\ \n\t\0+-.eE019', "true", "null", "\\u003a", "\\ud800", "\ufeff", '"a":1', "1e400"]
)


@given(
    st.lists(st.tuples(_KEYS, _SCALARS | st.lists(_SCALARS, max_size=2)), max_size=4),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 2), _PIECES), max_size=3),
)
def test_text_and_its_bytes_are_read_alike(
    members: list[tuple[str, object]], ascii_only: bool, edits: list[tuple[int, int, str]]
) -> None:
    """Short text has a reading of its own: whatever it holds, well formed or not."""
    text = f"{{{', '.join(json.dumps({k: v}, ensure_ascii=ascii_only)[1:-1] for k, v in members)}}}"
    for place, length, piece in edits:
        text = text[:place] + piece + text[place + length :]
    assert _read(text) == _read(text.encode())


def _read(text: str | bytes) -> str:
    try:
        return repr(canonical_json.parse(text))
    except InvalidValue as refusal:
        return str(refusal)
