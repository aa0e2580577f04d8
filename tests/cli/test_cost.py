"""`demiurge cost`: exact sums by chat, day and model; a cost that nobody knows is said to be unknown."""

from __future__ import annotations

from typing import Any

from tests.cli.conftest import Run
from tests.cli.test_answer_limits import answer


def say(demiurge: Run, provider: Any, chat: str, **usage: Any) -> None:
    provider.say(answer(provider, "Yes.", **usage))
    address = ("--provider", "openai-chat", "--base-url", provider.url, "--model", "m")
    assert demiurge("chat", chat, *address, "-m", "Tell me.").status == 0


def test_costs_are_summed_exactly_by_chat_day_and_model(demiurge: Run, provider: Any) -> None:
    for chat in ("a", "a", "b"):
        say(demiurge, provider, chat, cost=0.0000123)
    document = demiurge("--json", "cost").document
    assert (document["total"]["cost_usd"], document["total"]["answers"]) == ("0.0000369", 3)
    by_chat = {each["chat"]: each["cost_usd"] for each in document["by_chat"]}
    assert by_chat == {"a": "0.0000246", "b": "0.0000123"}
    assert [each["model"] for each in document["by_model"]] == ["openai-chat/m"]
    assert [each["day"] for each in document["by_day"]] == [document["until"]]
    assert document["total"]["prompt_tokens"] == 30
    text = demiurge("cost", "--chat", "b").out
    assert "(UTC): $0.0000123 for 1 answers." in text
    assert "openai-chat/m" in text


def test_an_unknown_cost_is_said_and_is_never_zero(demiurge: Run, provider: Any) -> None:
    say(demiurge, provider, "free")
    assert demiurge("--json", "cost").document["total"]["cost_usd"] is None
    assert ": unknown for 1 answers." in demiurge("cost").out
    say(demiurge, provider, "paid", cost=0.5)
    done = demiurge("cost")
    assert ": at least $0.5 for 2 answers." in done.out
    assert "The cost of 1 of them is not known." in done.out


def test_a_world_without_answers_costs_nothing(demiurge: Run) -> None:
    assert demiurge("init").status == 0
    assert demiurge("--json", "cost").document["total"]["cost_usd"] == "0"
    assert demiurge("cost", "--chat", "nobody").status == 1
