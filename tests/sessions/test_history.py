"""A history is a tuple that is cheap to add to, and every earlier one stays what it was."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.sessions.history import EMPTY, History

LENGTHS = (0, 1, 31, 32, 33, 63, 64, 65, 200)


def history(length: int) -> History[int]:
    found: History[int] = EMPTY
    for number in range(length):
        found = found.append(number)
    return found


@pytest.mark.parametrize("length", LENGTHS)
def test_a_history_holds_appended_values_in_order(length: int) -> None:
    found = history(length)
    assert found.all() == tuple(range(length))
    assert found.latest() == (length - 1 if length else None)


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(1, 70)), max_size=12))
def test_histories_that_share_a_past_do_not_see_each_others_values(branches: list[tuple[int, int]]) -> None:
    """Each branch starts from one that is already there."""
    made: list[tuple[tuple[int, ...], History[int]]] = [((), EMPTY)]
    for start, length in branches:
        values, found = made[start % len(made)]
        for number in range(length):
            values, found = (*values, number), found.append(number)
        made.append((values, found))
    assert [found.all() for _, found in made] == [values for values, _ in made]


def test_a_history_made_of_a_long_tuple_keeps_that_tuple() -> None:
    values = tuple(range(100))
    assert History(values).all() is values
    assert History(values).append(100).all() == (*values, 100)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_newest_that_matches_is_replaced(length: int) -> None:
    found = history(length)
    for wanted in range(length):
        replaced = found.replaced(lambda value, wanted=wanted: value == wanted, -1)  # type: ignore[misc]
        assert replaced is not None
        assert replaced.all() == (*range(wanted), -1, *range(wanted + 1, length))
        assert replaced.append(-2).all()[-2:] == (replaced.latest(), -2)
    assert found.replaced(lambda value: value == length, -1) is None
    assert found.all() == tuple(range(length))


def test_the_newest_of_two_matching_values_is_replaced() -> None:
    assert History((1, 2, 1, 2)).replaced(lambda value: value == 1, 0).all() == (1, 2, 0, 2)  # type: ignore[union-attr]


def test_the_memory_of_an_append_does_not_depend_on_the_length() -> None:
    def appended(to: History[int]) -> int:
        tracemalloc.start()
        kept = [to.append(0)]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept
        return peak

    assert appended(history(10_000)) == appended(history(16))


def test_a_very_long_history_is_deallocated_without_recursion() -> None:
    """Its chain is deeper than any stack."""
    found = history(200_000)
    del found
