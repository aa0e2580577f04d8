"""Snapshots of approved tools, and the names of their files."""

from __future__ import annotations

import json
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registry.prompt_tools import tool_of

from demiurge.errors import InvalidValue
from demiurge.registry.history import ToolSnapshot, history_file_name, utc_text
from demiurge.registry.tool_diff import to_json, tool_diff
from demiurge.values.refs import Ref

AT = 1_795_426_667_123_456_789
DIGEST = Ref("sha256:" + "ab" * 32)
TIMES = st.integers(0, 253_402_300_800 * 10**9 - 1)


def snapshot_of(old_goals: str = "", deleted: bool = False) -> ToolSnapshot:
    old, new = tool_of(goals=old_goals), None if deleted else tool_of()
    return ToolSnapshot(
        tool_id=old.id,
        tool=new,
        parent=old.digest,
        proposal="p1",
        revision=2,
        approved_by="mara",
        approved_at=AT,
        review=None,
        harness={"passed": 12, "failed": 0},
        diff=to_json(tool_diff(old, new)),
    )


def test_a_snapshot_has_the_fields_of_its_document() -> None:
    document = json.loads(snapshot_of().file_bytes())
    assert list(document) == [
        *("toolId", "tool", "version", "parent", "proposal", "revision"),
        *("approvedBy", "approvedAt", "review", "harness", "diff"),
    ]
    assert document["version"] == tool_of().digest
    assert document["approvedAt"] == "2026-11-23T09:37:47.123456789Z"
    assert document == json.loads(snapshot_of().encode())


def test_the_snapshot_of_a_deletion_has_no_tool() -> None:
    document = snapshot_of(deleted=True).to_json()
    assert (document["toolId"], document["tool"], document["version"]) == ("scene_pacer", None, None)
    assert document["parent"] == tool_of(goals="").digest


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
