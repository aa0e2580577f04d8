"""A result within its bytes is whole; one beyond them is whole somewhere else, or not there: never cut."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge import (
    Budgets,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.values.refs import ref_of

LIMIT = 40


class Blobs:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes, /) -> str:
        self.kept[ref_of(data)] = data
        return ref_of(data)


class Full:
    def put(self, data: bytes, /) -> str:
        raise OSError("canary")


class Silent:
    def put(self, data: bytes, /) -> None:
        return None


def answer(text: str, message: str = "", blobs: Any = None) -> ToolExecResult:
    def look(params: None, *, context: ToolContext) -> ToolResult[dict[str, str]]:
        return ToolResult(message, {"text": text})

    tool = Tool[None, dict[str, str]](
        name="look",
        description="Look.",
        handler=look,
        effect=ToolEffect.STATE_CHANGE,
        redaction=Redaction.allow("text"),
    )
    policy = ToolPolicy(("look",), budgets=Budgets(max_result_bytes=LIMIT))
    return ToolRunner([tool], policy=policy, blobs=blobs).exec_sync("look", "{}")


@pytest.mark.parametrize("letter", ["x", "é"])
def test_the_limit_is_in_bytes_and_may_be_reached(letter: str) -> None:
    room = LIMIT - len('{"text":""}')
    text = "x" * (room % len(letter.encode())) + letter * (room // len(letter.encode()))
    whole = answer(text)
    assert (whole.ok, len(whole.content.encode()), whole.value) == (True, LIMIT, {"text": text})
    assert answer(text + "x").error_code == "result_too_large"


def test_a_result_beyond_the_limit_is_stored_whole_as_blobs() -> None:
    blobs = Blobs()
    result = answer("é" * LIMIT, "done", blobs)
    view = f'{{"text":"{"é" * LIMIT}"}}'.encode()
    assert result.ok
    assert result.value == {"bytes": len(view), "ref": ref_of(view)}
    text = b"done\n\n" + view
    assert ref_of(text) in result.content
    assert str(len(text)) in result.content
    assert sorted(blobs.kept.values()) == sorted([view, text])


def test_only_what_is_too_large_goes_elsewhere() -> None:
    blobs = Blobs()
    result = answer("short", "m" * LIMIT, blobs)
    assert result.value == {"text": "short"}
    assert [ref_of(data) in result.content for data in blobs.kept.values()] == [True]


@pytest.mark.parametrize(
    ("blobs", "said"),
    [
        (None, []),
        (Full(), ["tool call: result_too_large raised OSError"]),
        (Silent(), ["tool call: result_too_large raised TypeError"]),
    ],
)
def test_without_room_or_an_address_elsewhere_there_is_no_result(
    caplog: pytest.LogCaptureFixture, blobs: Any, said: list[str]
) -> None:
    result = answer("x" * LIMIT, blobs=blobs)
    assert (result.error_code, result.value, result.record.result) == ("result_too_large", None, None)
    assert "canary" not in result.content + caplog.text
    assert [line.partition(" at ")[0] for line in caplog.messages] == said
