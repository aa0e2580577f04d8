"""A page of a server's list that the SDK refused: what is read of it, and what is said of the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import mcp_types as types
import pytest

from demiurge.mcp.definition import Kind
from demiurge.mcp.partial_page import MAX_NAMED, PartialPage, read_partial_page, words
from mcp import ClientSession

GOOD: dict[Kind, dict[str, Any]] = {
    "tool": {"name": "add", "inputSchema": {"type": "object"}},
    "prompt": {"name": "greet"},
    "resource": {"name": "readme", "uri": "file:///readme"},
    "template": {"name": "page", "uriTemplate": "file:///{page}"},
}
FIELDS = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resourceTemplates"}


class Session:
    """Stands in for the SDK's session: it answers each raw request with `answer`, and notes what was asked."""

    def __init__(self, answer: dict[str, Any], protocol_version: str | None = "2025-11-25") -> None:
        self._answer, self.protocol_version = answer, protocol_version
        self.asked: list[tuple[str, Any]] = []
        self.stamped = 0
        self.absorbed: list[tuple[list[str], bool]] = []
        self._dispatcher = SimpleNamespace(send_raw_request=self._send)

    async def _send(self, method: str, params: Any, _options: Any) -> dict[str, Any]:
        assert self.stamped == len(self.asked) + 1, "each request is stamped"
        self.asked.append((method, params))
        return self._answer

    def _stamp(self, _data: Any, _options: Any) -> None:
        self.stamped += 1

    def _absorb_tool_listing(self, page: types.ListToolsResult, *, complete: bool) -> None:
        self.absorbed.append(([tool.name for tool in page.tools], complete))


async def read(session: Session, kind: Kind = "tool", cursor: str | None = None) -> PartialPage:
    return await read_partial_page(cast(ClientSession, session), kind, types.PaginatedRequestParams(cursor=cursor))


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("tool", "tools/list"),
        ("prompt", "prompts/list"),
        ("resource", "resources/list"),
        ("template", "resources/templates/list"),
    ],
)
async def test_the_other_entries_of_each_kind_of_list_are_read(kind: Kind, method: str) -> None:
    good = GOOD[kind]
    session = Session({FIELDS[kind]: [{**good, "name": 5}, good, "no entry"]})
    found = await read(session, kind, "page 2")
    [entry] = getattr(found.page, {"template": "resource_templates"}.get(kind, FIELDS[kind]))
    assert entry.name == good["name"]
    assert found.problems == (
        f"The {kind} number 1 of its page is left out: name: Input should be a valid string.",
        f"The {kind} number 3 of its page is left out: it: Input should be a valid dictionary.",
    )
    assert session.asked == [(method, {"cursor": "page 2"})]


async def test_an_entry_with_a_name_is_named_with_the_place_of_its_fault() -> None:
    bad = {"name": "sub\u200btract", "inputSchema": {"type": "object"}, "annotations": {"title": 7}}
    found = await read(Session({"tools": [bad, {"name": "  "}]}))
    assert found.problems == (
        "The tool sub<U+200B>tract is left out: annotations.title: Input should be a valid string.",
        "The tool number 2 of its page is left out: inputSchema: Field required.",
    )


@pytest.mark.parametrize(
    ("cursor", "next_cursor", "is_complete"),
    [(None, None, True), (None, "more", False), ("before", None, False), ("before", "more", False)],
)
async def test_the_session_knows_the_tools_that_are_left_and_whether_they_are_all(
    cursor: str | None, next_cursor: str | None, is_complete: bool
) -> None:
    session = Session({"tools": [GOOD["tool"], {}], **({"nextCursor": next_cursor} if next_cursor else {})})
    found = await read(session, cursor=cursor)
    assert session.absorbed == [(["add"], is_complete)]
    assert found.page.next_cursor == next_cursor


async def test_a_list_of_prompts_is_no_list_of_tools() -> None:
    session = Session({"prompts": [GOOD["prompt"]]})
    await read(session, "prompt")
    assert session.absorbed == []


@pytest.mark.parametrize(("count", "more"), [(MAX_NAMED, 0), (MAX_NAMED + 1, 1), (MAX_NAMED + 5, 5)])
async def test_at_most_twenty_malformed_entries_are_named(count: int, more: int) -> None:
    problems = (await read(Session({"tools": [{}] * count}))).problems
    assert len(problems) == MAX_NAMED + (more > 0)
    said = [f"{more} more tools are left out, which are malformed too."] if more else []
    assert list(problems[MAX_NAMED:]) == said


@pytest.mark.parametrize("answer", [{}, {"tools": None}, {"tools": {"name": "add"}}])
async def test_a_page_without_a_list_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^the page is no list$"):
        await read(Session(answer))


def test_a_long_text_of_a_server_is_cut_and_in_one_line() -> None:
    assert words("a\n b\t\u202ec") == "a b <U+202E>c"
    assert words("x" * 200) == "x" * 200
    assert words("x" * 201) == "x" * 199 + "…"
