"""Two prompts have one digest exactly when a model was asked the same, whoever wrote the numbers down."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from demiurge import InvalidValue, ToolSpec
from demiurge.tools import GraphRun, prompt_hash
from demiurge.tools.telemetry.prompt_hash import PROMPT_HASH_VERSION
from demiurge.values import canonical_json

HELLO = ({"role": "user", "content": "Hello"},)
SEARCH = ToolSpec("web__search", "Search.", {"type": "object"})
READ = ToolSpec("web__read", "Read.", {"type": "object"})
POET = GraphRun(graph_run_id="r1", graph_name="poet", graph_version="3")
BASE: dict[str, Any] = {"model": "gpt-4", "messages": HELLO, "temperature": 0.7, "max_tokens": 2048}

CALL = {"id": "c1", "type": "function", "function": {"name": "web__search", "arguments": '{"text": "x"}'}}
OTHER_CALL = {"id": "c1", "type": "function", "function": {"name": "web__search", "arguments": '{"text": "y"}'}}


def messages_with_call(call: Any, answer: str = "3 pages") -> tuple[dict[str, Any], ...]:
    return (
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": answer},
    )


def test_everything_that_can_change_the_answer_counts() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"model": "gpt-5"},
        {"messages": ()},
        {"messages": ({"role": "system", "content": "Hello"},)},
        {"messages": messages_with_call(CALL)},
        {"messages": messages_with_call(OTHER_CALL)},
        {"messages": messages_with_call(CALL, "4 pages")},
        {"messages": tuple(reversed(messages_with_call(CALL)))},
        {"temperature": 0.8},
        {"temperature": None},
        {"max_tokens": 2049},
        {"max_tokens": None},
        {"tools": (SEARCH,)},
        {"tools": (SEARCH, READ)},
        {"tools": (ToolSpec("web__search", "Search!", {"type": "object"}),)},
        {"graph": POET},
        {"graph": GraphRun(graph_run_id="r1", graph_name="poet", graph_version="4")},
        {"graph": GraphRun(graph_run_id="r1", graph_name="bard", graph_version="3")},
    ]
    hashes = [prompt_hash(**{**BASE, **change}) for change in changes]
    assert len(set(hashes)) == len(changes)
    assert all(found.startswith("sha256:") for found in hashes)


def test_order_of_tools_and_of_keys_spelling_of_numbers_and_the_run_do_not_count() -> None:
    first = prompt_hash(model="m", messages=HELLO, temperature=1, max_tokens=64, tools=(SEARCH, READ), graph=POET)
    second = prompt_hash(
        model="m",
        messages=[{"content": "Hello", "role": "user"}],
        temperature=1.0,
        max_tokens=64,
        tools=iter((READ, SEARCH, READ)),
        graph=GraphRun(graph_run_id="r2", graph_name="poet", graph_version="3"),
    )
    assert first == second


@pytest.mark.parametrize("temperature", [-0.0, 0, 0.0])
def test_nothing_has_one_spelling(temperature: float) -> None:
    assert prompt_hash(model="m", messages=(), temperature=temperature) == prompt_hash(
        model="m", messages=(), temperature=0
    )


@pytest.mark.parametrize("part", [float("nan"), float("inf"), 2**53, "\ud800", object(), {1: 2}])
def test_a_value_that_is_not_json_is_refused(part: Any) -> None:
    with pytest.raises(InvalidValue):
        prompt_hash(model="m", messages=({"role": "user", "content": part},))


def test_the_recipe_is_fixed() -> None:
    """A change of recipe is a new version; then this digest changes with it."""
    assert PROMPT_HASH_VERSION == "phv2"
    text = (
        '{"graph":{"name":"poet","version":"3"},"max_tokens":2048,"messages":[{"content":"Hello","role":"user"}],'
        f'"model":"gpt-4","prompt_hash_version":"phv2","temperature":0.7,"tools":["{SEARCH.spec_hash}"]}}'
    )
    found = prompt_hash(**BASE, tools=(SEARCH,), graph=POET)
    assert found == "sha256:" + sha256(text.encode()).hexdigest()


def test_the_original_vector_shares_its_spelling_of_values_but_not_its_order_of_keys() -> None:
    """The original's `phv1` can't be had from this function: it keeps its keys in the order in which they were
    written, RFC 8785 sorts them, and it has no tools and no graph. What both share is how a value is spelled."""
    model, role, content, temperature, max_tokens = (
        canonical_json.encode(value).decode() for value in ("gpt-4", "user", "Hello", 0.7, 2048)
    )
    text = (
        f'{{"prompt_hash_version":"phv1","model":{model},"messages":[{{"role":{role},"content":{content}}}],'
        f'"temperature":{temperature},"max_tokens":{max_tokens}}}'
    )
    assert sha256(text.encode()).hexdigest() == "f90d533bb086217b7b861d623dfdeabf210c2d2229de232a5dd33512634a9f4b"
