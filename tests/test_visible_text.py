"""Names that others chose, as a person who decides sees them."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.mcp.gateway.port import AskedQuestion, Waiting
from demiurge.mcp.gateway.questions import client_requests
from demiurge.visible_text import INVISIBLE, LONGEST_NAME, visible_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Shop", "Shop"),
        ("Läden für Ö", "Läden für Ö"),
        ("pay\u202egnp.exe", "pay⟨U+202E⟩gnp.exe"),
        ("two\nlines\tand\x1b[2J", "two⟨U+000A⟩lines⟨U+0009⟩and⟨U+001B⟩[2J"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("x" * 120, "x" * 120),
        ("x" * 480, "x" * 120 + "… (480 characters)"),
        ("\u202e" * 480, "⟨U+202E⟩" * 15 + "… (480 characters)"),
        ("z" + "\u0301" * 200, "z" + "\u0301" * 4 + "⟨U+0301⟩" * 14 + "… (201 characters)"),
    ],
)
def test_a_name_is_short_and_hides_nothing(name: str, shown: str) -> None:
    assert visible_name(name) == shown
    assert INVISIBLE.search(visible_name(name)) is None
    assert len(visible_name(name).partition("… (")[0]) <= LONGEST_NAME


def test_a_form_of_a_client_shows_who_asks_in_few_characters() -> None:
    title = "Seat \u202e" + "x" * 400
    field: dict[str, Any] = {"name": "seat", "kind": "text", "title": title, "description": "", "required": True}
    field |= {"choices": [], **dict.fromkeys(("default", "least", "most", "format"))}
    question = AskedQuestion("q", "Which seat?", fields=[field])
    waiting = Waiting("id", "book", may_decide=True, questions=[question], asker="The server " + "y" * 400)
    message = str(client_requests(waiting, {}))
    assert "y" * 200 not in message
    assert "x" * 200 not in message
    assert "Seat ⟨U+202E⟩" in message
    assert "Which seat?" in message
