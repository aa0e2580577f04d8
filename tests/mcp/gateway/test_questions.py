"""A tool's form as the protocol writes it."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from demiurge.mcp.gateway.port import AskedQuestion, Waiting
from demiurge.mcp.gateway.questions import client_requests, given_decision
from demiurge.tools.input_form import read_form
from demiurge.visible_text import visible_name


def test_each_kind_of_field_keeps_its_choices_limits_and_default() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 9, "default": "Ada"},
            "age": {"type": "integer", "minimum": 1, "maximum": 99},
            "sure": {"type": "boolean", "default": True},
            "plain": {"type": "string", "enum": ["a", "b"]},
            "titled": {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "b"}]},
            "several": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 1},
            "kinds": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "Cross"}]}},
        },
        "required": ["name"],
    }
    fields = [field.to_json() for field in read_form(schema)]
    waiting = Waiting("id", "book", may_decide=True, questions=[AskedQuestion("q", "Who?", fields=fields)])
    params = client_requests(waiting, {})["q"].params
    assert isinstance(params, types.ElicitRequestFormParams)
    assert params.requested_schema["required"] == ["name"]
    given = params.requested_schema["properties"]
    without_titles = {
        name: {key: value for key, value in each.items() if key != "title"} for name, each in given.items()
    }
    assert without_titles == {
        "name": {"type": "string", "minLength": 2, "maxLength": 9, "default": "Ada"},
        "age": {"type": "integer", "minimum": 1, "maximum": 99},
        "sure": {"type": "boolean", "default": True},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "b"}]},
        "several": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 1},
        "kinds": {"type": "array", "items": {"type": "string", "anyOf": [{"const": "x", "title": "Cross"}]}},
    }


def form_of(waiting: Waiting, key: str) -> types.ElicitRequestFormParams:
    params = client_requests(waiting, {})[key].params
    assert isinstance(params, types.ElicitRequestFormParams)
    return params


def test_no_call_is_approved_whose_arguments_are_not_shown_whole() -> None:
    for length, decisions in ((1000, ["approve", "reject", "wait"]), (9000, ["reject", "wait"])):
        arguments = f'{{"note": "{"a" * length}", "to": "mallory"}}'
        waiting = Waiting("1" * 64, "send_mail", may_decide=True, arguments_json=arguments)
        form = form_of(waiting, "decision")
        assert form.requested_schema["properties"]["decision"]["enum"] == decisions
        assert ("mallory" in form.message) is ("approve" in decisions)
        assert ("too long to be shown here" in form.message) is ("approve" not in decisions)
        for decision in ("approve", "reject", "wait"):
            given = {"decision": types.ElicitResult(action="accept", content={"decision": decision})}
            counts = given_decision(waiting, given) is not None
            assert counts is (decision in decisions and decision != "wait")


def test_the_words_of_a_tool_hide_nothing_from_the_client_s_user() -> None:
    hidden = "\u202eevil\u200b"
    spelled = "<U+202E>evil<U+200B>"
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"seat": {"type": "string", "title": hidden, "description": hidden, "enum": [hidden]}},
    }
    fields = [field.to_json() for field in read_form(schema)]
    asked = AskedQuestion("q", f"Which? {hidden}", fields=fields)
    form = form_of(Waiting("id", "book", may_decide=True, questions=[asked], asker="The tool book"), "q")
    assert form.message == f"The tool book asks: Which? {spelled}"
    seat = form.requested_schema["properties"]["seat"]
    assert (seat["title"], seat["description"]) == (visible_name(hidden), spelled)
    assert seat["oneOf"] == [{"const": hidden, "title": visible_name(hidden)}]
    arguments = Waiting("1" * 64, "book", may_decide=True, arguments_json=f'{{"to": "{hidden}"}}')
    assert form_of(arguments, "decision").message.endswith(f'Arguments: {{"to": "{spelled}"}}')
