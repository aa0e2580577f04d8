"""A person at a real pseudo-terminal: keys, pastes, signals, terminals that can do little."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.test_terminal import KEYS, PROMPT, Terminal, terminal
from tests.provider import Provider

from demiurge.cli.terminal.keyboard import LOCAL_MODES, without_echo

__all__ = ["terminal"]

WRITE = Provider.call("workspace__write", {"path": "a.txt", "text": "hi"})
PASTE = "\x1b[200~first line\nsecond line\n\x1b[201~"


def said(provider: Any) -> list[str]:
    """Returns the messages that the model got with its last request."""
    return [item["content"][0]["text"] for item in provider.seen[-1]["input"] if item.get("role") == "user"]


def test_a_paste_and_lines_with_a_backslash_are_one_message(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(Provider.text("Two lines.")))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type(f"{PASTE}and more\r")
    screen.expect("Two lines.")
    screen.expect(PROMPT)
    screen.type("one\\\rtwo\x1b\rthree\r")
    screen.expect("Two lines.")
    screen.expect(PROMPT)
    screen.type("\x1b[A\r")  # the line before, from the history
    screen.expect("Two lines.")
    assert said(provider) == ["first line\nsecond line\nand more", "one\ntwo\nthree", "one\ntwo\nthree"]
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0


def test_keys_typed_before_the_card_decide_nothing(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(WRITE, held=True), Provider.answer(Provider.text("As you like.")))
    screen = terminal("chat", "-m", "write it")
    assert provider.asked.wait(30)
    screen.type("y\ny\n")
    provider.let_go.set()
    screen.expect(KEYS)
    screen.type("\n")
    screen.expect("Type y, a, e, n or ?")
    screen.expect(KEYS)
    screen.type("n no\n")
    screen.expect("rejected")
    assert screen.end() == 0


def test_keys_pasted_behind_a_message_decide_nothing(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("As you like.")))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("write it\ry\ry\r")  # a terminal that does not mark pastes: one read takes all three lines
    screen.expect(KEYS)
    screen.type("\r")
    screen.expect("Type y, a, e, n or ?")
    screen.expect(KEYS)
    screen.type("n no\r")
    screen.expect("rejected")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0


def test_ctrl_c_at_the_card_stops_the_turn(terminal: Callable[..., Terminal], provider: Any, demiurge: Any) -> None:
    provider.say(Provider.answer(WRITE))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("write it\r")
    screen.expect(KEYS)
    screen.type("\x03")
    screen.expect("The turn was stopped")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
    assert demiurge("--json", "approvals", "ls").document == {"approvals": []}
    assert demiurge("journal", "verify").document["ok"] is True


def test_a_killed_terminal_asks_again(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("It is written.")))
    killed = terminal("chat", "-m", "write it")
    killed.expect(KEYS)
    killed.process.kill()
    again = terminal("chat")
    again.expect("Going on with the last turn: write it")
    again.expect(KEYS)
    again.type("y\r")
    again.expect("It is written.")
    again.expect(PROMPT)
    again.type("/quit\r")
    assert again.end() == 0


def test_a_terminal_that_can_only_print_is_enough(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(WRITE), Provider.answer(Provider.text("It **is** written.")))
    screen = terminal("chat", TERM="dumb")
    screen.expect("> ")
    screen.type("write it\n")
    screen.expect('path  "a.txt"')
    screen.expect(KEYS)
    screen.type("y\n")
    screen.expect("It **is** written.")
    screen.expect("> ")
    screen.type("/tools\n")
    screen.expect("workspace__write")
    screen.expect("> ")
    screen.type("\x04")
    assert screen.end() == 0
    assert re.search(rb"\x1b", screen._raw) is None


def test_slash_commands_are_completed(terminal: Callable[..., Terminal], provider: Any, tmp_path: Any) -> None:
    (tmp_path / "photograph.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("/att\t")
    screen.expect_line("> /attach")
    screen.type(" photo\t")
    screen.expect_line("> /attach photograph.png")
    screen.type("\r")
    screen.expect("With the next message: photograph.png")
    screen.expect("1 file attached")
    screen.type("/why workspace__w\t")
    screen.expect_line("> /why workspace__write")
    screen.type("\r")
    screen.expect("workspace__write (state_change): require_approval")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
    assert provider.seen == []


@pytest.mark.parametrize("words", [("journal", "verify"), ("approvals", "ls"), ("tools", "ls"), ("chat", "ls")])
def test_other_commands_import_no_terminal_libraries(words: tuple[str, ...], demiurge: Any) -> None:
    demiurge("init")
    code = (
        "import sys\nfrom demiurge.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted({'rich', 'prompt_toolkit', 'pygments', 'markdown_it'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_and_one_turn_for_a_pipe_import_no_terminal_libraries(demiurge: Any, provider: Any) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    code = (
        "import sys, demiurge\nfrom demiurge.cli import main\n"
        "for words in (['--help'], ['chat', '--help'], ['chat', '-m', 'Hello?']):\n"
        "    try:\n        main(words)\n    except SystemExit:\n        pass\n"
        "print(sorted({'rich', 'prompt_toolkit', 'pygments', 'markdown_it'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert "Hello." in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_second_ctrl_c_during_a_turn_leaves_the_talk(
    terminal: Callable[..., Terminal], provider: Any, demiurge: Any
) -> None:
    provider.say(Provider.answer(Provider.text("Slow."), held=True))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("Something slow\r")
    assert provider.asked.wait(30)
    screen.interrupt()
    screen.expect("Stopping the turn")
    screen.interrupt()
    while screen.process.poll() is None:  # the turn may have been stopped before the second one came
        screen.type("\x04")
        screen.settle()
    assert screen.process.returncode == 0
    assert "Traceback" not in screen.text
    assert demiurge("journal", "verify").document["ok"] is True


def test_keys_typed_during_a_turn_stay_if_ctrl_c_comes_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(master, "wb"), os.fdopen(slave) as keyboard:
        monkeypatch.setattr(sys, "stdin", keyboard)
        before = termios.tcgetattr(slave)
        with without_echo():
            modes = termios.tcgetattr(slave)[LOCAL_MODES]
            assert (modes & termios.ECHO, bool(modes & termios.NOFLSH), bool(modes & termios.ISIG)) == (0, True, True)
        assert termios.tcgetattr(slave) == before


def test_keys_typed_during_a_turn_are_in_the_next_input_line(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(Provider.answer(Provider.text("Slow."), held=True))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("Something slow\r")
    assert provider.asked.wait(30)
    screen.expect("thinking")
    screen.type("next words")
    provider.let_go.set()
    screen.expect_line("> next words")
