"""`demiurge chat`: answers that were cut, answers that say nothing, how long they may be, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run


def answer(provider: Any, text: str | None, finish_reason: str = "stop", **usage: Any) -> Any:
    """An answer of Chat Completions."""
    message = {"role": "assistant", "content": text}
    counted = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **usage}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": counted}
    return provider.raw(json.dumps(body).encode(), 200, "application/json")


@pytest.fixture
def say(demiurge: Run, provider: Any) -> Run:
    """One message to the model `m` at a compatible address."""
    address = ("--provider", "openai-chat", "--base-url", provider.url, "--model", "m")
    return lambda *arguments: demiurge("chat", *address, "-m", "Tell me.", *arguments)


def test_a_cut_answer_is_done_and_says_so_on_stderr(say: Run, provider: Any) -> None:
    provider.say(answer(provider, "Once upon a", "length"))
    done = say()
    assert done.status == 0
    assert "Once upon a" in done.out
    assert "The answer was cut at 1,024 tokens: --max-tokens allows more.\n" in done.err
    assert "was cut" not in done.out
    again = say("--json")
    assert (again.document["status"], again.document["finish_reason"]) == ("done", "length")
    assert "was cut at 1,024 tokens" in again.err


def test_an_answer_that_the_model_ended_itself_is_not_said_to_be_cut(say: Run, provider: Any) -> None:
    provider.say(answer(provider, "Once upon a time."))
    done = say("--json")
    assert (done.document["finish_reason"], "cut" in done.err) == ("stop", False)


@pytest.mark.parametrize("text", ["", " \n", None])
@pytest.mark.parametrize(
    ("finish_reason", "words"),
    [
        ("length", "used all 1,024 tokens"),
        ("stop", "gave an empty answer"),
        ("content_filter", "content filter"),
    ],
)
def test_an_empty_answer_fails_the_turn(
    say: Run, demiurge: Run, provider: Any, text: str | None, finish_reason: str, words: str
) -> None:
    provider.say(answer(provider, text, finish_reason))
    done = say()
    assert done.status == 1
    assert words in done.err
    failed = say("--json")
    assert (failed.status, failed.document["error"]["code"]) == (1, "empty_answer")
    shown = demiurge("chat", "show", "--json").document
    assert [failure["code"] for failure in shown["failures"]] == ["empty_answer"] * 2
    assert shown["last"]["prompt_tokens"] == 10, "what it took counts"
    assert demiurge("replay", "--check").status == 0
    provider.say(answer(provider, "Now."))
    assert say().status == 0
    assert [m["content"] for m in provider.seen[-1]["messages"] if m["role"] == "assistant"] == []


def test_the_limit_of_an_answer_is_the_chats_from_then_on(say: Run, provider: Any) -> None:
    provider.say(answer(provider, "Yes."))
    limits = []
    for arguments in ((), ("--max-tokens", "77"), (), ("--max-tokens", "88"), ()):
        assert say(*arguments).status == 0
        limits.append(provider.seen[-1]["max_tokens"])
    assert limits == [1024, 77, 77, 88, 88]


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_below_one_is_refused(say: Run, limit: str) -> None:
    assert say("--max-tokens", limit).status == 2


def test_more_than_the_grant_allows_fails_the_turn_with_the_reason(say: Run) -> None:
    failed = say("--max-tokens", "40000", "--json")
    assert (failed.status, failed.document["error"]["code"]) == (1, "max_tokens_exceeded")


def test_costs_are_added_up_exactly_and_rounded_once(say: Run, demiurge: Run, provider: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "core__get_current_time", "arguments": "{}"}}
    calls = []
    for number in range(4):
        zone = json.dumps({"timezone": ["Asia/Tokyo", "Europe/Rome", "Asia/Seoul", "UTC"][number]})
        made = {**call, "id": f"c{number}", "function": {**call["function"], "arguments": zone}}  # type: ignore[dict-item]
        message = {"role": "assistant", "content": None, "tool_calls": [made]}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.0000123}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        body = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        calls.append(provider.raw(json.dumps(body).encode(), 200, "application/json"))
    provider.say(*calls, answer(provider, "Late.", cost=0.0000123))
    reply = say("--json").document
    assert len(provider.seen) == 5
    assert (reply["cost_usd"], reply["cost_micros"], reply["cost_cents"]) == ("0.0000615", 62, 1)
    provider.say(answer(provider, "Late.", cost=0.0000123))
    assert ", $0.000013)" in say().err
    assert demiurge("chat", "show", "--json").document["last"]["cost_usd"] == "0.0000123"


def test_a_cost_that_nobody_knows_is_null(say: Run, provider: Any) -> None:
    provider.say(answer(provider, "Late."))
    reply = say("--json").document
    assert (reply["cost_usd"], reply["cost_micros"], reply["cost_cents"]) == (None, None, None)
    assert "$" not in say().out


def test_the_limit_of_the_worlds_own_manifest_counts(
    say: Run, demiurge: Run, provider: Any, tmp_path: Path, world: Path
) -> None:
    from demiurge.apps.demiurge import app

    folder = tmp_path / "own"
    folder.mkdir()
    root = {**app().root, "settings": {**app().root["settings"], "max_tokens": 55}}
    (folder / "all.json").write_text(
        json.dumps([*app().definitions, {"$kind": "manifest", "air_version": "1", **root}])
    )
    assert demiurge("init", "--manifest", str(folder)).status == 0
    provider.say(answer(provider, "Once upon a", "length"))
    assert "was cut at 55 tokens" in say().err
    assert provider.seen[-1]["max_tokens"] == 55
