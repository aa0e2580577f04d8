"""The text forms of integers, decimals, times and bytes, and the canonical form of each.

Two spellings of one value would have two digests. So every parser here returns the canonical form, or raises ValueError
without quoting its input.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from decimal import Decimal

SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader reads exactly; larger ones travel as decimal text."""
NS_MIN, NS_MAX = -(2**63), 2**63 - 1

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,4299}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,64}(\.[0-9]{0,64})?|\.[0-9]{1,64})([eE][+-]?[0-9]{1,5})?", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS, _EXPONENT_MIN, _ADJUSTED_MAX = 34, -6176, 6144


def integer(text: str) -> int:
    """Returns the integer of its only decimal form: no plus sign, no leading zeros, at most 4300 digits."""
    if not _INTEGER.fullmatch(text):
        raise ValueError("not a whole number")
    return int(text)


def big_integer(text: str) -> int:
    """Returns an integer beyond ±(2^53 - 1) from its decimal form; smaller integers have a JSON form of their own."""
    number = integer(text)
    if abs(number) <= SAFE_INTEGER:
        raise ValueError("a number of this size is not written as text")
    return number


def dec128(value: str | int) -> str:
    """Returns the canonical text of a finite decimal of at most 34 digits within IEEE 754 decimal128's range.

    The text has no trailing zeros, no plus sign and no negative zero, and an exponent (`1.5E+40`) only below 1e-7 and
    from 1e34.
    """
    if isinstance(value, str):
        plausible = _DECIMAL.fullmatch(value) is not None
    else:
        plausible = type(value) is int and value.bit_length() < 2**15
    if not plausible:
        raise ValueError("not a decimal")
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    padded = "".join(map(str, digits)).lstrip("0")
    significant = padded.rstrip("0")
    if not significant:
        return "0"
    exponent += len(padded) - len(significant)
    adjusted = exponent + len(significant) - 1
    if len(significant) > _DIGITS or exponent < _EXPONENT_MIN or adjusted > _ADJUSTED_MAX:
        raise ValueError("outside decimal128")
    canonical = Decimal((sign, tuple(map(int, significant)), exponent))
    return f"{canonical:f}" if -7 <= adjusted < _DIGITS else f"{canonical:E}"


def time_ns(text: str) -> int:
    """Returns nanoseconds since 1970 from RFC 3339 text with a zone.

    Up to nine decimals of a second, no leap seconds, within the 64-bit range (years 1677 to 2262).
    """
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("not an RFC 3339 time")
    day, clock, fraction, _, sign, hours, minutes = match.groups()
    since = datetime.fromisoformat(f"{day}T{clock}+00:00") - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds -= offset if sign == "+" else -offset
    ns = seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    if not NS_MIN <= ns <= NS_MAX:
        raise ValueError("outside the years 1677 to 2262")
    return ns


def base64_bytes(text: str) -> bytes:
    """Returns the bytes of their only base64 form: standard alphabet, padded, no line breaks."""
    data = b64decode(text, validate=True)
    if b64encode(data).decode() != text:
        raise ValueError("not canonical base64")
    return data


def base64_text(data: bytes) -> str:
    return b64encode(data).decode()
