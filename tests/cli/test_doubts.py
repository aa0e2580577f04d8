"""`demiurge doubts`: what nobody knows is listed, shown and settled in a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from demiurge.bootstrap.backend.reading import Reading

PAY = '''
from demiurge import IdempotencyConfig
from demiurge.tools import ToolEffect, ToolErrorCode, ToolFailure, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig(scope="shop"))
def pay(invoice: str) -> str:
    """Pay an invoice."""
    raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME)
'''
HERE = ("--tools", "pay_tools", "--policy", "open.toml")


@pytest.fixture(autouse=True)
def pay(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "pay_tools.py").write_text(PAY)
    (tmp_path / "open.toml").write_text('allowed_tools = ["pay"]\n')


def call(demiurge: Any, name: str) -> Any:
    return demiurge("--json", "tools", "call", "pay", '{"invoice": "1"}', "--call-id", name, *HERE).document


def test_nothing_is_in_doubt_in_a_new_world(demiurge: Any) -> None:
    assert demiurge("init").status == 0
    assert demiurge("doubts", "ls").out == "Nothing is in doubt.\n"
    assert demiurge("--json", "doubts", "ls").document == {"doubts": []}


def test_a_doubt_is_listed_shown_and_settled_as_done(demiurge: Any) -> None:
    demiurge("init", *HERE)
    assert call(demiurge, "c1")["error"]["code"] == "unknown_outcome"
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    listed = demiurge("doubts", "ls").out
    assert doubt["id"][:12] in listed
    assert "doubts settle" in listed
    assert demiurge("doubts", "show", doubt["id"][:12]).document["tool"] == "pay"
    settle = ("doubts", "settle", doubt["id"], "--done", "--reason", "The bank says so.", "--result")
    assert "--result: Not valid JSON at line 1" in demiurge(*settle, "paid").err
    assert "pay gives no such result (the value: Input should be a valid string)" in demiurge(*settle, "7").err
    said = ("--reason", "The bank says so.", "--result", '"paid on Monday"')
    done = demiurge("doubts", "settle", doubt["id"][:12], "--done", *said)
    assert (done.status, done.err) == (0, "")
    assert "settled as done" in done.out
    answered = call(demiurge, "c2")
    assert (answered["ok"], "paid on Monday" in answered["content"]) == (True, True)
    assert demiurge("--json", "doubts", "ls").document == {"doubts": []}
    [settled] = demiurge("--json", "doubts", "ls", "--all").document["doubts"]
    assert (settled["settled"]["done"], settled["settled"]["reason"]) == (True, "The bank says so.")
    everything = demiurge("doubts", "ls", "--all").out
    assert "The bank says so." in everything
    assert "Find out" not in everything, "nothing is left to find out"
    again = demiurge("--json", "doubts", "settle", doubt["id"], "--not-done", "--reason", "no")
    assert (again.status, again.document["error"]["code"]) == (1, "settled")
    assert demiurge("journal", "verify").status == 0
    assert demiurge("replay", "--check").status == 0


def test_a_long_reason_is_cut_in_the_list_and_hides_nothing(demiurge: Any) -> None:
    demiurge("init", *HERE)
    call(demiurge, "c1")
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    demiurge("doubts", "settle", doubt["id"], "--not-done", "--reason", "\u202e" + "r" * 479)
    listed = demiurge("doubts", "ls", "--all").out
    assert "\u202e" not in listed
    assert "U+202E" in listed
    assert f"{'r' * 112}… (480 characters)" in listed
    [settled] = demiurge("--json", "doubts", "ls", "--all").document["doubts"]
    assert len(settled["settled"]["reason"]) == 480


def test_a_doubt_is_listed_with_the_time_at_which_its_effect_began(
    demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    demiurge("init", *HERE)
    call(demiurge, "c1")
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    monkeypatch.setattr(Reading, "attempts", lambda _self, intents: dict.fromkeys(intents, 3_600 * 10**9))
    assert "1970-01-01 01:00:00Z" in demiurge("doubts", "ls").out
    monkeypatch.setattr(Reading, "attempts", lambda _self, intents: {})
    noticed = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(doubt["at_ns"] // 10**9))
    assert noticed in demiurge("doubts", "ls").out


def test_a_doubt_settled_as_not_done_may_run_again(demiurge: Any) -> None:
    demiurge("init", *HERE)
    call(demiurge, "c1")
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    settled = demiurge(
        "--json", "doubts", "settle", doubt["id"], "--not-done", "--reason", "The bank says no."
    ).document
    assert (settled["settled"]["done"], settled["ledger"]) == (False, None)
    call(demiurge, "c2")
    [again] = demiurge("--json", "doubts", "ls").document["doubts"]
    assert (again["unit"], again["ledger"]) == ("demiurge/Calls@1/c2", "in_doubt"), "it ran, and is in doubt itself"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--reason", "x"), 2),
        (("--done",), 2),
        (("--done", "--not-done", "--reason", "x"), 2),
        (("--not-done", "--done", "--reason", "x"), 2),
        (("--not-done", "--reason", "x", "--result", "1"), 2),
        (("--done", "--reason", "x", "--result", "{"), 1),
        (("--done", "--reason", "x", "--result", "17"), 1),
        (("--done", "--reason", ""), 1),
    ],
)
def test_wrong_words_settle_nothing(words: tuple[str, ...], status: int, demiurge: Any) -> None:
    demiurge("init", *HERE)
    call(demiurge, "c1")
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    assert demiurge("doubts", "settle", doubt["id"], *words).status == status
    assert demiurge("--json", "doubts", "ls").document["doubts"] == [doubt]


def test_an_unknown_id_is_told(demiurge: Any) -> None:
    demiurge("init")
    assert demiurge("--json", "doubts", "show", "0123456789").document["error"]["code"] == "not_found"
    assert demiurge("--json", "doubts", "show", "01").document["error"]["code"] == "too_short"


BOOK = '''
from demiurge import IdempotencyConfig
from demiurge.tools import ToolEffect, ToolUserError, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, idempotency=IdempotencyConfig(scope="shop"))
def book(room: str) -> str:
    """Book a room."""
    if room == "none":
        raise ToolUserError("There is no such room.")
    return "booked"
'''


def test_failed_and_replayed_calls_are_shown_alike_at_once_and_later(
    demiurge: Any, provider: Any, tmp_path: Path
) -> None:
    (tmp_path / "book_tools.py").write_text(BOOK)
    (tmp_path / "book.toml").write_text('allowed_tools = ["book"]\n')
    here = ("--tools", "book_tools", "--policy", "book.toml")
    live = ""
    for number, room in enumerate(("1", "1", "none")):
        said = provider.call("book", {"room": room}, f"call_{number}"), provider.text("So be it.")
        provider.say(*map(provider.answer, said))
        live += demiurge("chat", "-m", f"Book {room}.", *here).err
    later = demiurge("chat", "show").out
    for shown in (live, later):
        assert shown.count("(replayed: an equal call was done before)") == 1
        assert shown.count("✗") == 1
        assert "failed (execution): There is no such room." in shown
    calls = [m["tool"] for m in demiurge("--json", "chat", "show").document["messages"] if "tool" in m]
    assert [call["replayed"] for call in calls] == [None, True, None]
    again = demiurge("--json", "tools", "call", "book", '{"room": "1"}', *here).document
    assert again["replayed"]
    assert demiurge("replay", "--check").status == 0
