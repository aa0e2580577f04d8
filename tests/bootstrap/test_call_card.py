"""The words of a card: who asks, and why a person is asked."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.bootstrap.call_card import call_card
from demiurge.values.caller import Caller

USER = Caller("user:ada", roles=("user",))
NODE: dict[str, Any] = {
    "toolset": [],
    "tool_policy": {"allowed_tools": [], "require_approval_for_tools": ["send"]},
}


@pytest.mark.parametrize(
    ("unit", "asker"),
    [
        ("demiurge/Demiurge@1/c1", ""),
        ("demiurge/Calls@1/mcp-2a00", "An MCP client of agent:laptop"),
        ("demiurge/Calls@1/call_1", "agent:laptop, outside of any chat,"),
    ],
)
def test_a_card_names_the_asker_and_never_a_unit(unit: str, asker: str) -> None:
    card = call_card(NODE, {"unit": unit, "tool": "send", "actor": "agent:laptop"}, USER)
    assert card.asker == asker
    assert card.why == "A person is asked because the tool is not in the world's toolset."
    tainted = call_card(NODE, {"unit": unit, "tool": "send", "tainted": ["page"]}, USER)
    assert tainted.why.startswith(
        "A person is asked because this turn has read text from page, which is not trusted, and"
    )


def test_a_card_has_the_name_that_a_client_of_the_gateway_gives_itself_and_the_one_of_its_token() -> None:
    call = {"unit": "demiurge/Calls@1/mcp-2a00", "tool": "send", "actor": "agent:laptop"}
    for name, asker in (
        ("claude-desktop", 'The MCP client "claude-desktop" of agent:laptop'),
        ('x" of user:ada', 'The MCP client "x\' of user:ada" of agent:laptop'),
        ("\u202ex", 'The MCP client "⟨U+202E⟩x" of agent:laptop'),
    ):
        assert call_card(NODE, {**call, "client": name}, USER).asker == asker
    assert "… (400 characters)" in call_card(NODE, {**call, "client": "n" * 400}, USER).asker


def test_names_on_a_card_are_cut_and_hide_nothing() -> None:
    call = {"unit": "demiurge/Calls@1/mcp-2a00", "tool": "send", "actor": "a\u202e" * 300, "tainted": ["b\u202e" * 300]}
    card = call_card(NODE, call, USER)
    for words, name in ((card.asker, "a"), (card.why, "b")):
        assert f"{name}⟨U+202E⟩{name}⟨U+202E⟩" in words
        assert "… (600 characters)" in words
        assert "\u202e" not in words
