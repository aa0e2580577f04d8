"""Reading a proposal: its fields, its locks and its digest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.registry.proposals import proposal_of

from demiurge.errors import InvalidValue, UsageError
from demiurge.registry.pattern import is_match
from demiurge.registry.proposal import read_proposal

BASE = "sha256:" + "0" * 64


def test_a_sound_proposal_is_read_and_written_back() -> None:
    given = proposal_of()
    read = read_proposal(given)
    assert read.to_json() == given
    assert read_proposal(read.to_json()).digest == read.digest


def test_equal_texts_in_another_unicode_form_have_one_digest() -> None:
    assert read_proposal(proposal_of(name="Cafe\u0301")).digest == read_proposal(proposal_of(name="Caf\u00e9")).digest


def test_each_field_changes_the_digest() -> None:
    digests = {read_proposal(proposal_of()).digest}
    for changed in (
        {"prompt": "Another prompt."},
        {"rationale": "Another reason that is long enough."},
        {"target": "project"},
        {"proposalType": "modify", "baseHash": BASE},
    ):
        digests.add(read_proposal(proposal_of(**changed)).digest)
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"id": "Scene"}, "id"),
        ({"id": "sc"}, "id"),
        ({"id": "mcp__notes"}, "id"),
        ({"id": "workspace__scan"}, "id"),
        ({"name": ""}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"usageNotes": ""}, "usageNotes"),
        ({"prompt": "x" * 8001}, "prompt"),
        ({"archetype": "Poet"}, "archetype"),
        ({"scope": "world"}, "scope"),
        ({"rationale": "short"}, "rationale"),
        ({"proposalType": "rename"}, "proposalType"),
        ({"target": "global"}, "target"),
        ({"baseHash": BASE}, "baseHash"),
        ({"proposalType": "modify"}, "baseHash"),
        ({"examples": []}, "examples"),
        ({"examples": [{"input": "a", "expected": "b"}] * 4}, "examples"),
        ({"testCases": []}, "testCases"),
        ({"testCases": [{"id": "a", "should": "pass", "check": "c"}] * 2}, "testCases"),
        ({"testCases": [{"id": "a", "should": "pass"}, {"id": "b", "should": "fail", "check": "c"}]}, "testCases[0]"),
        ({"approvedBy": "user"}, "approvedBy"),
        ({"status": "approved"}, "status"),
    ],
)
def test_a_bad_field_is_named(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_proposal(proposal_of(**changed))
    assert refused.value.code == "invalid_proposal"
    assert f"{field}:" in refused.value.message
    assert field in [problem["field"] for problem in refused.value.details["problems"]]


@pytest.mark.parametrize(
    "given",
    [
        {"id": "File-Locator"},
        {"id": "my_tool", "targetId": "beat_architect"},
        {"tool": {"id": "read_file"}},
        {"tool": "core__file_reader", "nonsense": 1},
        proposal_of(id="beat_architect", proposalType="delete"),
    ],
)
def test_a_core_id_is_refused_before_anything_else(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        read_proposal(given)
    assert refused.value.code == "core_tool_locked"


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "x" * 201, "", 3])
def test_a_pattern_that_can_not_be_matched_in_linear_time_is_refused(pattern: Any) -> None:
    cases = proposal_of()["testCases"]
    cases[0]["expect"] = {"must_match": [pattern]}
    with pytest.raises(InvalidValue, match="must_match"):
        read_proposal(proposal_of(testCases=cases))


def test_a_test_case_has_at_most_fifty_patterns_of_a_kind() -> None:
    cases = proposal_of()["testCases"]
    for count in (50, 51):
        cases[0]["expect"] = {"must_match": ["a"] * count}
        if count == 50:
            read_proposal(proposal_of(testCases=cases))
            continue
        with pytest.raises(InvalidValue, match="must_match: has at most 50 patterns"):
            read_proposal(proposal_of(testCases=cases))


def test_a_pattern_matches_anywhere() -> None:
    assert is_match("b+", "abbc")
    assert not is_match("^b", "abbc")
    assert not is_match("(a+)+$", "a" * 8000 + "b")
