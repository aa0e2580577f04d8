from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.values.money import add_micros, dollars_text, micros_of, whole_micros

AMOUNTS = st.decimals(0, 999_999_999, places=30, allow_nan=False).filter(lambda amount: len(str(amount)) <= 60)


def test_five_answers_of_a_fraction_are_added_before_they_are_rounded() -> None:
    one = micros_of("0.0000123")
    assert one == Decimal("12.3")
    total = add_micros([one] * 5)
    assert (dollars_text(total), whole_micros(total), whole_micros(one)) == ("0.0000615", 62, 13)


@given(st.lists(AMOUNTS, max_size=20))
def test_a_sum_is_exact_whatever_the_callers_own_precision_is(dollars: list[Decimal]) -> None:
    with decimal.localcontext(prec=3):
        amounts = [micros_of(str(each)) for each in dollars]
        known = [amount for amount in amounts if amount is not None]
        total = add_micros(known)
        assert len(known) == len(dollars)
        assert micros_of(dollars_text(total)) == total or total >= 10**15
    assert Fraction(total) == sum(map(Fraction, dollars)) * 10**6
    assert whole_micros(total) - 1 < Fraction(total) <= whole_micros(total)


@given(st.floats(0, 999_999_999, allow_nan=False))
def test_any_number_of_json_is_read_and_written_exactly(dollars: float) -> None:
    micros = micros_of(repr(dollars))
    assert micros is not None
    assert micros_of(dollars_text(micros)) == micros
    short = Fraction(micros) - Fraction(repr(dollars)) * 10**6
    assert short == 0 if dollars == 0 or dollars > 1e-40 else 0 <= short < Fraction(1, 10**54)


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0"), (Decimal("0E-12"), "0"), (10**6, "1"), (20_100, "0.0201"), (Decimal("0.001"), "0.000000001")],
)
def test_dollars_are_written_without_needless_digits(micros: Decimal | int, text: str) -> None:
    assert dollars_text(micros) == text


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1e+3", ".5", "1.", "NaN", "Infinity", "1_0", "٣", "1" * 10, "1 "])
def test_a_value_that_is_no_amount_is_refused(text: str) -> None:
    assert micros_of(text) is None


def test_nothing_costs_nothing() -> None:
    assert (dollars_text(add_micros([])), whole_micros(add_micros([]))) == ("0", 0)
