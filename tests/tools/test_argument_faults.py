"""What a model is told about arguments that do not fit: the field, the rule and its bound, and never a value. A field
that the model made up is named in the model's text alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from demiurge.tools import (
    Redaction,
    SpanSink,
    Tool,
    ToolContext,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolValidationError,
    event_to_json,
)
from demiurge.tools.argument_faults import ArgumentFault, explained, phrase_of, rule_words, unknown_fields
from demiurge.tools.foreign.tool import foreign_tool

CANARY = "canary-9b1f4c77e2"


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SOME_ID = UUID(int=1)


class Colour(Enum):
    RED = "red"
    DEEP_BLUE = "deep blue"


@dataclass
class Size:
    width: int
    height: Annotated[int, Field(ge=1)] = 1


def _even(value: int) -> int:
    if value % 2:
        raise ToolValidationError("must be even")
    return value


def _strange(value: int) -> int:
    if value:
        raise ValueError(f"{CANARY} {value}")
    return value


@dataclass
class Given:
    n: Annotated[int, Field(ge=1, le=9)] = 1
    more: Annotated[float, Field(gt=0, lt=1.5)] = 1.0
    step: Annotated[int, Field(multiple_of=5)] = 5
    word: Annotated[str, Field(min_length=2, max_length=4)] = "word"
    letter: Annotated[str, Field(min_length=1, max_length=1)] = "a"
    code: Annotated[str, Field(pattern="^[A-Z]{2}$")] = "AB"
    kind: Literal["a", "b", "c"] = "a"
    only: Literal["yes"] = "yes"
    colour: Colour = Colour.RED
    flag: bool = False
    either: int | str = 1
    maybe: int | None = 1
    items: Annotated[list[Size], Field(max_length=2)] = field(default_factory=list)
    names: Annotated[dict[str, int], Field(min_length=1)] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    day: date = date(2026, 1, 1)
    moment: datetime = MOMENT
    clock: time = time(1)
    lasts: timedelta = timedelta(1)
    id: UUID = SOME_ID
    price: Annotated[Decimal, Field(ge=1, max_digits=4, decimal_places=2)] = Decimal(1)
    even: Annotated[int, AfterValidator(_even)] = 2
    strange: Annotated[int, AfterValidator(_strange)] = 0


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"n": 0}, "n: must be at least 1"),
    ({"n": 10}, "n: must be at most 9"),
    ({"n": CANARY}, "n: must be an integer"),
    ({"n": 1.5}, "n: must be an integer"),
    ({"n": None}, "n: must be an integer"),
    ({"more": 0}, "more: must be more than 0"),
    ({"more": 1.5}, "more: must be less than 1.5"),
    ({"more": CANARY}, "more: must be a number"),
    ({"step": 7}, "step: must be a multiple of 5"),
    ({"word": "x"}, "word: must have at least 2 characters"),
    ({"word": CANARY}, "word: must have at most 4 characters"),
    ({"word": 7}, "word: must be a string"),
    ({"letter": ""}, "letter: must have at least 1 character"),
    ({"code": CANARY}, "code: must match the pattern ^[A-Z]{2}$"),
    ({"kind": CANARY}, "kind: one of a, b, c"),
    ({"only": CANARY}, "only: must be yes"),
    ({"colour": CANARY}, 'colour: one of red, "deep blue"'),
    ({"flag": CANARY}, "flag: must be true or false"),
    ({"either": True}, "either: must be an integer or a string"),
    ({"maybe": CANARY}, "maybe: must be an integer or null"),
    ({"items": CANARY}, "items: must be an array"),
    ({"items": [{"width": 1}, {}]}, "items[1].width: is required"),
    ({"items": [{"width": 1, "height": 0}]}, "items[0].height: must be at least 1"),
    ({"items": [{"width": 1}] * 3}, "items: must have at most 2 items"),
    ({"items": [CANARY]}, "items[0]: must be an object"),
    ({"names": {}}, "names: must have at least 1 field"),
    ({"names": {CANARY: "x"}}, "names[*]: must be an integer"),
    ({"once": [CANARY, CANARY]}, "once: must not have the same item twice"),
    ({"day": CANARY}, "day: must have the format date, such as 2026-01-31"),
    ({"day": 5}, "day: must have the format date, such as 2026-01-31"),
    ({"moment": CANARY}, "moment: must have the format date-time, such as 2026-01-31T09:30:00Z"),
    ({"clock": CANARY}, "clock: must have the format time, such as 09:30:00"),
    ({"lasts": CANARY}, "lasts: must have the format duration, such as P1DT2H"),
    ({"id": CANARY}, "id: must have the format uuid, such as 123e4567-e89b-12d3-a456-426614174000"),
    ({"price": "0.5"}, "price: must be at least 1"),
    ({"price": CANARY}, "price: must be a decimal number in a string, such as 12.50"),
    ({"price": "1.234"}, "price: must have at most 2 digits after the point"),
    ({"even": 3}, "even: must be even"),
    ({"strange": 3}, "strange: is not valid"),
]


def _nothing(params: Any, *, context: ToolContext) -> ToolResult[None]:
    raise AssertionError("called with arguments that do not fit")


BY_DATACLASS = Tool[Given, None](name="made", description="Takes it.", handler=_nothing)


class GivenModel(BaseModel):
    n: int = Field(1, ge=1, le=9)
    more: float = Field(1.0, gt=0, lt=1.5)
    step: int = Field(5, multiple_of=5)
    word: str = Field("word", min_length=2, max_length=4)
    letter: str = Field("a", min_length=1, max_length=1)
    code: str = Field("AB", pattern="^[A-Z]{2}$")
    kind: Literal["a", "b", "c"] = "a"
    only: Literal["yes"] = "yes"
    colour: Colour = Colour.RED
    flag: bool = False
    either: int | str = 1
    maybe: int | None = 1
    items: list[Size] = Field(default_factory=list, max_length=2)
    names: dict[str, int] = Field(default_factory=dict, min_length=1)
    once: set[str] = set()
    day: date = date(2026, 1, 1)
    moment: datetime = MOMENT
    clock: time = time(1)
    lasts: timedelta = timedelta(1)
    id: UUID = SOME_ID
    price: Decimal = Field(Decimal(1), ge=1, max_digits=4, decimal_places=2)
    even: int = 2
    strange: Annotated[int, AfterValidator(_strange)] = 0

    @field_validator("even")
    @classmethod
    def check_even(cls, value: int) -> int:
        return _even(value)


BY_MODEL = Tool[GivenModel, None](name="made", description="Takes it.", handler=_nothing)
FOREIGN = foreign_tool(
    "made",
    "Takes it.",
    dict(BY_DATACLASS.spec.input_schema),
    lambda arguments, context: ToolResult(""),
    redaction=Redaction.drop_all(),
    check_formats=True,
)


def told(tool: Any, arguments: Any) -> ToolExecResult:
    return ToolRunner([tool], policy=ToolPolicy(("made",))).exec_sync("made", json.dumps(arguments))


def said(*phrases: str) -> str:
    return f"The arguments do not fit the tool's schema. Found: {'; '.join(phrases)}."


@pytest.mark.parametrize("tool", [BY_DATACLASS, BY_MODEL], ids=["dataclass", "model"])
@pytest.mark.parametrize(("arguments", "phrase"), FAULTS, ids=[phrase for _, phrase in FAULTS])
def test_a_fault_names_the_field_the_rule_and_its_bound(tool: Any, arguments: dict[str, Any], phrase: str) -> None:
    result = told(tool, arguments)
    assert result.error_code == "validation"
    assert result.safe_message == said(phrase)
    assert json.loads(result.content)["message"] == result.safe_message
    assert CANARY not in result.content


ENFORCED_BY_THE_TYPE = ("price", "even", "strange")


@pytest.mark.parametrize(
    ("arguments", "phrase"), [each for each in FAULTS if next(iter(each[0])) not in ENFORCED_BY_THE_TYPE]
)
def test_a_foreign_tool_names_the_same_rule(arguments: dict[str, Any], phrase: str) -> None:
    fields = explained_by_foreign(arguments)
    name, value = next(iter(arguments.items()))
    is_text_of_format = name == "day" and not isinstance(value, str)
    assert fields == (("day: must be a string",) if is_text_of_format else (phrase,))


def explained_by_foreign(arguments: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ToolValidationError) as caught:
        FOREIGN.parse(json.dumps(arguments))
    return caught.value.fields


class Spans:
    def __init__(self) -> None:
        self.put_spans: list[Any] = []

    def put(self, span: Any, /) -> None:
        self.put_spans.append(span)


KNOWN = ", ".join(sorted(FOREIGN.spec.input_schema["properties"])[:20])


@pytest.mark.parametrize("tool", [BY_DATACLASS, BY_MODEL, FOREIGN], ids=["dataclass", "model", "foreign"])
def test_an_unknown_field_is_named_in_the_models_text_alone(tool: Any, caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = []
    spans = Spans()
    runner = ToolRunner([tool], policy=ToolPolicy(("made",)), emit=events.append, resources={SpanSink: spans})
    with caplog.at_level("DEBUG"):
        result = runner.exec_sync("made", json.dumps({CANARY: 1, "items": [{"width": 1, CANARY: 2}], "n": 0}))
    top = f"{KNOWN} and 3 more"
    inner = "height, width"
    message = json.loads(result.content)["message"]
    for expected in (
        "n: must be at least 1",
        f"items[0]: unknown field {CANARY}; known: {inner}",
        f"unknown field {CANARY}; known: {top}",
    ):
        assert expected in message
        assert expected.replace(f" {CANARY};", ";") in str(result.safe_message)
    public = [
        *(result.safe_message, result.value, repr(result), repr(result.record), result.record.public()),
        *map(event_to_json, events),
        *(spans.put_spans, runner.summary.to_json(), caplog.text),
    ]
    assert CANARY not in repr(public).replace(result.content, "")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("colour", "colour"),
        ("a b", '"a b"'),
        ("", '""'),
        ("x; known: nothing", '"x; known: nothing"'),
        ("x" * 41, "x" * 39 + "…"),
        ("a\u202eb", '"a<U+202E>b"'),
        ("a\u3164b", '"a<U+3164>b"'),
        ("a\nb\x1b[31m", '"a\\nb\\u001b[31m"'),
        ("a\x9bb", '"a<U+009B>b"'),
        ("\ud800", '"<U+D800>"'),
        ("été", "été"),
        ('a"b', '"a\\"b"'),
    ],
)
def test_the_name_of_an_unknown_field_is_short_and_hides_nothing(name: str, shown: str) -> None:
    fault = unknown_fields("", [name], ["size"])
    wanted = f"unknown field {shown if len(name) <= 40 else json.dumps(shown, ensure_ascii=False)}; known: size"
    assert phrase_of(fault, names=True) == wanted
    assert phrase_of(fault, names=False) == "unknown field; known: size"


def test_several_unknown_fields_of_a_place_are_one_phrase() -> None:
    faults = [unknown_fields("at", [name], ["size"]) for name in ("a", "b", "c", "d", "e", "a")]
    found = explained([*faults, ArgumentFault("n", "is required")])
    assert found.for_model == ("n: is required", "at: unknown fields a, b, c and 2 more; known: size")
    assert found.fields == ("n: is required", "at: unknown field; known: size")


@given(st.lists(st.text(), min_size=1, max_size=30), st.lists(st.text(max_size=64), max_size=40))
def test_phrases_of_any_names_stay_short(unknown: list[str], known: list[str]) -> None:
    found = explained([unknown_fields(f"p{at % 3}", [name], known) for at, name in enumerate(unknown)])
    text = "; ".join(found.for_model).encode(errors="replace")
    assert len(text) <= 4000


@given(st.dictionaries(st.text(min_size=1), st.integers(), min_size=1, max_size=5))
def test_unknown_fields_of_any_name_are_refused_without_a_name_for_others(arguments: dict[str, int]) -> None:
    unknown = {name: value for name, value in arguments.items() if name not in BY_MODEL.spec.input_schema["properties"]}
    if not unknown:
        return
    result = told(BY_MODEL, unknown)
    assert result.error_code == "validation"
    assert str(result.safe_message).startswith(
        "The arguments do not fit the tool's schema. Found: unknown field; known: "
    )


def test_many_choices_and_long_ones_are_cut() -> None:
    assert rule_words("enum", [f"choice-{n}" for n in range(100)]).endswith(", choice-19 and 80 more")
    assert rule_words("enum", ["x" * 500, "y"]) == f"one of {'x' * 199}… and 1 more"
    assert rule_words("pattern", "x" * 500) == "must match its pattern"
    assert rule_words("enum", ["1", 1, True, None, "true", "a,b"]) == 'one of "1", 1, true, null, "true", "a,b"'


def test_a_closed_tool_that_takes_nothing_says_so() -> None:
    still = Tool[None, None](name="made", description="Takes nothing.", handler=_nothing)
    assert told(still, {CANARY: 1}).safe_message == said("unknown field; no field is allowed")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = Field(alias="theWord")


def test_a_field_with_an_alias_is_named_as_the_schema_names_it() -> None:
    tool = Tool[Strict, None](name="made", description="Takes it.", handler=_nothing)
    assert told(tool, {"word": "x"}).safe_message == said("theWord: is required", "unknown field; known: theWord")
