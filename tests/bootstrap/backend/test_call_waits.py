"""The waits for the answers to calls: who waits, who came last, and who gives the answer to its client."""

from __future__ import annotations

from demiurge.bootstrap.backend.call_waits import CallWaits


def test_an_asker_waits_for_its_call_until_it_has_left() -> None:
    waits = CallWaits()
    assert not waits.has("call")
    left = waits.begin("call", "anna", only_looks=False)
    assert waits.has("call")
    assert waits.has("call", "anna")
    assert not waits.has("call", "ben")
    assert not waits.has("other")
    assert not waits.has("other", "anna")
    assert not left.is_set()
    waits.end("call", "anna")
    assert left.is_set()
    assert not waits.has("call")
    waits.end("call", "anna")  # once more changes nothing


def test_the_wait_of_one_asker_ends_without_that_of_another() -> None:
    waits = CallWaits()
    anna, ben = (waits.begin("call", name, only_looks=False) for name in ("anna", "ben"))
    waits.end("call", "ben")
    waits.end("call", "nobody")
    assert (anna.is_set(), ben.is_set()) == (False, True)
    assert waits.has("call", "anna")
    assert not waits.has("call", "ben")
    assert not waits.is_last("call", "anna"), "ben came last, though he has left"


def test_the_last_asker_is_the_one_that_came_last_until_nobody_waits() -> None:
    waits = CallWaits()
    assert waits.is_last("call", "anna"), "nobody has asked after her"
    waits.begin("call", "anna", only_looks=False)
    waits.begin("call", "ben", only_looks=False)
    waits.begin("other", "anna", only_looks=False)
    assert [waits.is_last("call", name) for name in ("anna", "ben", "carl")] == [False, True, False]
    waits.end("call", "anna")
    waits.end("call", "ben")
    assert waits.is_last("call", "carl")
    assert not waits.is_last("other", "carl")


def test_an_asker_that_only_looks_is_not_the_last_unless_it_was_the_first_to_be_shown_the_answer() -> None:
    waits = CallWaits()
    waits.begin("call", "anna", only_looks=False)
    waits.begin("call", "ben", only_looks=True)
    assert waits.is_last("call", "anna")
    waits.show("call", "ben")
    assert waits.is_last("call", "anna"), "she waits, and so she is the last"
    waits.end("call", "anna")
    waits.end("call", "ben")
    waits.begin("call", "carl", only_looks=True)
    waits.begin("call", "dora", only_looks=True)
    waits.show("call", "carl")
    waits.show("call", "dora")
    assert [waits.is_last("call", name) for name in ("carl", "dora")] == [True, False]


def test_an_answer_is_being_given_from_when_an_asker_was_shown_it_until_that_asker_has_left() -> None:
    waits = CallWaits()
    assert waits.giving("call") is None
    waits.begin("call", "anna", only_looks=False)
    left = waits.begin("call", "ben", only_looks=False)
    assert waits.giving("call") is None
    waits.show("call", "ben")
    assert waits.giving("call") is left
    assert waits.giving("other") is None
    waits.end("call", "ben")
    assert waits.giving("call") is None


def test_an_asker_that_does_not_wait_is_shown_nothing() -> None:
    waits = CallWaits()
    waits.show("call", "anna")
    waits.begin("call", "ben", only_looks=True)
    waits.show("call", "anna")
    assert waits.giving("call") is None
    assert waits.is_last("call", "ben")
