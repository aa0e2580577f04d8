"""Two terminals on one chat: one talks, the other looks on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.cli.world import visits


def lines_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """What it prints, up to the line `wanted`."""
    assert process.stdout is not None
    lines: list[str] = []
    while wanted not in lines:
        line = process.stdout.readline()
        assert line, f"{wanted!r} was not printed, but: {lines}"
        lines.append(line.rstrip("\n"))
    return lines


def test_a_watcher_sees_earlier_messages_and_each_turn_as_it_goes_on(process: Any, provider: Any) -> None:
    time = provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"})
    provider.say(
        provider.answer(provider.text("Good morning.")),
        provider.answer(time),
        provider.answer(provider.text("It is late in Tokyo."), held=True),
    )
    talking = process.start("chat", stdin=subprocess.PIPE)
    talking.stdin.write("Hello\n")
    talking.stdin.flush()
    assert "Good morning." in lines_until(talking, "Good morning.")

    following = process.start("chat", "show", "--follow")
    assert lines_until(following, "Good morning.") == ["> Hello", "", "Good morning."]
    talking.stdin.write("What time is it in Tokyo?\n")
    talking.stdin.flush()
    lines_until(following, "> What time is it in Tokyo?")
    lines_until(following, '→ core__get_current_time {"timezone":"Asia/Tokyo"}')
    provider.let_go.set()
    *before, answer = lines_until(following, "It is late in Tokyo.")
    assert any(line.startswith("← It is ") for line in before)

    provider.say(provider.answer(provider.text("Again and again.")))
    talking.stdin.write("And now?\n")
    talking.stdin.flush()
    shown = lines_until(following, "Again and again.")
    assert "> And now?" in shown
    assert answer not in shown

    following.send_signal(signal.SIGINT)
    left = process.finish(following)
    assert (left.status, left.err) == (0, "")
    assert process.finish(talking, "").status == 0


def test_a_turn_that_is_stopped_is_shown_as_such(process: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Slow."), held=True))
    talking = process.start("chat", "-m", "Think hard.")
    assert provider.asked.wait(20)
    following = process.start("chat", "show", "-f")
    lines_until(following, "> Think hard.")
    talking.send_signal(signal.SIGINT)
    lines_until(following, "(failed: The turn was stopped.)")
    process.finish(talking)
    following.send_signal(signal.SIGINT)
    process.finish(following)


def test_messages_cannot_steer_the_terminal_of_a_watcher(process: Any, provider: Any, demiurge: Any) -> None:
    provider.say(
        provider.answer(provider.text("red \x1b[31m and \u202eback")), provider.answer(provider.text("There."))
    )
    demiurge("chat", "-m", "hello \x1b]0;you\x07")
    following = process.start("chat", "show", "-f")
    shown = lines_until(following, "red \N{REPLACEMENT CHARACTER}[31m and \N{REPLACEMENT CHARACTER}back")
    demiurge("chat", "-m", "again \x1b[2J")
    shown += lines_until(following, "There.")
    assert "\x1b" not in "".join(shown)
    following.send_signal(signal.SIGINT)
    process.finish(following)


def test_a_watcher_never_becomes_the_owner(process: Any, provider: Any, demiurge: Any) -> None:
    provider.say(provider.answer(provider.text("One.")), provider.answer(provider.text("Two.")))
    demiurge("chat", "-m", "Hello")
    following = process.start("chat", "show", "-f")
    lines_until(following, "One.")
    talked = demiurge("chat", "-m", "Again", "--base-url", provider.url)
    assert talked.status == 0, talked.err
    assert talked.out.startswith("Two.")
    assert "Another process" not in talked.err
    lines_until(following, "Two.")
    following.send_signal(signal.SIGINT)
    process.finish(following)


def test_a_change_right_after_a_poll_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody talks between the moment in which one who looks on lets the world go and the next thing that it does."""
    journal = tmp_path / "journal.db"
    journal.write_text("")

    @contextmanager
    def opened(**_: Any) -> Iterator[Any]:
        yield SimpleNamespace(world=SimpleNamespace(joined=False))
        journal.write_text("a turn")
        os.utime(journal, ns=(1, time.time_ns()))

    def waits(_seconds: float) -> None:
        raise AssertionError("it waits for another change, and has not seen this one")

    monkeypatch.setattr(
        "demiurge.cli.world.settings", lambda: SimpleNamespace(folder=lambda: tmp_path, url=lambda: None)
    )
    monkeypatch.setattr("demiurge.cli.world.opened", opened)
    monkeypatch.setattr("demiurge.cli.world.time.sleep", waits)
    looks = visits()
    next(looks)
    next(looks)


def test_following_is_no_document(demiurge: Any) -> None:
    assert demiurge("--json", "chat", "show", "--follow").status == 2
