"""The rules of a turn's rounds, which a world's chat and the in-process loop share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demiurge.tools import ToolErrorCode
from demiurge.wire.rounds import call_identity, next_choice, refuse


def test_the_first_reason_counts() -> None:
    def said(round_: int, **why: bool) -> ToolErrorCode | None:
        return refuse(round_, 2, **{"denied": False, "invalid": False, "repeated": False, **why})

    assert said(2) is None
    assert said(2, repeated=True) == "repeated_call"
    assert said(2, repeated=True, invalid=True) == "invalid_json"
    assert said(2, repeated=True, invalid=True, denied=True) == "policy_denied"
    assert said(3, repeated=True, invalid=True, denied=True) == "rounds_exceeded"


@given(st.integers(0, 20))
def test_a_turn_has_two_requests_more_than_rounds_of_tools(rounds: int) -> None:
    choices = [next_choice(round_, rounds) for round_ in range(1, rounds + 3)]
    assert choices == [*["auto"] * rounds, "none", None]


def test_equal_calls_are_equal_however_they_are_written() -> None:
    assert call_identity("t", '{"a": 1, "b": 2}') == call_identity("t", '{"b":2.0,"a":1}')
    assert call_identity("t", "{}") != call_identity("u", "{}")
    assert call_identity("t", '{"a": 1') == call_identity("t", '{"a": 1') != call_identity("t", '{"a": 1}')
