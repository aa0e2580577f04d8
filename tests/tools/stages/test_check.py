"""Behind this stage a result can always be stored: what has no such form is refused here, by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from demiurge.tools import (
    Redaction,
    StaticToolSource,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.values import canonical_json

POLICY = ToolPolicy(("look",))
POST_ID = 1234567890123456789


@dataclass(frozen=True)
class Post:
    id: int
    tags: dict[str, Any] = field(default_factory=dict)


def tool_of(result: ToolResult[Any], kind: Any = Post, redaction: Redaction | None = None) -> Tool[Any, Any]:
    def look(params: None, *, context: ToolContext) -> ToolResult[Any]:
        return result

    redaction = redaction if redaction is not None else Redaction.allow("id", "tags")
    effect = ToolEffect.STATE_CHANGE
    return Tool[None, kind](name="look", description="Look.", handler=look, effect=effect, redaction=redaction)


def answer(tool: Any) -> ToolExecResult:
    return ToolRunner([tool], policy=POLICY).exec_sync("look", "{}", tool_call_id="c")


def assert_storable(result: ToolExecResult) -> None:
    canonical_json.encode([result.value, result.content, result.safe_message, result.record.public()])


def test_a_large_integer_is_a_number_for_the_model_and_text_in_public() -> None:
    result = answer(tool_of(ToolResult("", Post(POST_ID, {"likes": [-(2**70), 5]}))))
    assert result.content == f'{{"id":{POST_ID},"tags":{{"likes":[{-(2**70)},5]}}}}'
    assert result.value == {"id": str(POST_ID), "tags": {"likes": [str(-(2**70)), 5]}}
    assert_storable(result)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (float, float("nan")),
        (dict, {"text": "\ud800"}),
        (dict, {"\ud800": 1}),
        (dict, {"n": 10**5000}),
    ],
)
def test_a_value_without_a_portable_form_is_refused(kind: Any, value: Any) -> None:
    redaction = Redaction.paths("*") if kind is dict else Redaction.message_only()
    result = answer(tool_of(ToolResult("m", value), kind, redaction))
    assert result.error_code == "output_validation"
    assert_storable(result)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_too_deep_to_be_read_back_is_refused() -> None:
    for levels, ok in ((127, True), (150, False), (5000, False)):
        result = answer(tool_of(ToolResult("m", {"tags": nested(levels)}), dict))
        assert result.ok is ok
        assert_storable(result)


@pytest.mark.parametrize("encoded", [b"NaN", b"1e999", b'"\\ud800"', b"{", b"\xff"])
def test_a_tool_from_elsewhere_that_writes_bad_json_is_refused(encoded: bytes) -> None:
    bound = replace(tool_of(ToolResult("m", Post(1))).bound, dump=lambda value: encoded)
    result = answer(StaticToolSource([bound]).get("look"))
    assert result.error_code == "output_validation"
    assert_storable(result)


class Loud(str):
    """A text that says something else of itself."""

    def encode(self, *_: Any, **__: Any) -> bytes:
        return b"fine"


@pytest.mark.parametrize("message", ["\ud800", Loud("\ud800")])
def test_a_message_that_utf8_cannot_write_is_refused(message: str) -> None:
    assert answer(tool_of(ToolResult(message, Post(1)))).error_code == "output_validation"


@dataclass(frozen=True)
class Torn:
    id: int = 1

    def render(self) -> str:
        return "torn \ud800"


@dataclass(frozen=True)
class Leaving:
    id: int = 1

    def render(self) -> str:
        raise SystemExit(4)


@pytest.mark.parametrize("value", [Torn(), Leaving()])
def test_a_broken_rendering_gives_way_to_json_and_loses_nothing(value: Any) -> None:
    result = answer(tool_of(ToolResult("done", value), type(value), Redaction.allow("id")))
    assert (result.ok, result.content, result.value) == (True, 'done\n\n{"id":1}', {"id": 1})


CANARY: Any = "canary"


@dataclass(frozen=True)
class Pair:
    count: int
    names: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("canary", "handler of look returned str where a ToolResult was due"),
        (
            ToolResult("m", Pair(CANARY, {"canary": 1})),
            "result of look has not its declared form: look declares Pair and returned Pair",
        ),
        (ToolResult(cast("Any", (CANARY,)), Pair(1)), "returned Pair, with a message of type tuple"),
        (ToolResult("m", cast("Any", "canary")), "form: look declares Pair and returned str"),
        (ToolResult("m", cast("Any", ["canary", 1])), "form: look declares Pair and returned list[int | str]"),
        (ToolResult("m", cast("Any", {"canary": 1})), "form: look declares Pair and returned dict[..., int]"),
        (ToolResult("m", Pair(1), success=CANARY), "result of look has a flag that is not True or False"),
    ],
)
def test_the_log_says_what_is_wrong_with_a_result_and_none_of_its_values(
    result: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert answer(tool_of(result, Pair, Redaction.drop_all())).error_code == "output_validation"
    [line] = caplog.messages
    assert said in line
    assert "canary" not in caplog.text


def test_the_log_names_the_fields_that_break_their_type_and_not_the_keys_of_a_mapping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What pydantic writes without a word and then doesn't read back."""

    @dataclass(frozen=True)
    class Limited:
        count: Annotated[int, Field(gt=0)]
        names: dict[str, Annotated[int, Field(gt=0)]]

    result = ToolResult("m", Limited(0, {"canary": 0}))
    assert answer(tool_of(result, Limited, Redaction.drop_all())).error_code == "output_validation"
    assert "returned Limited: count (greater_than), names.* (greater_than)" in caplog.text
    assert "canary" not in caplog.text
