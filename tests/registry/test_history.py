"""Snapshots of approved tools, and the names of their files."""

from __future__ import annotations

import json
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registry.prompt_tools import tool_of

from demiurge.errors import InvalidValue
from demiurge.registry.history import history_file, history_file_name, utc_text
from demiurge.registry.tool_diff import to_json, tool_diff
from demiurge.values.refs import Ref

AT = 1_795_426_667_123_456_789
DIGEST = Ref("sha256:" + "ab" * 32)
TIMES = st.integers(0, 253_402_300_800 * 10**9 - 1)


SNAPSHOT = {
    "tool": tool_of(prompt="Read.\u202e").to_json(),
    "parent": tool_of().digest,
    "proposal": "p1",
    "revision": 2,
    "approvedBy": "mara",
    "review": None,
}


def test_a_file_has_the_snapshot_and_what_changed() -> None:
    data = history_file(SNAPSHOT, 3, tool_of(), {"passed": True})
    document = json.loads(data)
    changes = to_json(tool_diff(tool_of(), tool_of(prompt="Read.\u202e")))
    assert document == {**SNAPSHOT, "version": 3, "harness": {"passed": True}, "diff": changes}
    assert b"\\u202e" in data


def test_the_file_of_a_deletion_shows_what_was_removed() -> None:
    document = json.loads(history_file({**SNAPSHOT, "tool": None}, 4, tool_of(), None))
    assert {row["kind"] for field in document["diff"] for row in field["rows"]} == {"removed"}


def test_a_file_name_has_the_time_in_utc_the_place_and_the_digest() -> None:
    assert history_file_name(AT, 7, DIGEST) == "20261123T093747.123456789Z-000007-abababab.json"


@given(TIMES, st.integers(0, 10**9), st.text("0123456789abcdef", min_size=64, max_size=64))
def test_a_file_name_is_safe_in_any_folder(time_ns: int, seq: int, digits: str) -> None:
    name = history_file_name(time_ns, seq, Ref(f"sha256:{digits}"))
    assert set(name) <= set("0123456789abcdefTZ.-json")
    assert PurePosixPath(name).name == PureWindowsPath(name).name == name
    assert len(name) <= 60


@given(st.tuples(TIMES, st.integers(0, 999_999)), st.tuples(TIMES, st.integers(0, 999_999)))
def test_file_names_sort_by_time_and_place(one: tuple[int, int], other: tuple[int, int]) -> None:
    names = [history_file_name(*pair, DIGEST) for pair in (one, other)]
    assert (names[0] < names[1]) == (one < other)
    assert (names[0] == names[1]) == (one == other)


@pytest.mark.parametrize(("time_ns", "seq"), [(-1, 0), (253_402_300_800 * 10**9, 0), (AT, -1)])
def test_an_impossible_time_or_place_is_refused(time_ns: int, seq: int) -> None:
    with pytest.raises(InvalidValue):
        history_file_name(time_ns, seq, DIGEST)


def test_a_time_has_all_its_digits() -> None:
    assert utc_text(0) == "1970-01-01T00:00:00.000000000Z"
