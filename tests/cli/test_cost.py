"""`demiurge cost`: exact sums by chat, day and model; a cost that nobody knows is said to be unknown."""

from __future__ import annotations

import asyncio
import csv
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_answer_limits import answer

from demiurge import World
from demiurge.values.clock import SystemClock

DAY_NS = 24 * 3600 * 10**9


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test begins at noon, so no day ends while it runs."""
    now_ns = SystemClock.now_ns
    shift_ns = DAY_NS // 2 - now_ns(SystemClock()) % DAY_NS
    monkeypatch.setattr(SystemClock, "now_ns", lambda clock: now_ns(clock) + shift_ns)


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
    assert "(UTC): $0.0000123 for 1 answer." in text
    assert "openai-chat/m" in text


def test_an_unknown_cost_is_said_and_is_never_zero(demiurge: Run, provider: Any) -> None:
    say(demiurge, provider, "free")
    assert demiurge("--json", "cost").document["total"]["cost_usd"] is None
    text = demiurge("cost").out
    assert "(UTC): the cost of 1 answer is not known." in text
    assert (
        "openai-chat/m: the provider reports no cost, and no list price is known for this model at its address." in text
    )
    assert text.count("not known") == 1
    say(demiurge, provider, "paid", cost=0.5)
    done = demiurge("cost")
    assert ": at least $0.5 for 2 answers." in done.out
    assert "The cost of 1 of them is not known. openai-chat/m: the provider reports no cost" in done.out


def test_without_the_package_of_prices_the_reason_is_that_it_is_missing(
    demiurge: Run, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(demiurge, provider, "free")
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert "no list price is known without the extra `prices`: pip install" in demiurge("cost").out


def test_a_world_without_answers_costs_nothing(demiurge: Run) -> None:
    assert demiurge("init").status == 0
    assert demiurge("--json", "cost").document["total"]["cost_usd"] == "0"
    assert demiurge("cost", "--chat", "nobody").status == 1


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_one_table_is_printed_as_csv_with_numbers_alone_and_an_empty_cell_for_an_unknown_cost(
    demiurge: Run, provider: Any
) -> None:
    say(demiurge, provider, "free")
    say(demiurge, provider, "paid", cost=0.0000123)
    text = demiurge("cost", "--by", "chat", "--csv").out
    assert text.endswith("\r\n")
    assert text.count("\n") == text.count("\r\n") == 3
    header, *found = rows(text)
    assert header == [
        *("chat", "unit", "name", "answers", "unpriced", "prompt_tokens", "completion_tokens", "cost_usd", "known_usd")
    ]
    assert all(row.pop(2).startswith("Untitled, ") for row in found)
    assert found == [
        ["free", "demiurge/Demiurge@1/free", "1", "1", "10", "5", "", "0"],
        ["paid", "demiurge/Demiurge@1/paid", "1", "0", "10", "5", "0.0000123", "0.0000123"],
    ]
    [header, day] = rows(demiurge("cost", "--csv").out)
    assert (header[0], day[1], day[-2:]) == ("day", "2", ["", "0.0000123"])


def chats_with_one_answer(world: Path, provider: Any, *names: str) -> None:
    """Makes chats by the Python API, which takes names that the command line takes for options."""

    async def run() -> None:
        own: Any = {"provider": "openai-chat", "base_url": provider.url, "model": "m"}
        async with World.open(world, environment={"LLM_API_KEY": "sk-example", "HOME": str(world.parent)}, **own) as it:
            for name in names:
                assert (await it.chat(name).send("Tell me.")).status == "done"

    provider.say(answer(provider, "Yes.", cost=0.5))
    asyncio.run(run())


def test_a_cell_of_a_csv_is_never_a_formula(demiurge: Run, world: Path, provider: Any) -> None:
    names = ("=1+1", "+1", "-1", "@SUM(A1)", "\N{FULLWIDTH EQUALS SIGN}1", 'a,"b"')
    chats_with_one_answer(world, provider, *names)
    text = demiurge("cost", "--by", "chat", "--csv").out
    _, *found = rows(text)
    assert {row[0] for row in found} == {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\N{FULLWIDTH EQUALS SIGN}1", 'a,"b"'}
    assert {"0.5"} == {row[-1] for row in found}


def test_by_prints_one_table_and_json_has_all(demiurge: Run, provider: Any) -> None:
    call = provider.call("core__get_current_time", {"timezone": "UTC"})
    provider.say(provider.answer(call), provider.answer(provider.text("Noon.")))
    assert demiurge("chat", "-m", "What time is it?").status == 0
    out = demiurge("cost", "--by", "tool").out
    assert "CHAT" not in out
    assert [line.split()[:3] for line in out.splitlines()[-2:]] == [
        ["core__get_current_time", "1", "1"],
        ["(no", "tool)", "0"],
    ]
    document = demiurge("--json", "cost", "--by", "tool").document
    assert [row["tool"] for row in document["by_tool"]] == ["core__get_current_time", None]
    assert document["by_chat"][0]["chat"] == "main"
    assert demiurge("--json", "cost", "--csv").status == 2


def test_a_budget_that_nears_its_end_is_said_after_the_turn_and_in_the_cost(
    demiurge: Run, provider: Any, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("allowed_tools = []\n[budgets.unit]\nmax_llm_requests = 2\n")
    provider.say(provider.answer(provider.text("Yes.")))
    says = "This chat has used up the budget: 2 of 2 model requests."
    first = demiurge("chat", "--policy", str(policy), "-m", "Hello.")
    assert "model requests" not in first.err
    second = demiurge("chat", "-m", "Hello.")
    assert says in second.err
    assert says not in second.out
    document = demiurge("--json", "cost").document
    assert [(use["chat"], use["used"], use["limit"]) for use in document["budgets"]] == [("main", 2, 2)]
    assert f"main: {says}" in demiurge("cost").out
    third = demiurge("--json", "chat", "other", "-m", "Hello.")
    assert third.document["budgets"] == []
    fourth = demiurge("--json", "chat", "other", "-m", "Hello.")
    assert [use["says"][: len(says)] for use in fourth.document["budgets"]] == [says]
