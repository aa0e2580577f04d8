"""Which other bytes hold or quote the words of a message."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demiurge.values import canonical_json, cbor
from demiurge.world.messages import user_blob
from demiurge.world.retention.words import ErasedWords

TEXTS = st.text(min_size=8, max_size=60)


def words_of_message(text: str) -> ErasedWords:
    return ErasedWords.of(user_blob(text))


@given(TEXTS)
@example('00000"\\\x1f0')
def test_a_copy_is_found_in_every_form_in_which_it_may_be_stored(text: str) -> None:
    words = words_of_message(text)
    if not words.texts or len(words.texts[0]) < 8:
        return
    forms = [
        text.encode(),
        canonical_json.encode({"content": text}),
        canonical_json.encode({"content": canonical_json.encode({"text": text}).decode()}),
        json.dumps({"content": json.dumps({"text": text})}).encode(),
        cbor.encode(["before", text, "after"]),
    ]
    assert [words.copied_in(form) for form in forms] == [True] * len(forms)
    assert [words.may_stand_in(form) for form in forms] == [True] * len(forms)


@pytest.mark.parametrize("first", "bfnrtux0")
@pytest.mark.parametrize("length", [92, 0x015C, 0x5C01, 0x5C75, 0x1005C, 0x15C75])
def test_a_length_in_front_of_a_copy_is_no_escape(length: int, first: str) -> None:
    text = (first + "0041 is the key " * length)[: length - 1] + "x"
    assert len(text.encode()) == length
    for form in (["before", text, "after"], {"text": text}, [text.encode()]):
        assert words_of_message(text).copied_in(cbor.encode(form))


@given(TEXTS, st.text(max_size=20), st.text(max_size=20))
def test_a_quick_look_misses_nothing_that_a_thorough_one_finds(text: str, before: str, after: str) -> None:
    words = words_of_message(text)
    for said in (before + text + after, before + " ".join(text.split()) + after, text[:60], text.replace(" ", "\n")):
        body = {"title": said, "text": [said]}
        if words.stated_in(body) is not None:
            assert words.may_stand_in(cbor.encode(body))


@pytest.mark.parametrize(
    ("text", "other", "quoted"),
    [
        ("my code is 47-11-08 at home", "47-11-08", True),
        ("my code is secret at home", "what CODE IS SECRET then?", True),
        ("remember Bartholomewson", "Bartholomewson was here", True),
        ("my code is secret", "The weather is fine.", False),
        ("my code is secret", "my home", False),
        ("What time is it in Tokyo?", "What time?", False),
        ("yes", "yes, of course", False),
        ("yes", "yes", True),
    ],
)
def test_three_equal_words_in_a_row_or_one_rare_word_count_as_a_quote(text: str, other: str, quoted: bool) -> None:
    assert words_of_message(text).quoted_in(other) is quoted


def test_records_state_words_in_texts_and_bytes_but_not_in_names() -> None:
    words = words_of_message("the safe word is swordfish")
    assert words.stated_in({"value": {"$value": {"text": "the safe word is swordfish"}}}) == "value.$value.text"
    assert words.stated_in({"payload": [{"bytes": b"... the safe word is swordfish ..."}]}) == "payload[0].bytes"
    assert words.stated_in({"name": "the safe word is swordfish"}) is None
    assert words_of_message("shop/Order@1").stated_in({"schema": "shop/Order@1", "title": "shop/Order@1"}) is None
    assert words_of_message("hello").stated_in({"text": "hello"}) == "text"
    assert words_of_message("hello").stated_in({"text": "hello there"}) is None


def test_the_beginning_of_a_long_message_is_a_title_of_it() -> None:
    text = "a rather long message about Ms Smith of Elm Street and her twenty bolts"
    assert words_of_message(text).stated_in({"title": text[:60]}) == "title"
    assert words_of_message(text).stated_in({"text": text[:60]}) is None


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\xff\x00", b"{}", b"null", b""])
def test_a_message_without_words_is_copied_and_quoted_nowhere(data: bytes) -> None:
    words = ErasedWords.of(data)
    assert not words.texts
    assert not words.copied_in(data)
    assert not words.quoted_in("anything")
