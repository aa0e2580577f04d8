from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.models.payload import build
from demiurge.models.providers import PROVIDERS, PYTHON, provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.spec import ToolSpec
from demiurge.wire.items import Audio, Image, Message, NamedTool, Text, TextFormat

OPENAI = "https://api.openai.com/v1"
ELSEWHERE = "https://llm.example/v1"
GOLDEN = Path(__file__).parent / "golden" / "bodies.json"
SPEC = ToolSpec("math__add", "Add.", {"type": "object", "properties": {}, "additionalProperties": False})


def body(name: str, base_url: str, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": "gpt-4.1", "items": (Message("user", (Text("hi"),)),), **changes}
    return build(provider(name), GenerateRequest(provider=name, **fields), base_url)


def golden_bodies() -> dict[str, dict[str, Any]]:
    """Of every row: the body for its own host and for another, to a model that reasons and to one that does not."""
    bodies = {}
    for name, row in PROVIDERS.items():
        if name == PYTHON:  # a model object of the program, which no HTTP request asks
            continue
        for place, base_url in (("official", row.base_url), ("elsewhere", ELSEWHERE)):
            for model in ("plain-model", "gpt-5-mini"):
                if base_url is not None:
                    rich: dict[str, Any] = {"temperature": "0.5", "max_tokens": 9}
                    if not row.json_tool_protocol:
                        rich |= {"specs": (SPEC,), "tool_choice": "auto"}
                    form = TextFormat("answer", '{"type":"object"}')
                    items = (Message("system", (Text("Be brief."),)), Message("user", (Text("hi"),)))
                    made = body(name, base_url, model=model, items=items, response_format=form, **rich)
                    bodies[f"{name}, {place}, {model}"] = made
    return bodies


def test_bodies_are_exactly_these() -> None:
    """Key for key and in this order: an extra field is refused by strict hosts, another order breaks prompt caches."""
    assert json.dumps(golden_bodies()) == json.dumps(json.loads(GOLDEN.read_text("utf-8")))


def test_tools_of_the_json_tool_protocol_are_no_field_of_a_body() -> None:
    with pytest.raises(InvalidValue, match="json_tools"):
        body("openai-chat-json", ELSEWHERE, specs=(SPEC,))


def test_nothing_is_stored_at_openai_and_reasoning_comes_back_encrypted() -> None:
    sent = body("openai", OPENAI, model="gpt-5", temperature="0")
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert "temperature" not in sent


def test_only_reasoning_models_are_asked_for_reasoning() -> None:
    sent = body("openai", OPENAI, temperature="0")
    assert sent["store"] is False
    assert "include" not in sent
    assert sent["temperature"] == 0


def test_compatible_hosts_get_the_common_fields_only() -> None:
    sent = body("openai", ELSEWHERE, model="gpt-5")
    assert not {"store", "include", "temperature"} & set(sent)


def test_the_limit_has_the_name_that_the_host_knows() -> None:
    assert body("openai-chat", OPENAI, max_tokens=9)["max_completion_tokens"] == 9
    assert body("openai-chat", ELSEWHERE, max_tokens=9)["max_tokens"] == 9
    assert body("openai", ELSEWHERE, max_tokens=9)["max_output_tokens"] == 9


def test_usage_is_asked_for_in_chat_streams() -> None:
    assert body("openai-chat", ELSEWHERE)["stream_options"] == {"include_usage": True}


def test_tool_choice_is_sent_where_it_is_understood() -> None:
    choice = NamedTool("math__add")
    assert body("openai-chat", OPENAI, specs=(SPEC,), tool_choice=choice)["tool_choice"]["type"] == "function"
    local = body("local", ELSEWHERE, specs=(SPEC,), tool_choice="auto")
    assert "tool_choice" not in local
    assert len(local["tools"]) == 1


def test_a_named_tool_must_be_among_the_tools() -> None:
    with pytest.raises(InvalidValue, match="other"):
        body("local", ELSEWHERE, specs=(SPEC,), tool_choice=NamedTool("other"))


@pytest.mark.parametrize("text", ["", "warm", "nan", "-1", "2.01", "1e9"])
def test_a_temperature_is_a_number_from_0_to_2(text: str) -> None:
    with pytest.raises(InvalidValue, match="temperature"):
        body("openai-chat", OPENAI, temperature=text)


@pytest.mark.parametrize("changes", [{"items": ()}, {"model": ""}, {"max_tokens": 0}])
def test_an_empty_request_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        body("openai-chat", OPENAI, **changes)


def test_the_unchanging_fields_of_a_payload_come_first() -> None:
    assert list(body("openai-chat", OPENAI, specs=(SPEC,)))[:3] == ["model", "tools", "messages"]


IMAGE, SOUND = Image("image/png", b"p"), Audio("audio/wav", b"w")


@pytest.mark.parametrize(
    ("name", "taken"),
    [("openai", (IMAGE, SOUND)), ("openai-chat", (IMAGE, SOUND)), ("anthropic", (IMAGE,)), ("local", ())],
)
def test_a_provider_is_only_sent_attachments_that_it_takes(name: str, taken: tuple[Image | Audio, ...]) -> None:
    for part in (IMAGE, SOUND):
        items = (Message("user", (Text("Here:"), part)),)
        if part in taken:
            assert body(name, ELSEWHERE, items=items)
            continue
        with pytest.raises(InvalidValue) as refused:
            body(name, ELSEWHERE, items=items)
        assert refused.value.code == "unsupported_attachment"
