"""Who is woken when a claim ends: nobody too few, and not all for nothing."""

from __future__ import annotations

import functools

from demiurge.tools import LedgerSlot
from demiurge.tools.ledger.watchers import Watchers

SLOT = LedgerSlot("", "t", "k")


class Watched:
    """Three watchers at one place, one at another, one of another slot; `woken`: who, in order."""

    def __init__(self) -> None:
        self.watchers, self.woken = Watchers(), list[str]()
        self.stop = {
            name: self.watchers.add(slot, functools.partial(self.woken.append, name), place)
            for name, slot, place in (
                ("a1", SLOT, "a"),
                ("a2", SLOT, "a"),
                ("a3", SLOT, "a"),
                ("b1", SLOT, "b"),
                ("other", SLOT._replace(key="other"), "a"),
            )
        }


def test_an_answer_is_news_for_all() -> None:
    watched = Watched()
    watched.watchers.wake_all(SLOT)
    assert watched.woken == ["a1", "a2", "a3", "b1"]


def test_a_free_slot_is_news_for_one_of_each_place() -> None:
    watched = Watched()
    watched.watchers.wake_next(SLOT)
    assert watched.woken == ["a1", "b1"]


def test_a_woken_watcher_that_leaves_wakes_the_next_one() -> None:
    watched = Watched()
    watched.watchers.wake_next(SLOT)
    watched.woken.clear()
    watched.stop["a1"]()
    assert watched.woken == ["a2", "b1"]


def test_a_watcher_that_leaves_unwoken_wakes_nobody() -> None:
    watched = Watched()
    for stop in watched.stop.values():
        stop()
        stop()
    watched.watchers.wake_next(SLOT)
    watched.watchers.wake_all(SLOT)
    assert watched.woken == []
    assert not watched.watchers._waiting
    assert not watched.watchers._woken


def test_news_of_a_slot_that_nobody_watches_wakes_nobody() -> None:
    watched = Watched()
    watched.watchers.wake_next(SLOT._replace(key="unwatched"))
    watched.watchers.wake_all(SLOT._replace(key="unwatched"))
    assert watched.woken == []


def test_a_woken_watcher_that_leaves_twice_wakes_the_next_one_once() -> None:
    watched = Watched()
    watched.watchers.wake_next(SLOT)
    watched.stop["a1"]()
    watched.woken.clear()
    watched.stop["a1"]()
    assert watched.woken == []
