from __future__ import annotations

from dataclasses import replace

import pytest

from demiurge.errors import UsageError
from demiurge.models.providers import PROVIDERS, is_reasoning, provider


def test_openai_is_another_name_for_the_responses_api() -> None:
    assert provider("openai") is PROVIDERS["openai-responses"]


def test_an_unknown_provider_is_a_usage_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="anthropic, local, local-json, openai, openai-chat, openai-chat-json, "):
        provider("nobody")


@pytest.mark.parametrize(
    "model",
    [
        *("o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.1", "openai/gpt-5-mini", "gpt-6-luna", "gpt-6.1-sol"),
        *("claude-opus-4-7", "anthropic/claude-opus-4.8", "claude-opus-5", "claude-sonnet-5-20260630"),
    ],
)
def test_reasoning_models_are_known_by_name(model: str) -> None:
    assert is_reasoning(model)


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4o", "gpt-4.1", "omni", "qwen2.5-coder-1.5b-instruct", "o1x", "gpt-oss-20b"),
        *("claude-opus-4-6", "claude-sonnet-4-5", "claude-haiku-4-5-20251001", "claude-3-7-sonnet-latest"),
    ],
)
def test_others_are_not_taken_for_one(model: str) -> None:
    assert not is_reasoning(model)


def test_the_rows_for_the_json_tool_protocol_differ_in_how_tools_are_sent_alone() -> None:
    for name in ("openai-chat", "local"):
        row, other = PROVIDERS[name], PROVIDERS[f"{name}-json"]
        assert not row.json_tool_protocol
        assert other == replace(row, name=f"{name}-json", json_tool_protocol=True, writes_calls_as_text=False)
