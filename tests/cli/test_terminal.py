"""A person at a terminal: a real one (a pty), with prompt, approvals, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyte
import pytest
from tests.registry.proposals import proposal_of

from demiurge.values.clock import SystemClock

PATIENCE_NS = 30 * 10**9
ROWS, COLUMNS = 24, 80
KEYS = "y once, a allow in this chat, e edit, n refuse, ? why:"
PROMPT = "chat main · "
"""The beginning of the line below the input line, which is drawn with each prompt."""
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x01\x02]")


class AnsweringScreen(pyte.HistoryScreen):
    """A screen that tells a program where the cursor is, when the program asks."""

    def __init__(self, columns: int, rows: int, answer: Callable[[str], None]) -> None:
        super().__init__(columns, rows, history=5000)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class Terminal:
    """A command on a pseudo-terminal, started by the words of `program`. `expect` waits for text, `type` is the
    person."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        environment: dict[str, str],
        folder: Path,
        columns: int = COLUMNS,
        program: tuple[str, ...] = (sys.executable, "-m", "demiurge.cli"),
    ) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (ROWS, columns))
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(slave)
        self._raw = b""
        self._read_to = 0
        self.screen = AnsweringScreen(columns, ROWS, self.type)
        self._stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        """All that was shown so far, without colours."""
        return ESCAPES.sub(b"", self._raw).decode("utf-8", "replace").replace("\r", "")

    def expect(self, words: str) -> str:
        clock = SystemClock()
        deadline = clock.monotonic_ns() + PATIENCE_NS
        while words not in self.text[self._read_to :]:
            assert clock.monotonic_ns() < deadline, f"{words!r} was not shown, but: {self.text!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self._take(os.read(self._master, 65536))
                except OSError:
                    assert words in self.text[self._read_to :], f"{words!r} was not shown, but: {self.text!r}"
        shown = self.text[self._read_to :]
        self._read_to += shown.index(words) + len(words)
        return shown

    def _take(self, data: bytes) -> None:
        """Shows what the command wrote. The emulator answers where its cursor is, if the command asks."""
        self._raw += data
        self._stream.feed(data)

    @property
    def lines(self) -> list[str]:
        """The lines that a person sees, with those that have scrolled away."""
        past = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in (*past, *self.screen.display)]

    def expect_line(self, beginning: str) -> None:
        """Waits until the emulated terminal shows a line that begins so."""
        clock = SystemClock()
        deadline = clock.monotonic_ns() + PATIENCE_NS
        while not any(line.startswith(beginning) for line in self.lines):
            assert clock.monotonic_ns() < deadline, f"no line begins with {beginning!r}: {self.lines!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                self._take(os.read(self._master, 65536))

    def expect_no_echo(self) -> None:
        """Waits until the terminal no longer shows what is typed."""
        clock = SystemClock()
        deadline = clock.monotonic_ns() + PATIENCE_NS
        while termios.tcgetattr(self._master)[3] & termios.ECHO:
            assert clock.monotonic_ns() < deadline, "the terminal shows what is typed"
            time.sleep(0.01)

    def type(self, line: str) -> None:
        os.write(self._master, line.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def interrupt_prompt(self) -> None:
        """Ctrl-C at the prompt. CPython overlooks one that comes between showing a prompt and waiting for a key."""
        self.expect(PROMPT)
        time.sleep(0.3)
        self.interrupt()

    def settle(self) -> None:
        """Takes what the command still writes, until it has been silent for a second or has ended."""
        with suppress(OSError):
            while select.select([self._master], [], [], 1)[0]:
                self._take(os.read(self._master, 65536))

    def end(self) -> int:
        """Wait for the end, reading on so that nothing blocks."""
        clock = SystemClock()
        deadline = clock.monotonic_ns() + PATIENCE_NS
        while self.process.poll() is None:
            assert clock.monotonic_ns() < deadline, f"it did not end: {self.text!r}"
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    self._take(os.read(self._master, 65536))
                except OSError:
                    break
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str, **given: str) -> Terminal:
        opened.append(Terminal(arguments, {**environment, "TERM": "xterm", **given}, tmp_path))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_a_conversation(terminal: Callable[..., Terminal], provider: Any, demiurge: Any) -> None:
    provider.say(
        provider.answer(provider.call("core__get_current_time", {"timezone": "Asia/Tokyo"})),
        provider.answer(provider.text("It is late.")),
        provider.answer(provider.text("You are welcome.")),
    )
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("What time is it?\n")
    screen.expect("→ core__get_current_time")
    screen.expect("← It is ")
    screen.expect("It is late.")
    screen.expect("tokens in")
    screen.expect(PROMPT)
    screen.type("Thanks\n")
    screen.expect("You are welcome.")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
    assert [m["role"] for m in demiurge("chat", "export").document["messages"]][-2:] == ["user", "assistant"]
    assert b"\x1b[2m" in screen._raw


def test_no_color_is_respected(terminal: Callable[..., Terminal], provider: Any) -> None:
    provider.say(provider.answer(provider.call("core__get_current_time", {})), provider.answer(provider.text("Late.")))
    screen = terminal("chat", "-m", "What time is it?", NO_COLOR="1")
    screen.expect("Late.")
    assert screen.end() == 0
    assert re.search(rb"\x1b\[[0-9;]*m", screen._raw) is None


@pytest.mark.parametrize(
    ("answers", "result"), [(["y"], "← Wrote "), (["", "yep", "n not now"], "✗ rejected: not now")]
)
def test_the_person_decides(
    answers: list[str], result: str, terminal: Callable[..., Terminal], provider: Any, demiurge: Any
) -> None:
    provider.say(
        provider.answer(provider.call("workspace__write", {"path": "a.txt", "text": "hi"})),
        provider.answer(provider.text("Done with that.")),
    )
    screen = terminal("chat", "-m", "write it")
    screen.expect("? workspace__write changes the state of this world (state_change)")
    screen.expect('path  "a.txt"')
    screen.expect('text  "hi"')
    screen.expect("A person is asked because it changes")
    for answer in answers:
        screen.expect(KEYS)
        screen.type(f"{answer}\n")
    screen.expect(result)
    screen.expect("Done with that.")
    assert screen.end() == 0
    if len(answers) > 1:
        records = demiurge("journal", "export", "--json").document["records"]
        [decision] = [record["body"] for record in records if record["kind"] == "approval"]
        assert decision["reason"] == "not now"


def test_an_open_question_is_asked_first_next_time(
    terminal: Callable[..., Terminal], provider: Any, demiurge: Any
) -> None:
    provider.say(
        provider.answer(provider.call("workspace__write", {"path": "a.txt", "text": "hi"})),
        provider.answer(provider.text("Done with that.")),
    )
    first = terminal("chat")
    first.expect(PROMPT)
    first.type("write it\n")
    first.expect(KEYS)
    first.type("\x04")
    first.expect("The call waits: /approve shows it again")
    first.expect(PROMPT)
    first.type("\x04")
    assert first.end() == 0
    second = terminal("chat")
    second.expect("Going on with the last turn: write it")
    second.expect(KEYS)
    second.type("y\n")
    second.expect("Done with that.")
    second.expect(PROMPT)
    second.type("\x04")
    assert second.end() == 0
    assert demiurge("journal", "verify").status == 0


def test_ctrl_c_stops_the_turn_and_the_chat_goes_on(
    terminal: Callable[..., Terminal], provider: Any, demiurge: Any
) -> None:
    provider.say(
        provider.answer(provider.text("Too late."), held=True), provider.answer(provider.text("Quick this time."))
    )
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("Something slow\n")
    assert provider.asked.wait(20)
    screen.interrupt()
    screen.expect("Stopping the turn")
    screen.expect("The turn was stopped")
    screen.expect(PROMPT)
    screen.type("Again\n")
    screen.expect("Quick this time.")
    screen.interrupt_prompt()
    screen.expect("leaves")
    screen.interrupt_prompt()
    assert screen.end() == 0
    assert demiurge("journal", "verify").document["ok"] is True
    assert demiurge("replay").document["ok"] is True


def test_a_second_ctrl_c_leaves_and_the_next_run_works(
    terminal: Callable[..., Terminal], provider: Any, demiurge: Any
) -> None:
    provider.say(provider.answer(provider.text("Slow."), held=True), provider.answer(provider.text("Quick.")))
    screen = terminal("chat", "-m", "Something slow")
    assert provider.asked.wait(20)
    screen.interrupt()
    screen.expect("Stopping the turn")
    screen.interrupt()
    assert screen.end() == 1
    assert "Traceback" not in screen.text
    assert demiurge("journal", "verify").document["ok"] is True
    assert "Quick." in demiurge("chat", "-m", "Again").out
    assert demiurge("replay").document["ok"] is True


def test_nothing_in_a_call_can_hide_from_the_person_who_decides(
    terminal: Callable[..., Terminal], provider: Any
) -> None:
    hidden = '{"path":"a.txt",' + "\n" * 80 + '"text":"\u009b2J\u202eevil\u200b\x7f"}'
    call = {"type": "function_call", "call_id": "c1", "name": "workspace__write", "arguments": hidden}
    provider.say(provider.answer(call))
    screen = terminal("chat", "-m", "write it")
    shown = screen.expect(KEYS)
    assert "│   ⟨U+009B⟩2J⟨U+202E⟩evil⟨U+200B⟩⟨U+007F⟩" in shown
    assert not set("\u009b\u202e\u200b") & set(screen.text)
    screen.type("\x04")
    screen.end()


def test_a_link_in_place_of_the_history_is_not_written_through(
    terminal: Callable[..., Terminal], world: Path, tmp_path: Path, demiurge: Any
) -> None:
    demiurge("init")
    other = tmp_path / "profile"
    other.write_text("export A=1\n")
    (world / "history").symlink_to(other)
    screen = terminal("chat")
    screen.expect("history is a link")
    assert screen.end() == 1
    assert other.read_text() == "export A=1\n"


def test_the_history_is_private(terminal: Callable[..., Terminal], provider: Any, world: Path) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    screen = terminal("chat")
    screen.expect(PROMPT)
    screen.type("hi\n")
    screen.expect("Hello.")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
    assert "hi" in (world / "history").read_text()
    assert (world / "history").stat().st_mode & 0o777 == 0o600


def test_a_secret_is_asked_for_and_not_shown(
    terminal: Callable[..., Terminal], demiurge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_API_KEY")
    screen = terminal("secrets", "set", "llm/api")
    screen.expect("Value of llm/api:")
    screen.expect_no_echo()
    screen.type("canary-0123456789\n")
    assert screen.end() == 0
    assert "canary" not in screen.text
    rows = demiurge("secrets", "ls", "--json").document["secrets"]
    assert [row["alias"] for row in rows if row["state"] == "found"] == ["llm/api"]


def test_a_manifest_from_elsewhere_is_asked_about(
    terminal: Callable[..., Terminal], demiurge: Any, tmp_path: Path
) -> None:
    shutil.copytree(Path(__file__).parents[2] / "src/demiurge/apps/demiurge/air", tmp_path / "air")
    (tmp_path / "air/tools.json").write_text('{"$kind": "manifest", "tool_policy": {"allowed_tools": ["a", "b"]}}')
    assert demiurge("init", "--manifest", "air").status == 0
    shutil.copytree(tmp_path / "world", tmp_path / "copy")
    for answer, status, adopted in (("n", 1, False), ("y", 0, True)):
        screen = terminal("-w", "copy", "manifest", "adopt")
        screen.expect("it allows 2 tools")
        screen.expect("Take it?")
        screen.type(f"{answer}\n")
        assert screen.end() == status
        assert ("already" in demiurge("-w", "copy", "manifest", "adopt").out) is adopted


def test_a_judgement_shows_what_it_is_about_and_asks(
    terminal: Callable[..., Terminal], demiurge: Any, tmp_path: Path
) -> None:
    by_eye = {"id": "by_eye", "should": "pass", "check": "Look at it."}
    given = proposal_of(testCases=[*proposal_of()["testCases"], by_eye])
    (tmp_path / "proposal.json").write_text(json.dumps(given))
    made = demiurge("tools", "propose", f"@{tmp_path / 'proposal.json'}", "--json").document
    verdict = terminal("tools", "test", made["id"], "--case", "by_eye", "--pass", "--note", "I looked at it.")
    verdict.expect(made["digest"])
    verdict.expect("say that by_eye passed")
    verdict.expect("y or n: ")
    verdict.type("y\n")
    verdict.expect("It is recorded.")
    assert verdict.end() == 0
    skip = terminal("tools", "review", made["id"], "--skip", "--reason", "A test.")
    skip.expect("skip the review")
    skip.expect("y or n: ")
    skip.type("n\n")
    skip.expect("Nothing was decided.")
    assert skip.end() == 1
    found = demiurge("tools", "review", made["id"], "--json").document
    assert (found["state"], [each["case"] for each in found["verdicts"]]) == ("chief_review", ["by_eye"])
