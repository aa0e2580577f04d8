"""What a person may read holds no secret that this process knows, however it is written."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from demiurge.capabilities.injection import Injections
from demiurge.models.scrub import scrub
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


LONGEST = "k9-abc!4711"  # 11 characters


@pytest.mark.parametrize("short", ["quokka", "k9-abc", LONGEST], ids=len)
@pytest.mark.parametrize("known", ["environment", "given"])
def test_a_secret_shorter_than_12_characters_is_masked_as_a_whole_word_only(short: str, known: str) -> None:
    def shown(text: str) -> str:
        if known == "environment":
            return masked(text, {"MY_TOKEN": short}).replace("[MY_TOKEN]", "[secret]")
        return masked(text, {}, [Secret(short)])

    assert shown(f"a{short} {short}s ä{short}") == f"a{short} {short}s ä{short}"
    assert shown(f"{short}: '{short}', x={short}") == "[secret]: '[secret]', x=[secret]"
    assert shown("".join(f"%{byte:02X}" for byte in short.encode())) == "(withheld: it quotes a secret)"


def test_a_secret_of_12_characters_is_masked_anywhere() -> None:
    assert masked(f"a{LONGEST}xs", {"MY_TOKEN": f"{LONGEST}x"}) == "a[MY_TOKEN]s"


def test_a_secret_of_any_length_that_is_given_is_masked() -> None:
    assert masked("pin 4711, not 47110", {}, [Secret("4711")]) == "pin [secret], not 47110"


def test_a_secret_that_is_a_word_of_its_label_does_not_withhold_the_text() -> None:
    assert masked("the secret is out", {}, [Secret("secret")]) == "the [secret] is out"


def test_every_masker_has_the_same_rule() -> None:
    text = f"a{LONGEST} {LONGEST}s {LONGEST}. ä{LONGEST}"
    injections = Injections()
    injections.add({"alias": "a", "version": 1}, Secret(LONGEST))
    found = {
        scrub(text, LONGEST).replace("[key]", "[secret]"),
        masked(text, {}, [Secret(LONGEST)]),
        injections.masked_text(text),
        injections.masked_bytes(text.encode()).decode(),
    }
    assert found == {f"a{LONGEST} {LONGEST}s [secret]. ä{LONGEST}"}


def test_each_line_of_a_key_of_several_is_masked() -> None:
    pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----"
    shown = masked("  | MIIEvQIBADANBgkqhkiG\n  | 9w0BAQEFAASCBKcwggSj", {"MY_KEY": pem})
    assert "MII" not in shown
    assert "9w0" not in shown
