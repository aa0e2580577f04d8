"""A secret is found in every spelling that it gets by accident, and nothing else is taken for it."""

from __future__ import annotations

import base64
import copy
import json
import quopri
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge.tools import Credentials, Secret
from demiurge.tools.connections.leak import LeakWatch

CANARY = 'canary/9b1d+"tok'
WATCH = LeakWatch([Secret(CANARY)])

secrets = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=8, max_size=40)
around = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize(
    "spelled",
    [
        CANARY,
        json.dumps({"t": CANARY}),
        quote(CANARY),
        quote(CANARY, safe=""),
        quote(CANARY, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        quote_plus(CANARY),
        "%63" + CANARY[1:],
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode(),
        Credentials(CANARY, username="ada").headers()["Authorization"],
        Credentials(CANARY, username="adam").headers()["Authorization"],
        Credentials(CANARY, username="ada m").headers()["Authorization"],
        CANARY.encode().hex(),
        json.dumps({"t": CANARY}).replace("/", "\\/"),
        "".join(f"\\u{ord(letter):04X}" for letter in CANARY),
        CANARY.replace("+", "\\u002b"),
        json.dumps(json.dumps(json.dumps({"t": CANARY}))),
        quote(quote(CANARY, safe=""), safe=""),
        quote(json.dumps({"t": CANARY}).replace("/", "\\/")),
        json.dumps(quote_plus(quote_plus(CANARY))),
        quopri.encodestring(f"{'x' * 60} {CANARY}==".encode()).decode(),
        json.dumps(quopri.encodestring(f"{'x' * 60} {CANARY}".encode()).decode()),
        quopri.encodestring(CANARY.encode(), quotetabs=True).decode().replace("+", "=2B"),
        CANARY.encode().hex().upper(),
    ],
)
def test_each_spelling_is_found(spelled: str) -> None:
    assert WATCH.finds("nothing here", f"before {spelled} after")
    assert not LeakWatch([Secret("another-secret")]).finds(f"before {spelled} after")


@settings(deadline=None)
@given(secrets, around, around)
def test_a_secret_is_found_anywhere_in_a_text_and_in_every_encoding(secret: str, before: str, after: str) -> None:
    watch = LeakWatch([Secret("first-secret"), Secret(secret)])
    text = before + secret + after
    assert watch.finds(text)
    assert watch.finds(json.dumps({"text": text}))
    assert watch.finds(json.dumps({"text": text}, ensure_ascii=False))
    assert watch.finds(before + quote_plus(secret) + after)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert watch.finds(encode(text.encode()).decode())


def test_a_secret_with_spaces_is_found_in_a_form() -> None:
    watch = LeakWatch([Secret("abcd efgh ijkl")])
    assert watch.finds(f"password={quote_plus('abcd efgh ijkl')}&x=1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "an ordinary answer",
        "\\u",
        "\\ud83d",
        "\\q",
        "=",
        "=ZZ",
        "=\n",
        "100% of 3+4",
        "%zz%",
        "%",
        CANARY[:-1],
        CANARY.upper(),
        "eyJ0IjogMX0=",
    ],
)
def test_nothing_else_is_taken_for_it(text: str) -> None:
    assert not WATCH.finds(text)


def test_a_short_secret_is_looked_for_as_it_is_only() -> None:
    watch = LeakWatch([Secret("k3y")])
    assert watch.finds("a k3y!")
    assert not watch.finds(base64.b64encode(b"k3y").decode())


def test_without_a_secret_there_is_nothing_to_find() -> None:
    assert not LeakWatch(()).finds("", "text")


def test_a_leak_watch_does_not_show_its_secrets_and_can_not_be_copied() -> None:
    assert CANARY not in repr(WATCH) + repr([getattr(WATCH, name) for name in WATCH.__slots__])
    with pytest.raises(TypeError):
        copy.copy(WATCH)
