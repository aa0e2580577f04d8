"""Results of calls that a client wants shortened: at the limit they stay whole, one byte above it they are cut."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from demiurge.server.cut_results import cut_results

PART = {"kind": "image", "mime": "image/png", "bytes_ref": "sha256:" + "0" * 64, "size": 3, "name": ""}
ANSWER: dict[str, Any] = {"content": "é" * 5, "value": {"a": 1}, "result": {"b": "é"}, "ok": True}


def cut(answer: dict[str, Any], most: int | None) -> dict[str, Any]:
    given = deepcopy(answer)
    cut_results([given], most)
    return given


@pytest.mark.parametrize("most", [None, 10, 11])
def test_a_result_that_is_not_longer_than_the_limit_stays_whole(most: int | None) -> None:
    assert cut(ANSWER, most) == ANSWER


def test_each_part_that_is_longer_is_cut_by_itself() -> None:
    content = {"content": "é" * 5, "content_cut": {"bytes": 10}}
    assert cut(ANSWER, 9) == {**ANSWER, **content, "result": None, "result_cut": {"bytes": 10, "head": '{"b":"é"}'}}
    value = {"value": None, "value_cut": {"bytes": 7}}
    assert cut({"value": {"a": 1}, "result": 1}, 6) == {**value, "result": 1}
    assert cut({"value": {"a": 1}, "result": 1}, 7) == {"value": {"a": 1}, "result": 1}


def test_the_beginning_of_a_long_text_is_kept() -> None:
    long = "x" * 4001
    found = cut({"content": long, "result": long}, 100)
    assert found == {
        "content": "x" * 4000,
        "content_cut": {"bytes": 4001},
        "result": None,
        "result_cut": {"bytes": 4003, "head": '"' + "x" * 3999},
    }


def test_the_parts_of_a_cut_result_are_kept() -> None:
    found = cut({"result": {"message": "x" * 500, "parts": [PART]}}, 400)
    assert found["result"] == {"parts": [PART]}
    assert found["result_cut"]["head"].startswith('{"message":"xxx')


def test_an_answer_without_a_result_stays_as_it_is() -> None:
    assert cut({"ok": None}, 4) == {"ok": None}
    assert cut({"ok": None, "content": None, "value": None}, 4) == {"ok": None, "content": None, "value": None}
