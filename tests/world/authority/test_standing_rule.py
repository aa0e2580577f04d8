"""Which calls a standing rule allows: those that its pattern, its binding, its end and its count cover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.world.authority.standing_rule import BOUND, check_pattern, exactly, matches, rule_id

QUESTION = {"tool": "t", "spec_hash": "s", "actor": "a", "rule_digest": "r", "expires_ns": 100}
RULE: Mapping[str, Any] = {
    "bound": {"tool": "t", "spec_hash": "s", "actor": "a", "rule_digest": "r"},
    "pattern": '{"path":{"like":"notes/*.txt"},"n":{"equals":1},"text":{"any":true}}',
    "expires_ns": 100,
    "left": 1,
    "roles": ["approver"],
}
GOOD = {"path": "notes/a.txt", "n": 1, "text": {"x": [1]}}


def call(arguments: object) -> bytes:
    return canonical_json.encode({"id": "c", "name": "t", "arguments_json": canonical_json.encode(arguments).decode()})


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({}, True),
        ({"text": None}, True),
        ({"n": 1.0}, True),
        ({"n": True}, False),
        ({"n": "1"}, False),
        ({"n": 2}, False),
        ({"path": "notes/a.md"}, False),
        ({"path": "notes/x/a.txt"}, False),
        ({"path": "notes\\x\\a.txt"}, False),
        ({"path": "notes/../a.txt"}, False),
        ({"path": "notes/a.txt\n"}, False),
        ({"path": "/notes/a.txt"}, False),
        ({"path": ["notes/a.txt"]}, False),
        ({"extra": 1}, False),
    ],
)
def test_a_pattern_covers_every_argument_and_no_more(changed: Mapping[str, Any], *, allowed: bool) -> None:
    assert matches(RULE, QUESTION, call({**GOOD, **changed}), 99) is allowed


def test_a_call_without_a_named_argument_or_without_an_object_does_not_match() -> None:
    assert not matches(RULE, QUESTION, call({"path": "notes/a.txt", "n": 1}), 99)
    assert not matches(RULE, QUESTION, call([]), 99)


@pytest.mark.parametrize("name", BOUND)
def test_a_rule_is_bound_to_tool_wording_actor_and_rule(name: str) -> None:
    assert not matches(RULE, {**QUESTION, name: "other"}, call(GOOD), 99)


def test_a_rule_ends_at_its_time_and_with_its_count_and_needs_the_roles_of_the_policy() -> None:
    assert not matches(RULE, QUESTION, call(GOOD), 100)
    assert not matches({**RULE, "left": 0}, QUESTION, call(GOOD), 99)
    assert not matches(RULE, {**QUESTION, "approvers": [["chief"]]}, call(GOOD), 99)
    assert matches(RULE, {**QUESTION, "approvers": [["chief", "approver"]]}, call(GOOD), 99)


def test_exact_arguments_that_look_like_a_form_stay_exact() -> None:
    pattern = check_pattern(canonical_json.encode(exactly({"path": {"any": True}})).decode())
    rule = {**RULE, "pattern": pattern}
    assert matches(rule, QUESTION, call({"path": {"any": True}}), 99)
    assert not matches(rule, QUESTION, call({"path": "notes"}), 99)


@pytest.mark.parametrize("pattern", ["[]", "{", '{"a":1}', '{"a":{"any":1}}', '{"a":{"like":"x","any":true}}'])
def test_an_invalid_argument_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidValue):
        check_pattern(pattern)


def test_other_terms_another_unit_or_another_world_give_another_id() -> None:
    terms = (("w", "u", 1), ("w", "u", 2), ("w", "v", 1), ("x", "u", 1))
    assert len({rule_id(world, unit, {"n": n}) for world, unit, n in terms}) == 4


def test_no_rule_matches_a_question_to_a_person() -> None:
    assert matches(RULE, {**QUESTION, "expires_ns": None}, call(GOOD), 99) is False
