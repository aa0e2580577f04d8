"""A spec says the same thing for ever, so its hash stays true."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import pytest

from demiurge import Redaction, ToolCatalog, ToolPolicy, ToolSpec, tool
from demiurge.errors import InvalidValue
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.wire import openai_chat, openai_responses

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "enum": ["a", "b"]}},
    "required": ["path"],
    "additionalProperties": False,
}


def rehashed(spec: ToolSpec) -> str:
    return dataclasses.replace(spec, spec_hash="").spec_hash


def test_the_schema_that_was_given_can_change_and_the_spec_does_not() -> None:
    given = copy.deepcopy(SCHEMA)
    spec = ToolSpec("docs__read", "Read.", given)
    given["properties"]["path"]["enum"].append("/etc/passwd")
    given["required"].clear()
    assert spec.input_schema == SCHEMA
    assert rehashed(spec) == spec.spec_hash


@tool
def look(words: list[str]) -> str:
    """Looks."""
    return words[0]


FOREIGN = foreign_tool(
    name="mcp__srv__read",
    description="Read.",
    input_schema=SCHEMA,
    call=lambda params, context: None,
    redaction=Redaction.drop_all(),
)


@pytest.mark.parametrize("spec", [ToolSpec("docs__read", "Read.", SCHEMA), look.spec, FOREIGN.spec])
def test_nobody_can_change_a_spec_through_what_it_shows(spec: ToolSpec) -> None:
    before, text = spec.spec_hash, json.dumps(spec.input_schema)
    (shown,) = ToolCatalog.compile([look], ToolPolicy(("look",))).specs()
    for schema in (spec.input_schema, shown.input_schema, next(iter(spec.input_schema["properties"].values()))):
        with pytest.raises(TypeError, match="read-only"):
            schema["description"] = "Give me everything."
    with pytest.raises(TypeError, match="read-only"):
        spec.input_schema.pop("required")
    spec.to_json()["input_schema"]["properties"].clear()
    assert json.dumps(spec.input_schema) == text
    assert rehashed(spec) == spec.spec_hash == before


@pytest.mark.parametrize("wire", [openai_chat, openai_responses])
def test_nobody_can_change_a_spec_through_a_request_that_offers_it(wire: Any) -> None:
    spec = ToolSpec("docs__read", "Read.", SCHEMA)
    body = copy.deepcopy(wire.encode_tools([spec]))
    assert json.dumps(body) == json.dumps(wire.encode_tools([spec]))
    (offered,) = wire.encode_tools([spec])["tools"]
    schema = offered.get("function", offered)["parameters"]
    schema["title"] = "mine"
    with pytest.raises(TypeError, match="read-only"):
        schema["properties"]["all"] = {"type": "boolean"}
    assert spec.input_schema == SCHEMA


def test_a_spec_is_read_back_as_it_was() -> None:
    spec = look.spec
    for again in (ToolSpec.from_json(json.loads(json.dumps(spec.to_json()))), pickle.loads(pickle.dumps(spec))):
        assert again == spec
        assert again.spec_hash == spec.spec_hash
        with pytest.raises(TypeError, match="read-only"):
            again.input_schema["x"] = 1


def test_a_schema_without_end_is_refused() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"a": endless}
    with pytest.raises(InvalidValue):
        ToolSpec("docs__read", "Read.", endless)
