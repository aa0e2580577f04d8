"""Questions of a tool, and the forms that their schemas make."""

from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools.input_form import FormField, checked_content, read_form
from demiurge.tools.input_required import Answer, InputRequired, Question

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 9},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "site": {"type": "string", "format": "uri"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 4, "default": 2},
        "share": {"type": "number"},
        "window": {"type": "boolean", "default": False},
        "meal": {"type": "string", "enum": ["v", "m"], "enumNames": ["Vegetarian", "Meat"]},
        "class": {"type": "string", "oneOf": [{"const": "1", "title": "First"}, {"const": "2", "title": "Second"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["wifi", "bag"]}, "maxItems": 1},
        "legs": {"type": "array", "items": {"anyOf": [{"const": "out", "title": "There"}, {"const": "back"}]}},
    },
    "required": ["name"],
}


def form(**properties: Any) -> Question:
    return Question("q", "Fill in.", schema={"type": "object", "properties": properties})


def test_a_form_has_the_fields_of_its_schema_in_their_order() -> None:
    fields = {field.name: field for field in Question("q", "Fill in.", schema=SCHEMA).fields}

    assert list(fields) == list(SCHEMA["properties"])
    assert (fields["name"].title, fields["name"].required, fields["name"].kind) == ("Your name", True, "text")
    assert [(choice.value, choice.title) for choice in fields["meal"].choices] == [("v", "Vegetarian"), ("m", "Meat")]
    assert [choice.title for choice in fields["class"].choices] == ["First", "Second"]
    assert [choice.title for choice in fields["legs"].choices] == ["There", "back"]
    assert (fields["seats"].default, fields["window"].default) == (2, False)


def test_an_answer_has_the_defaults_of_what_was_left_out() -> None:
    given = {"name": "Ada", "meal": "v", "extras": ["wifi"], "at": "2026-05-31T09:30:00Z", "day": "2026-05-31"}

    answer = Question("q", "Fill in.", schema=SCHEMA).accepted(given)

    assert answer.action == "accept"
    assert answer.content == {**given, "seats": 2, "window": False}


@pytest.mark.parametrize(
    ("given", "field", "problem"),
    [
        ({}, "name", "is required"),
        ({"name": "A"}, "name", "must have at least 2 characters"),
        ({"name": "Adaadaadaada"}, "name", "must have at most 9 characters"),
        ({"name": 5}, "name", "must be text"),
        ({"mail": "here"}, "mail", "must be an e-mail address, such as name@example.com"),
        ({"day": "31.5.2026"}, "day", "must be a date, such as 2026-05-31"),
        ({"day": "2026-W01-1"}, "day", "must be a date, such as 2026-05-31"),
        ({"at": "2026-05-31 09:30"}, "at", "must be a date and a time with a zone, such as 2026-05-31T09:30:00Z"),
        ({"site": "example.com"}, "site", "must be an address with a scheme, such as https://example.com"),
        ({"seats": 9}, "seats", "must be at most 4"),
        ({"seats": 1.5}, "seats", "must be a whole number"),
        ({"seats": True}, "seats", "must be a whole number"),
        ({"seats": 10**400}, "seats", "must be a whole number"),
        ({"share": "much"}, "share", "must be a number"),
        ({"share": -(10**400)}, "share", "must be a number"),
        ({"window": "yes"}, "window", "must be true or false"),
        ({"meal": "Meat"}, "meal", "must be one of the choices"),
        ({"extras": "wifi"}, "extras", "must be a list of choices"),
        ({"extras": ["wifi", "bag"]}, "extras", "must have at most 1 choices"),
        ({"extras": ["sauna"]}, "extras", "must be some of the choices, each once"),
        ({"other": 1}, "other", "is not a field of this form"),
    ],
)
def test_each_field_at_fault_is_named(given: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidValue) as fault:
        Question("q", "Fill in.", schema=SCHEMA).accepted(given)

    assert fault.value.code == "bad_answer"
    assert fault.value.details["fields"][field] == problem


@pytest.mark.parametrize(
    "schema",
    [
        [],
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"enum": []}}},
        {"type": "object", "properties": {"a": {"enum": [1, 2]}}},
        {"type": "object", "properties": {"a": {"enum": ["x", "x"]}}},
        {"type": "object", "properties": {"a": {"type": "number", "minimum": "0"}}},
        {"type": "object", "properties": {"a": {"type": "string", "title": "t" * 2001}}},
        {"type": "object", "properties": {}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": [["a"]]},
        {"type": "object", "properties": {"a": {"type": "number", "minimum": 10**400}}},
        {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(51)}},
    ],
)
def test_a_schema_that_no_form_can_have_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidValue) as fault:
        read_form(schema)

    assert fault.value.code == "bad_question"


def test_a_format_that_is_no_text_is_no_rule() -> None:
    [field] = form(name={"type": "string", "format": ["email"]}).fields

    assert field.format == ""


def test_a_number_that_is_too_large_is_refused_when_it_is_typed() -> None:
    with pytest.raises(InvalidValue) as fault:
        FormField("seats", "integer", "Seats").typed("1" * 400)

    assert fault.value.message == "seats must be a whole number."


def test_a_request_whose_method_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidValue) as fault:
        Question("q", "Why?", request={"method": ["roots/list"]})

    assert fault.value.code == "bad_question"


def test_a_default_that_the_form_itself_refuses_is_none() -> None:
    [field] = form(seats={"type": "integer", "maximum": 4, "default": 9}).fields

    assert field.default is None


def test_a_question_without_a_form_takes_text() -> None:
    question = Question("q", "Why?")

    assert question.accepted({"text": "Because."}).text == "Because."
    for wrong in ({}, {"text": " "}, {"text": 1}, {"text": "x", "more": 1}, {"text": "x" * 8001}):
        with pytest.raises(InvalidValue):
            question.accepted(wrong)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://pay.example.com/x?y=1", "pay.example.com"),
        ("http://localhost:8080/", "localhost:8080"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("https://\u0430pple.com/", "xn--pple-43d.com"),
    ],
)
def test_an_address_shows_the_host_that_it_leads_to(url: str, host: str) -> None:
    question = Question("q", "Pay there.", url=url)

    assert question.host == host
    assert question.accepted(None).content is None


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x", "javascript:alert(1)", "https://", "https://me:pw@host/", "https://a b/", "https://h/\u202e", "x"],
)
def test_an_address_that_could_mislead_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue):
        Question("q", "Pay there.", url=url)


def test_questions_and_answers_are_json() -> None:
    for question in (Question("a", "Why?"), Question("b", "Pay.", url="https://x/"), form(n={"type": "number"})):
        assert Question.of_json(question.to_json()) == question
    for answer in (Answer("accept", {"n": 1}), Answer("decline"), Answer("cancel")):
        assert Answer.of_json(answer.to_json()) == answer


@pytest.mark.parametrize(
    "given",
    [
        {"questions": ()},
        {"questions": (Question("a", "?"), Question("a", "?"))},
        {"questions": (Question("a", "?"),), "state": "text"},
        {"questions": (Question("a", "?"),), "state": bytes(262_145)},
        {"questions": (Question("a", "?"),), "expires_s": 0},
    ],
)
def test_an_impossible_request_for_input_is_refused_where_it_is_made(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        InputRequired(**given)


def test_a_question_needs_words() -> None:
    for key, message in (("", "?"), ("k", " "), ("k", "x" * 4001), ("k" * 129, "?")):
        with pytest.raises(InvalidValue):
            Question(key, message)
    with pytest.raises(InvalidValue):
        Question("k", "?", schema={"type": "object", "properties": {}}, url="https://x/")
    with pytest.raises(InvalidValue):
        Answer("decline", {"a": 1})


def test_an_empty_form_is_a_plain_yes() -> None:
    assert checked_content((), {}) == {}
