"""What was handed to an effect is in nothing that comes of it."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.injection import MASK, Injections
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.events import AiEvent, TextDelta
from demiurge.world.watching.masking import Masking

CANARY = "canary/0123+456789=%"


def injections_of(*values: str) -> Injections:
    made = Injections()
    for number, value in enumerate(values):
        made.add({"alias": f"a/{number}", "version": 1}, Secret(value))
    return made


SPELLINGS = [
    CANARY,
    quote(CANARY),
    quote(CANARY, safe=""),
    quote(CANARY, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
    CANARY.encode().hex(),
    CANARY.encode().hex().upper(),
    json.dumps(CANARY),
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(before=st.text(), after=st.text())
def test_no_spelling_gets_through(spelling: str, before: str, after: str) -> None:
    shown = injections_of(CANARY).masked(before + spelling + after)
    assert spelling not in shown
    assert MASK in shown
    assert spelling.encode() not in injections_of(CANARY).masked_bytes((before + spelling + after).encode())


@given(before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_base64_of_a_longer_text_gives_nothing_away(before: bytes, after: bytes) -> None:
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(before + CANARY.encode() + after)
        assert len(injections_of(CANARY).masked_bytes(whole)) <= len(whole) - 4 * len(CANARY) // 3 + len(MASK) + 1


def test_every_text_of_a_payload_is_searched_and_its_shape_stays() -> None:
    payload = {"a": [CANARY, 1, None], CANARY: {"b": f"x{CANARY}y"}, "c": CANARY.encode(), "d": True}
    expected = {"a": [MASK, 1, None], MASK: {"b": f"x{MASK}y"}, "c": MASK.encode(), "d": True}
    assert injections_of(CANARY).masked(payload) == expected
    assert injections_of(CANARY).masked(TextDelta(CANARY)) == TextDelta(MASK)


def test_one_secret_may_be_the_beginning_of_another() -> None:
    shown = injections_of(CANARY, CANARY + CANARY).masked(f"{CANARY}{CANARY} {CANARY}")
    assert "canary" not in shown


def test_without_secrets_and_for_short_ones_all_stays_as_it_is() -> None:
    payload = {"text": f"ollama and {CANARY}"}
    assert Injections().masked(payload) is payload
    assert injections_of("ollama").masked(payload) == payload


def test_neither_shows_nor_travels() -> None:
    made = injections_of(CANARY)
    assert CANARY not in repr(made) + repr(made.journaled)
    with pytest.raises(TypeError):
        made.__reduce_ex__(2)


def test_a_short_value_is_masked_as_a_word_only() -> None:
    masked = injections_of("k9").masked
    assert masked("k9 mark9 k9s: 'k9'") == f"{MASK} mark9 k9s: '{MASK}'"
    assert masked(b"k9 mark9") == f"{MASK} mark9".encode()


def test_a_plain_word_is_no_secret() -> None:
    assert injections_of("none").masked("there are none left") == "there are none left"


@pytest.mark.parametrize("text", ["k9", "a k9", "k9 b", "mark9 k9s k9.", "xk9", "k9k9", "k-9 k9", "k9,k9"])
def test_a_short_value_in_pieces_is_masked_like_the_whole(text: str) -> None:
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            pieces = text[:first], text[first:second], text[second:]
            assert shown_of(pieces) == injections_of("k9").masked(text), pieces


def shown_of(pieces: Iterable[str]) -> str:
    shown: list[AiEvent] = []
    with Masking(injections_of("k9"), shown.append) as masking:
        for piece in pieces:
            masking.see(TextDelta(piece))
    return "".join(event.delta for event in shown if isinstance(event, TextDelta))
