"""The author of a tool sees on stderr why it failed, with -v, and nobody else does; without it, where to look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below

CANARY = "canary-4711-canary"
SECRET = "sk-shop-0123456789"
TOOLS = f'''
import os
from demiurge.tools import ToolEffect, ToolValidationError, tool

@tool(effect=ToolEffect.READ_ONLY)
def count_stock(part: str) -> int:
    """Count a part."""
    if part == "odd":
        raise ToolValidationError("part must be even")
    try:
        raise KeyError("{CANARY}-cause")
    except KeyError as cause:
        raise ValueError("{CANARY} " + os.environ["SHOP_TOKEN"]) from cause
'''


@pytest.fixture(autouse=True)
def stock(tmp_path: Path, environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stock_tools.py").write_text(TOOLS)
    (tmp_path / "open.toml").write_text('allowed_tools = ["count_stock", "stock_count"]\n')
    monkeypatch.setenv("SHOP_TOKEN", SECRET)


WRONG = f"""
from demiurge.tools import ToolEffect, ToolResult, tool

@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> ToolResult[int]:
    'Count a part.'
    return ToolResult("Counted.", "{CANARY}")
"""
HERE = ("--tools", "stock_tools", "--policy", "open.toml")


def everything_kept(world: Path) -> bytes:
    return b"".join(bytes_below(world))


def test_with_v_the_exception_of_a_tool_is_on_stderr_alone(demiurge: Any, provider: Any, world: Path) -> None:
    provider.say(
        provider.answer(provider.call("count_stock", {"part": "bolt"}, "c1")),
        provider.answer(provider.text("It failed.")),
    )
    done = demiurge("chat", "-m", "Count.", "-v", *HERE)
    assert done.status == 0
    assert "Traceback (most recent call last)" in done.err
    assert f"KeyError: '{CANARY}-cause'" in done.err
    assert f"ValueError: {CANARY} [SHOP_TOKEN]" in done.err
    assert "stock_tools.py" in done.err
    assert CANARY not in done.out
    assert CANARY not in json.dumps(provider.seen, default=repr)
    assert SECRET not in done.err + done.out
    kept = everything_kept(world)
    assert CANARY.encode() not in kept
    assert SECRET.encode() not in kept
    for command in (("journal", "tail", "--json"), ("trace", "--chat", "main", "--json"), ("chat", "export")):
        shown = demiurge(*command)
        assert CANARY not in shown.out + shown.err


@pytest.mark.parametrize("verbose", ["-v", "-vv"])
def test_the_traceback_begins_with_the_authors_own_code_unless_all_of_it_is_asked_for(
    demiurge: Any, verbose: str
) -> None:
    done = demiurge("tools", "call", "count_stock", '{"part": "bolt"}', verbose, *HERE)
    report = done.err[done.err.index("handler of count_stock (call") :]
    shown = report[: report.index("ValueError:", report.index("direct cause"))]
    assert "stock_tools.py" in shown
    assert ("demiurge/tools/stages/run.py" in shown) is (verbose == "-vv")
    assert ("execution/worker.py" in shown) is (verbose == "-vv")


def test_a_result_of_a_wrong_type_is_told_by_its_types(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "wrong_tools.py").write_text(WRONG)
    done = demiurge("tools", "call", "stock_count", '{"part": "bolt"}', "--tools", "wrong_tools", *HERE[2:])
    assert done.status == 1
    assert "stock_count declares int and returned str" in done.err
    assert CANARY not in done.err


def test_the_person_who_typed_an_unknown_argument_sees_its_name_and_no_record_has_it(demiurge: Any) -> None:
    typed = ("tools", "call", "count_stock", '{"part": "bolt", "colour": 1}')
    assert "unknown field colour; known: part" in demiurge(*typed, *HERE).err
    told = demiurge("--json", *typed, *HERE).document
    assert "unknown field colour; known: part" in told["error"]["message"]
    assert "unknown field; known: part" in told["message"]
    records = demiurge("--json", "journal", "tail", "-n", "50").document["records"]
    assert not [one for one in records if one["kind"] == "receipt" and "unknown field colour" in json.dumps(one)]


def test_the_exception_of_a_tool_is_one_json_line_of_the_log(demiurge: Any) -> None:
    done = demiurge("tools", "call", "count_stock", '{"part": "bolt"}', "-v", "--log-json", "--json", *HERE)
    assert done.status == 1
    lines = [json.loads(line) for line in done.err.splitlines()]
    [report] = [line for line in lines if CANARY in line["message"]]
    assert (report["level"], report["logger"]) == ("error", "demiurge.tools")
    assert "Traceback" in report["message"]
    assert SECRET not in done.err
    assert CANARY not in done.out


def test_without_v_a_line_says_how_to_see_the_exception(demiurge: Any) -> None:
    done = demiurge("tools", "call", "count_stock", '{"part": "bolt"}', *HERE)
    assert done.status == 1
    assert CANARY not in done.err + done.out
    assert "handler of count_stock raised ValueError at" in done.err
    assert "`demiurge -v`" in done.err


def test_a_sentence_that_the_tool_means_to_say_reaches_the_model(demiurge: Any, provider: Any) -> None:
    provider.say(
        provider.answer(provider.call("count_stock", {"part": "odd"}, "c1")),
        provider.answer(provider.text("I see.")),
    )
    done = demiurge("--json", "chat", "-m", "Count.", *HERE)
    [call] = done.document["tool_calls"]
    assert (call["error_code"], call["message"]) == ("validation", "part must be even")
    assert "part must be even" in json.dumps(provider.seen, default=repr)


def test_a_guest_is_told_that_the_owner_says_why(process: Any, provider: Any) -> None:
    provider.say(
        provider.answer(provider.text("Slow."), held=True),
        provider.answer(provider.call("count_stock", {"part": "bolt"}, "c1")),
        provider.answer(provider.text("It failed.")),
    )
    owner = process.start("chat", "one", "-m", "Think.", "-v", *HERE)
    assert provider.asked.wait(20)
    guest = process("chat", "two", "-m", "Count.", *HERE)
    provider.let_go.set()
    owned = process.finish(owner)
    assert (guest.status, owned.status) == (0, 0), (guest, owned)
    assert CANARY in owned.err
    assert CANARY not in guest.out + guest.err
    assert "process that has this world open" in guest.err
