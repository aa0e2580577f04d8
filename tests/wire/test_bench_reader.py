"""The reader of `bench.wire` takes what clients sent: custom calls, images, and requests that a provider refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.wire.derived import derived_failures
from bench.wire.interactions import Interaction
from bench.wire.resent import answers, resent_difference
from bench.wire.turns import is_paired, items_of
from hypothesis import given
from hypothesis import strategies as st

from demiurge.wire import Image, Message, Text, ToolCall, ToolOutput

PNG = "iVBORw0KGgo="
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "text", "user", "tool", "assistant", "message"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "tool_calls", "output", "source", "function", "image_url"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def _entry(api: str, request: dict[str, Any], body: dict[str, Any] | None = None, status: int = 200) -> Interaction:
    return Interaction("x", api, api, False, status, "application/json", json.dumps(body or {}).encode(), request)


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@given(value=JSON)
def test_a_malformed_request_is_read(api: str, value: Any) -> None:
    request = {"messages": value, "input": value, "system": value, "instructions": value}
    items_of(api, request)
    is_paired(api, request)
    resent_difference(_entry(api, request, status=400), {})


@pytest.mark.parametrize(
    ("api", "part", "result"),
    [
        (
            "messages",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            lambda part: {"type": "tool_result", "tool_use_id": "c", "content": [part]},
        ),
        (
            "responses",
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
            lambda part: {"type": "function_call_output", "call_id": "c", "output": [part]},
        ),
        ("chat", {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}, None),
    ],
)
def test_images_are_kept(api: str, part: dict[str, Any], result: Any) -> None:
    said = {"role": "user", "content": [part]}
    image = Image("image/png", b"\x89PNG\r\n\x1a\n")
    request: dict[str, Any] = {"messages": [said], "input": [{"type": "message", **said}]}
    assert items_of(api, request) == [Message("user", (image,))]
    assert resent_difference(_entry(api, request), {}) == (0, None)
    if result is not None:
        request = {"messages": [{"role": "user", "content": [result(part)]}], "input": [result(part)]}
        assert items_of(api, request) == [ToolOutput("c", "", images=(image,))]
        assert resent_difference(_entry(api, request), {}) == (0, None)


CUSTOM: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chat": (
        {
            "messages": [
                {"role": "user", "content": "List"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
            ]
        },
        {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}]
                    },
                }
            ]
        },
    ),
    "responses": (
        {
            "input": [
                {"role": "user", "content": "List"},
                {"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": "ls"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "a.txt"},
            ]
        },
        {
            "status": "completed",
            "output": [{"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": "ls"}],
        },
    ),
}


@pytest.mark.parametrize("api", sorted(CUSTOM))
def test_custom_calls_survive(api: str) -> None:
    request, answer = CUSTOM[api]
    wrapped = ToolCall("c", "shell", '{"invalid_arguments": "ls"}')
    assert items_of(api, request) == [Message("user", (Text("List"),)), wrapped, ToolOutput("c", "a.txt")]
    entry = _entry(api, request, answer)
    assert resent_difference(entry, {}) == (0, None)
    assert resent_difference(entry, answers([entry]))[1] is None
    assert [failure for failure in derived_failures(entry) if failure[1] is not None] == []
