"""Where a chat asks: one address a chat, the latest ones, and none that may hold a key."""

from __future__ import annotations

import pytest

from demiurge.bootstrap.chat_address import MOST, ModelAddress, address_of_chat, with_address

THERE = "http://127.0.0.1:11434/v1"


def test_a_chat_has_the_address_that_it_was_told_last() -> None:
    kept = with_address((), "main", "local", THERE)
    kept = with_address(kept, "other", "local", THERE)
    kept = with_address(kept, "main", "openai-chat", f"{THERE}/2")
    assert address_of_chat(kept, "main") == ModelAddress("main", "openai-chat", f"{THERE}/2")
    assert address_of_chat(kept, "other") == ModelAddress("other", "local", THERE)
    assert address_of_chat(with_address(kept, "main", "local", None), "main") is None
    assert address_of_chat(kept, "third") is None


def test_the_latest_chat_addresses_are_kept() -> None:
    kept: tuple[ModelAddress, ...] = ()
    for number in range(MOST + 1):
        kept = with_address(kept, str(number), "local", THERE)
    assert [address.chat for address in kept] == [str(number) for number in range(1, MOST + 1)]


@pytest.mark.parametrize(
    "url",
    [
        "http://me:key@host/v1",
        "http://key@host",
        "http://host/?key=x",
        "http://host/#key",
        "http://[",
        "http://host/" + "x" * 600,
    ],
)
def test_an_address_that_may_hold_a_key_is_not_kept(url: str) -> None:
    earlier = with_address((), "main", "local", THERE)
    assert with_address(earlier, "main", "local", url) == ()
