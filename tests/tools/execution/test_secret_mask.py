"""What a person may read holds no secret that this process knows, however it is written."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from demiurge.tools.connections.credentials import Secret
from demiurge.tools.execution.secret_mask import masked, secrets_of

KEY = "sk-live/4711+äpfel&birnen"
ENVIRONMENT = {"SHOP_API_KEY": KEY, "HOME": "/home/ada", "SHORT_TOKEN": "abc", "EMPTY_PASSWORD": " "}

WRITTEN = {
    "plain": KEY,
    "json": json.dumps(KEY),
    "url": quote(KEY, safe=""),
    "url twice": quote(quote(KEY, safe=""), safe=""),
    "base64": base64.b64encode(f"ada:{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("known", ["environment", "given"])
def test_a_secret_is_masked_in_every_spelling(form: str, known: str) -> None:
    text = f"could not log in with {WRITTEN[form]}, sorry"
    shown = masked(text, ENVIRONMENT) if known == "environment" else masked(text, {}, [Secret(KEY)])
    assert WRITTEN[form] not in shown
    assert KEY not in shown
    assert "sk-live" not in shown


def test_the_place_of_a_secret_names_it() -> None:
    assert masked(f"key {KEY}!", ENVIRONMENT) == "key [SHOP_API_KEY]!"
    assert masked(f"key {KEY}!", {}, [Secret(KEY)]) == "key [secret]!"


def test_a_text_that_can_be_undone_to_a_secret_is_withheld() -> None:
    assert masked(quote(quote(KEY, safe=""), safe=""), ENVIRONMENT) == "(withheld: it quotes a secret)"


def test_a_user_and_a_password_are_cut_out_of_an_address() -> None:
    assert masked("at https://ada:pass@example.com/x", {}) == "at https://example.com/x"


def test_short_values_are_words() -> None:
    assert masked("abcdef in connection", ENVIRONMENT, [Secret("c")]) == "abcdef in connection"
    assert secrets_of(ENVIRONMENT) == {KEY: "[SHOP_API_KEY]"}


def test_each_line_of_a_key_of_several_is_masked() -> None:
    pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----"
    shown = masked("  | MIIEvQIBADANBgkqhkiG\n  | 9w0BAQEFAASCBKcwggSj", {"MY_KEY": pem})
    assert "MII" not in shown
    assert "9w0" not in shown
