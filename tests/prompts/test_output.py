"""Structured answers: what the prompt says, and what is read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.prompts.example_prompts import section, template

from demiurge.prompts import OutputParseError, Prompt, PromptTemplate, RenderedPrompt


@dataclass(frozen=True)
class Part:
    number: int = field(metadata={"description": "As on the box."})
    kind: Literal["nut", "bolt"] = "bolt"


@dataclass(frozen=True)
class Order:
    parts: list[Part]
    note: str | None = None


class Reply(BaseModel):
    text: str = Field(alias="theText", min_length=1)


def rendered(kind: Any, **options: Any) -> RenderedPrompt[Any]:
    return Prompt(template(section("a"), kind=PromptTemplate[kind], **options)).render()


def test_the_prompt_says_what_the_answer_is() -> None:
    made = rendered(Order)
    assert made.structured_output is not None
    schema = made.structured_output.schema
    assert schema["properties"]["parts"]["items"]["properties"]["number"]["description"] == "As on the box."
    assert (schema["additionalProperties"], schema["required"]) == (False, ["parts"])
    heading, words, told = made.text.split("\n\n")[2:]
    assert heading == "## 2. Response format"
    assert "one JSON object" in words
    assert json.loads(told) == schema
    assert (made.output_type, made.container, made.allow_extra_keys) == (Order, "object", False)


@pytest.mark.parametrize("kind", [list[Part], tuple[Part, ...], Sequence[Part]])
def test_the_answer_may_be_an_array(kind: Any) -> None:
    made = rendered(kind)
    assert (made.output_type, made.container) == (Part, "array")
    assert "one JSON array" in made.text
    assert list(made.parse_output('[{"number": 1}, {"number": 2, "kind": "nut"}]')) == [Part(1), Part(2, "nut")]
    with pytest.raises(OutputParseError):
        made.parse_output('{"number": 1}')


def test_an_answer_is_read_into_its_type() -> None:
    assert rendered(Order).parse_output(' {"parts": [{"number": 3}], "note": "x"}\n') == Order([Part(3)], "x")
    assert rendered(Reply).parse_output(b'{"theText": "x"}') == Reply(theText="x")


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        ('{"parts": [{"number": "3"}]}', ("parts[0].number: must be an integer",)),
        ('{"parts": [{"number": 3.0}]}', ("parts[0].number: must be an integer",)),
        ('{"parts": [{"number": true}]}', ("parts[0].number: must be an integer",)),
        ('{"parts": [{"number": 3, "kind": "screw"}]}', ("parts[0].kind: one of bolt, nut",)),
        ('{"parts": [{}]}', ("parts[0].number: is required",)),
        ("{}", ("parts: is required",)),
        ('{"parts": [], "secret": 1}', ("unknown field; known: note, parts",)),
        ('{"parts": [{"number": 3, "secret": 1}]}', ("parts[0]: unknown field; known: kind, number",)),
        ("[]", ("the object: must be an object",)),
    ],
)
def test_a_wrong_answer_is_refused_with_its_fields(answer: str, fields: tuple[str, ...]) -> None:
    with pytest.raises(OutputParseError) as caught:
        rendered(Order).parse_output(answer)
    assert (caught.value.fields, caught.value.dataclass_type) == (fields, Order)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Here it is.",
        '```json\n{"parts": []}\n```',
        '{"parts": []} {"parts": []}',
        '{"parts": [], "parts": []}',
        '{"parts": NaN}',
        '{"parts": []',
        '{"parts": [],}',
        '"\ud800"',
        b"\xff",
    ],
)
def test_nothing_is_repaired(answer: str | bytes) -> None:
    with pytest.raises(OutputParseError) as caught:
        rendered(Order).parse_output(answer)
    assert caught.value.fields == ()


def test_extra_keys_are_allowed_at_every_depth_and_dropped() -> None:
    made = rendered(Order, allow_extra_keys=True)
    assert made.allow_extra_keys
    assert made.structured_output is not None
    schema = made.structured_output.schema
    assert schema["additionalProperties"] is schema["properties"]["parts"]["items"]["additionalProperties"] is True
    assert made.parse_output('{"parts": [{"number": 3, "x": 1}], "y": [2]}') == Order([Part(3)])


def test_a_prompt_that_asks_for_prose_reads_none() -> None:
    made = Prompt(template(section("a"))).render()
    with pytest.raises(OutputParseError):
        made.parse_output("{}")


orders = st.builds(
    Order,
    st.lists(st.builds(Part, st.integers(-(2**53) + 1, 2**53 - 1), st.sampled_from(["nut", "bolt"])), max_size=3),
    st.none() | st.text(),
)
READER = rendered(Order)


@given(orders)
def test_parse_output_reads_back_any_written_order(order: Order) -> None:
    parts = [{"number": part.number, "kind": part.kind} for part in order.parts]
    note = {} if order.note is None else {"note": order.note}
    assert READER.parse_output(json.dumps({"parts": parts, **note})) == order
