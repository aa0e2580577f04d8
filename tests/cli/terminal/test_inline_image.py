"""Images in a terminal: only where the environment names one that shows them, and never bytes that are no image."""

from __future__ import annotations

import base64
import re

import pytest

from demiurge.cli.terminal.inline_image import MOST_BYTES, PNG, inline_image, protocol_of


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "dumb", "TERM_PROGRAM": "iTerm.app"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, None),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"}, None),
        ({}, None),
    ],
)
def test_only_a_terminal_that_is_known_gets_images(environment: dict[str, str], protocol: str | None) -> None:
    assert protocol_of(environment) == protocol


def test_an_image_is_sent_whole_in_base64() -> None:
    data = PNG + bytes(range(256)) * 40
    pieces = re.findall(r"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", inline_image(data, "kitty"))
    assert base64.b64decode("".join(text for _, text in pieces)) == data
    assert [terms[-3:] for terms, _ in pieces] == ["m=1"] * (len(pieces) - 1) + ["m=0"]
    [text] = re.findall(r"\x1b\]1337;[^:]*:([A-Za-z0-9+/=]*)\x07", inline_image(data, "iterm"))
    assert base64.b64decode(text) == data


@pytest.mark.parametrize("data", [b"", b"\x1b[2J", b"<svg/>", PNG + bytes(MOST_BYTES)], ids=range(4))
def test_bytes_that_are_no_image_or_too_many_are_not_sent(data: bytes) -> None:
    assert inline_image(data, "kitty") == inline_image(data, "iterm") == ""
