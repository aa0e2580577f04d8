from __future__ import annotations

import demiurge.wire
from demiurge.wire import Audio, Message, Opaque, Reasoning, Text


def test_the_public_names_are_sorted_and_exist() -> None:
    names = demiurge.wire.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name.islower(), name))
    assert all(hasattr(demiurge.wire, name) for name in names)


def test_items_that_hold_json_can_be_hashed() -> None:
    assert hash(Reasoning(("a",), {"b": []})) == hash(Reasoning(("a",), {}))
    assert hash(Opaque({"type": "x"})) == hash(Opaque({}))


def test_the_short_name_of_a_sound() -> None:
    names = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/flac": "flac"}
    assert {mime: Audio(mime, b"").format for mime in names} == names


def test_the_text_of_a_message() -> None:
    assert Message("user", (Text("a"), Audio("audio/wav", b""), Text("b"))).text == "ab"
