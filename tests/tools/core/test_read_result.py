"""`core__read_result`: pages of a text, by characters, that fit in an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge import Budgets, ToolPolicy, ToolRunner
from demiurge.tools import ToolUserError
from demiurge.tools.capabilities import GivenResults
from demiurge.tools.core.read_result import MAX_PAGE, read_result
from demiurge.tools.record import ToolExecResult

NAME = "core__read_result"


class Texts:
    def __init__(self, text: str, max_bytes: int | None = None) -> None:
        self._text, self.max_bytes = text, max_bytes

    async def text(self, ref: str) -> str:
        if ref != "known":
            raise ToolUserError("This chat was given no such result.")
        return self._text


def page(texts: Texts | None, ref: str = "known", **arguments: Any) -> ToolExecResult:
    policy = ToolPolicy((NAME,), budgets=Budgets(max_result_bytes=texts.max_bytes if texts is not None else None))
    resources = {GivenResults: texts} if texts is not None else {}
    return ToolRunner([read_result], policy=policy, resources=resources).exec_sync(NAME, {"ref": ref, **arguments})


def test_a_page_says_where_it_is_and_where_the_next_one_begins() -> None:
    text = "é" * 5_000 + "z" * 10
    first = page(Texts(text))
    assert first.value == {"next_offset": 4_000, "total": 5_010}
    assert first.content == f"Characters 0 to 4000 of 5010. Read on from offset 4000.\n\n{'é' * 4_000}"
    last = page(Texts(text), offset=5_000, limit=MAX_PAGE)
    assert last.value == {"next_offset": None, "total": 5_010}
    assert last.content == f"Characters 5000 to 5010 of 5010. This is the end.\n\n{'z' * 10}"
    assert page(Texts(text), offset=5_010).value == {"next_offset": None, "total": 5_010}


@given(st.text(max_size=400), st.integers(161, 400), st.integers(1, 100))
def test_pages_of_any_size_make_up_the_whole_and_fit_in_an_answer(text: str, max_bytes: int, limit: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    read, offset = "", 0
    while True:
        found = page(Texts(text, max_bytes), offset=offset, limit=limit)
        if not found.ok:  # a character of 4 bytes in the room of fewer
            assert "leaves no room" in (found.safe_message or "")
            assert max_bytes < 164
            return
        assert len(found.content.encode()) <= max_bytes
        read += found.content.partition("\n\n")[2]
        if found.value["next_offset"] is None:
            break
        assert found.value["next_offset"] > offset
        offset = found.value["next_offset"]
    assert read == text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"ref": "other"}, "execution", "given no such result"),
        ({"offset": 6}, "execution", "The result has 5 characters"),
        ({"offset": -1}, "validation", ""),
        ({"limit": 0}, "validation", ""),
        ({"limit": MAX_PAGE + 1}, "validation", ""),
    ],
)
def test_an_address_or_place_that_is_not_there_is_refused(arguments: dict[str, Any], code: str, said: str) -> None:
    refused = page(Texts("short"), **arguments)
    assert (refused.error_code, said in (refused.safe_message or "")) == (code, True)


def test_without_results_to_read_the_tool_is_unavailable() -> None:
    assert page(None).error_code == "unavailable"


def test_a_limit_without_room_for_a_page_is_said() -> None:
    assert "leaves no room" in (page(Texts("short", 100)).safe_message or "")
