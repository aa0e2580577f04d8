"""A person at a terminal who talks with the world of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.cli.test_served_world import Server, server
from tests.cli.test_terminal import KEYS, PROMPT, Terminal, terminal
from tests.provider import Provider

__all__ = ["server", "terminal"]


def test_a_person_decides_on_a_call_of_the_served_world(
    terminal: Callable[..., Terminal], server: Server, provider: Any
) -> None:
    written = Provider.call("workspace__write", {"path": "a.txt", "text": "hello"})
    provider.say(Provider.answer(written), Provider.answer(Provider.text("Written.")))
    screen = terminal("-w", server.url, "--token", server.token, "chat")
    screen.expect(PROMPT)
    screen.type("Write it\r")
    screen.expect(KEYS)
    screen.type("y\n")
    screen.expect("Written.")
    screen.expect(PROMPT)
    screen.type("/trace\r")
    screen.expect("workspace__write")
    screen.expect(PROMPT)
    screen.type("\x04")
    assert screen.end() == 0
    assert server("ws", "cat", "main/a.txt").out == "hello"
    assert server.token not in screen.text
