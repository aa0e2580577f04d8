"""A caller: what is known of who asks, and its form in records."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.values.caller import NOBODY, USER, Caller


def test_an_actor_alone_is_a_text_in_records_as_it_always_was() -> None:
    assert Caller("user").to_node() == "user"
    assert NOBODY.to_node() == ""


def test_the_node_of_a_caller_keeps_known_fields_and_leaves_empty_ones_out() -> None:
    caller = Caller("user:ada", "shop", ("viewer", "agent", "viewer"), "http")
    assert caller.to_node() == {
        "actor": "user:ada",
        "tenant": "shop",
        "roles": ["agent", "viewer"],
        "transport": "http",
    }
    assert USER.to_node() == {"actor": "user", "roles": ["user"], "transport": "python"}
    assert [Caller.from_node(each.to_node()) for each in (caller, USER, NOBODY)] == [caller, USER, NOBODY]


def test_a_user_has_every_role_and_others_have_their_own() -> None:
    assert USER.has("approver")
    assert Caller("a", roles=("agent",)).has("approver", "agent")
    assert not Caller("a", roles=("agent",)).has("approver")
    assert not NOBODY.has("viewer")


@pytest.mark.parametrize(
    "given",
    [
        {"actor": None},
        {"actor": "a" * 1025},
        {"actor": "a", "tenant": 1},
        {"actor": "a", "transport": "t" * 257},
        {"actor": "a", "roles": "user"},
        {"actor": "a", "roles": ("",)},
        {"actor": "a", "roles": ("r" * 257,)},
        {"actor": "a", "roles": (1,)},
        {"actor": "a", "roles": tuple(map(str, range(33)))},
    ],
)
def test_another_form_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Caller(**given)


def test_the_longest_form_is_taken() -> None:
    caller = Caller("a" * 1024, "t" * 256, tuple(str(number).zfill(256) for number in range(32)), "x" * 256)
    assert len(caller.roles) == 32
