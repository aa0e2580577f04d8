"""Search of tools by words."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools import ToolSpec
from demiurge.tools.tool_search import search_tools


def spec(name: str, description: str = "", **arguments: str) -> ToolSpec:
    properties: dict[str, Any] = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    return ToolSpec(name, description, {"type": "object", "properties": properties})


TOOLS = [
    spec("mcp__git__git_log", "Shows the commit logs"),
    spec("mcp__git__git_commit", "Records changes to the repository", message="The message of the commit"),
    spec("mcp__files__move_file", "Move or rename files and directories", source="", destination=""),
    spec("send_mail", "Send an e-mail to a person", recipient="The address of the person"),
    spec("weatherReport", "Forecast for a city", city="The name of the city"),
]


def found(query: str, most: int = 5) -> list[str]:
    return [each.name for each in search_tools(TOOLS, query, most)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("rename a directory", "mcp__files__move_file"),
        ("logs of commits", "mcp__git__git_log"),
        ("to which address is a mail sent", "send_mail"),
        ("report of the weather", "weatherReport"),
        ("write a message for a commit", "mcp__git__git_commit"),
    ],
)
def test_a_tool_is_found_by_the_words_of_its_id_description_and_arguments(query: str, first: str) -> None:
    assert found(query)[0] == first


@pytest.mark.parametrize("query", ["mcp__git__git_log", "call git_log for the files to move", "GIT_LOG"])
def test_a_tool_that_the_query_names_comes_first(query: str) -> None:
    assert found(query)[0] == "mcp__git__git_log"


def test_a_tool_that_shares_no_word_is_not_found() -> None:
    assert found("quantum chromodynamics") == found("") == found("the tool to use") == []
    assert search_tools([], "mail") == []


def test_a_search_finds_at_most_so_many_and_equal_matches_keep_their_order() -> None:
    assert len(found("git", 1)) == 1
    twins = [spec("x_twin", "the same"), spec("c_twin", "the same")]
    assert [each.name for each in search_tools(twins, "same twin")] == ["x_twin", "c_twin"]


def test_a_word_that_few_tools_have_counts_more() -> None:
    many = [spec(f"list_{number}", "list things") for number in range(9)]
    assert search_tools([*many, spec("thing_counter", "list zebras")], "list zebra")[0].name == "thing_counter"
