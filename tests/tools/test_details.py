"""A model reads a tool's description and then its details; a spec without details is what it was before there were
any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from demiurge.bootstrap.tool_view import tool_views
from demiurge.errors import InvalidValue
from demiurge.prompts import InMemoryOverrides, MarkdownSection, Prompt, PromptOverride, PromptTemplate
from demiurge.tools import PromptValidationError, Tool, ToolContext, ToolPolicy, ToolResult, ToolSpec
from demiurge.values.caller import USER
from demiurge.wire import anthropic, envelope_text, openai_chat, openai_responses

DETAILS = "Use it for whole words.\n\n- One word per call."
READ = "Looks it up.\n\n" + DETAILS
SCHEMA: dict[str, Any] = {"additionalProperties": False, "properties": {}, "type": "object"}


def look_up(params: None, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("", "found")


def make(**fields: Any) -> Tool[Any, Any]:
    return Tool[None, str](**{"name": "look_up", "description": "Looks it up.", "handler": look_up, **fields})


def test_a_spec_without_details_has_the_hash_that_it_always_had() -> None:
    spec = ToolSpec("look_up", "Looks it up.", SCHEMA)
    assert spec.spec_hash == "sha256:e74d7b2090a5fb6a733933475794f0ee30b3b07ccdf9808aa223379b0dfc65ad"
    assert "details" not in spec.to_json()
    assert spec == ToolSpec("look_up", "Looks it up.", SCHEMA, details="")


def test_details_are_part_of_the_spec_and_its_hash() -> None:
    spec = make(details=DETAILS).spec
    assert spec.details == spec.to_json()["details"] == DETAILS
    assert spec.spec_hash != make().spec.spec_hash
    assert ToolSpec.from_json(spec.to_json()) == spec
    assert replace(spec, spec_hash="") == spec


def test_details_of_a_stored_spec_must_be_text() -> None:
    with pytest.raises(InvalidValue, match="details of tool 'look_up' must be text"):
        ToolSpec.from_json({**make().spec.to_json(), "details": ["a"]})


@pytest.mark.parametrize(("details", "read"), [("", "Looks it up."), (f"\r\n {DETAILS}\n", READ)])
def test_every_request_to_a_model_has_description_and_details(details: str, read: str) -> None:
    spec = make(details=details).spec
    assert spec.model_description == read
    assert anthropic.encode_tools([spec])["tools"][0]["description"] == read
    assert openai_chat.encode_tools([spec])["tools"][0]["function"]["description"] == read
    assert openai_responses.encode_tools([spec])["tools"][0]["description"] == read
    assert f"look_up: {read}\nargs: " in envelope_text.protocol_text([spec], "n")


def prompt_of(tool: Tool[Any, Any], store: InMemoryOverrides | None = None) -> Prompt[Any]:
    section = MarkdownSection(title="Words", key="words", template="Words.", tools=[tool])
    return Prompt(PromptTemplate(ns="test", key="words", sections=[section]), store)


def test_a_prompt_shows_details_below_the_description_in_the_tools_item() -> None:
    text = prompt_of(make(details=DETAILS)).render().text
    item = "- `look_up`: Looks it up.\n\n  Use it for whole words.\n\n  - One word per call."
    assert item in text


def test_an_override_replaces_details_and_is_stale_once_they_change() -> None:
    now = prompt_of(make(details=DETAILS)).descriptor
    store = InMemoryOverrides()
    change = now.tool_override("look_up", details="For one word.")
    store.put(now, PromptOverride("test", "words", tools=(change,)))
    (changed,) = prompt_of(make(details=DETAILS), store).render().tools
    assert (changed.description, changed.spec.details) == ("Looks it up.", "For one word.")
    (ignored,) = prompt_of(make(details="Other."), store).render().ignored_overrides
    assert ignored.fault == "stale"


@pytest.mark.parametrize(
    ("details", "advice"),
    [("x" * 2001, "has 2,001 characters, the limit is 2,000: shorten it"), ("a\u202eb", "U+202E at position 2")],
)
def test_an_override_with_details_that_a_tool_cannot_have_is_refused(details: str, advice: str) -> None:
    with pytest.raises(PromptValidationError) as caught:
        prompt_of(make()).descriptor.tool_override("look_up", details=details)
    assert advice in str(caught.value)


def test_the_view_of_a_tool_has_its_details_and_counts_them() -> None:
    policy = ToolPolicy(("look_up",)).to_json()
    (short,), (long,) = (
        tool_views({"tool_policy": policy, "toolset": [made.spec.to_json()]}, USER)
        for made in (make(), make(details="word " * 399))
    )
    assert (short["details"], long["details"]) == ("", ("word " * 399).strip())
    assert long["tokens"] - short["tokens"] == pytest.approx(2000 / 4, abs=3)


@pytest.mark.parametrize(
    ("field", "text", "advice"),
    [
        ("description", "x" * 236, "has 236 characters, the limit is 200: put the rest into details=, of up to 2,000"),
        ("description", " ", "'description' is empty: write 1 to 200 characters"),
        ("description", None, "'description' must be text, not NoneType"),
        ("description", "a\u202eb", "'description' has the invisible character U+202E at position 2"),
        ("details", "x" * 2001, "'details' has 2,001 characters, the limit is 2,000: keep what a model needs"),
        ("details", "fine \U000e0041", "the invisible character U+E0041 at position 6"),
        ("details", b"bytes", "'details' must be text, not bytes"),
    ],
)
def test_a_text_that_a_tool_cannot_have_is_refused_with_its_length_and_what_to_do(
    field: str, text: Any, advice: str
) -> None:
    with pytest.raises(PromptValidationError) as caught:
        make(**{field: text})
    assert advice in str(caught.value)
    assert caught.value.placeholder == field


def test_texts_at_the_limit_are_taken() -> None:
    made = make(description="ß" * 200, details="é" * 2000)
    assert (len(made.spec.description), len(made.spec.details)) == (200, 2000)
