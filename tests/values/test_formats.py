from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.values import formats


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0.000", "0"),
        ("0.70", "0.7"),
        ("+00.5", "0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1E2", "100"),
        ("100", "100"),
        ("-12.50e1", "-125"),
        ("1e-7", "0.0000001"),
        ("1e-8", "1E-8"),
        ("12e-9", "1.2E-8"),
        ("1e33", "1" + "0" * 33),
        ("1e34", "1E+34"),
        ("15e39", "1.5E+40"),
        ("1" * 34, "1" * 34),
        ("1" + "0" * 40, "1E+40"),
        ("9" * 34 + "e6111", "9." + "9" * 33 + "E+6144"),
        ("1e-6176", "1E-6176"),
        (7, "7"),
        (-(10**20), "-1" + "0" * 20),
    ],
)
def test_decimals_have_one_spelling(text: str | int, canonical: str) -> None:
    assert formats.dec128(text) == canonical
    assert formats.dec128(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *["", ".", "-", "1e", "e5", "NaN", "inf", "-Infinity", "1_0", " 1", "1 ", "0x1", "1,5", "\u0661"],
        *["1" * 35, "1e6145", "1e-6177", "1e99999", "9" * 100, True],
    ],
)
def test_other_text_is_no_decimal(text: str) -> None:
    with pytest.raises(ValueError, match=r"decimal"):
        formats.dec128(text)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20))
def test_a_decimal_keeps_its_value(number: Decimal) -> None:
    canonical = formats.dec128(str(number))
    assert Decimal(canonical) == number
    assert formats.dec128(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00.000000001z", 1),
        ("1970-01-01 00:00:01.5Z", 1_500_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2000-01-01T00:00:00+01:30", 946_679_400 * 10**9),
        ("1999-12-31T22:30:00-00:00", 946_679_400 * 10**9),
        ("1985-04-12T23:20:50.52Z", 482_196_050_520_000_000),
        ("1996-12-19T16:39:57-08:00", 851_042_397 * 10**9),
    ],
)
def test_times_are_nanoseconds(text: str, ns: int) -> None:
    assert formats.time_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567891Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00Z\n",
        "20260101T000000Z",
        "1600-01-01T00:00:00Z",
        "2300-01-01T00:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_other_text_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        formats.time_ns(text)


@given(st.datetimes(datetime(1678, 1, 1), datetime(2262, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001
def test_times_agree_with_the_calendar(moment: datetime, minutes: int) -> None:
    utc = moment.replace(tzinfo=UTC)
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    local = moment + timedelta(minutes=minutes)
    text = f"{local.isoformat(timespec='microseconds')}{sign}{hours:02}:{rest:02}"
    assert formats.time_ns(text) == (utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


@pytest.mark.parametrize("text", ["", "-", "+1", "01", "-0", "1.0", "1e3", " 1", "1\n", "0x1", "\u0661", "1" * 4301])
def test_an_integer_has_one_spelling(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        formats.integer(text)


@given(st.integers())
def test_integers_are_read_as_written(number: int) -> None:
    assert formats.integer(str(number)) == number


@given(st.binary())
def test_base64_round_trips(data: bytes) -> None:
    assert formats.base64_bytes(formats.base64_text(data)) == data


@pytest.mark.parametrize("text", ["A", "AA", "AA=", "AB==", "AA==\n", "A A=", "-_==", "é===", "AA==AA=="])
def test_bytes_have_one_base64_text(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        formats.base64_bytes(text)
