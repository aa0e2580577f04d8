"""Names of servers and tools: ids that lead back to them, and no two that a reader may confuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.mcp import ReverseIds, checked_server_name, spelling, tool_id
from demiurge.tools import canonical_id
from demiurge.tools.ids import UNNAMED, is_tool_id


@pytest.mark.parametrize("name", ["time", "git-hub", "a", "Files2", "a_b", "x" * 32, "9"])
def test_a_server_name(name: str) -> None:
    assert checked_server_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a b", "a.b", "a:b", "a__b", "a_", "-a", "_a", "x" * 33, "t\u0456me", "core", "C0re", "work-space", 3]
)
def test_a_name_that_no_server_can_have(name: object) -> None:
    with pytest.raises(InvalidValue):
        checked_server_name(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("delete_file", "Delete-File"),
        ("delete_file", "deletefile"),
        ("delete_file", "de\u200blete_file"),
        ("delete_file", "d\u0435lete_file"),  # a Cyrillic letter
        ("delete_file", "deIete_fiIe"),  # a capital I
        ("delete_file", "\uff44elete_file"),  # a wide letter
        ("command", "cornrnand"),
        ("l0g", "log"),
    ],
)
def test_names_that_read_alike_are_spelled_alike(one: str, other: str) -> None:
    assert spelling(one) == spelling(other)


def test_names_that_read_differently_are_spelled_differently() -> None:
    names = ["read", "reads", "read_2", "write", "\u8bfb", "\u5199", "", " "]
    assert len(set(map(spelling, names))) == len(names)


def test_an_id_leads_back_to_its_names() -> None:
    ids = ReverseIds()
    pairs = [("time", "now"), ("time", "set clock!"), ("a" * 32, "b" * 128), ("git", "now")]
    made = [ids.add(*pair) for pair in pairs]
    assert [ids.find(found) for found in made] == pairs
    assert [ids.add(*pair) for pair in pairs] == made
    assert made[0] == "mcp__time__now"
    assert all(map(is_tool_id, made))
    assert ids.find("mcp__time__then") is None
    assert list(ids) == made


@pytest.mark.parametrize(
    ("server", "tool"), [("t1me", "x"), ("TIME", "x"), ("time", "NOW"), ("time", "n-o-w"), ("ti-me", "now")]
)
def test_a_name_that_reads_like_another_one_is_refused(server: str, tool: str) -> None:
    ids = ReverseIds()
    ids.add("time", "now")
    with pytest.raises(InvalidValue) as caught:
        ids.add(server, tool)
    assert caught.value.code == "tool_id_collision"


@given(st.text(min_size=1, max_size=128).filter(str.strip))
def test_the_colon_form_of_any_tool_is_its_id(name: str) -> None:
    assert canonical_id(f"mcp:time:{name}") == tool_id("time", name)


@pytest.mark.parametrize("text", ["mcp:", "mcp:time", "mcp:time:", "mcp::now", f"mcp:time:{'x' * 300}", "git:a:b"])
def test_another_form_with_colons_names_no_tool(text: str) -> None:
    assert canonical_id(text) == UNNAMED
