"""Pages of a list: together they are the whole list, and the last says that there is no more."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from demiurge.errors import NotFound
from demiurge.server.paging import page_of


class Item(NamedTuple):
    id: str


ITEMS = [Item(name) for name in "abcde"]


def ids(after: str | None, limit: int) -> tuple[str, str | None]:
    shown, following = page_of(ITEMS, after, limit)
    return "".join(item.id for item in shown), following


def test_a_page_ends_at_its_limit_and_says_where_the_next_begins() -> None:
    assert ids(None, 2) == ("ab", "b")
    assert ids("b", 2) == ("cd", "d")
    assert ids("d", 2) == ("e", None)
    assert ids("e", 2) == ("", None)


@pytest.mark.parametrize(("limit", "following"), [(4, "d"), (5, None), (6, None)])
def test_a_page_with_all_that_is_left_is_the_last(limit: int, following: str | None) -> None:
    assert ids(None, limit) == ("abcde"[:limit], following)
    assert page_of([], None, limit) == ([], None)


def test_a_place_that_is_not_in_the_list_is_refused() -> None:
    with pytest.raises(NotFound) as refused:
        ids("x", 2)
    assert refused.value.code == "no_place"
    assert refused.value.message == "Nothing in this list has the id 'x'; read it from its start."
