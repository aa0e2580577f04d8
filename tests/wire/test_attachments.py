"""Attachments: what counts as one, and how each format is sent them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.formats import FORMATS

from demiurge.errors import InvalidValue
from demiurge.wire import (
    Audio,
    Image,
    Item,
    Message,
    Part,
    Text,
    ToolCall,
    ToolOutput,
)
from demiurge.wire.attachments import (
    MAX_PART_BYTES,
    MAX_REQUEST_BYTES,
    MEDIA_TYPES,
    attached,
    attachment,
    check_request,
    media_type,
)

GOLDEN = Path(__file__).with_name("golden") / "attachments"

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"RIFF" + (36).to_bytes(4, "little") + b"WAVEfmt " + bytes(28)
SAMPLES = {
    "image/png": [PNG],
    "image/jpeg": [b"\xff\xd8\xff\xe0\x00\x10JFIF", b"\xff\xd8\xff\xdb"],
    "image/gif": [b"GIF87a\x01\x00", b"GIF89a\x01\x00"],
    "image/webp": [b"RIFF\x24\x00\x00\x00WEBPVP8 "],
    "audio/wav": [WAV],
    "audio/mpeg": [b"ID3\x04\x00", b"\xff\xfb\x90\x64", b"\xff\xf3\x84\xc4", b"\xff\xe2\x10\x00"],
}


@pytest.mark.parametrize(("mime", "data"), [(mime, data) for mime, all_of in SAMPLES.items() for data in all_of])
def test_bytes_say_what_they_are(mime: str, data: bytes) -> None:
    part = attachment(data)
    assert (media_type(data), part.mime, part.data) == (mime, mime, data)
    assert type(part) is (Image if mime.startswith("image/") else Audio)
    assert attachment(data, mime) == part


def test_every_type_that_is_taken_has_a_sample() -> None:
    assert tuple(SAMPLES) == MEDIA_TYPES


@pytest.mark.parametrize(
    ("said", "data"),
    [("image/jpg", SAMPLES["image/jpeg"][0]), ("audio/x-wav", WAV), ("audio/mp3", SAMPLES["audio/mpeg"][0])],
)
def test_another_name_of_a_type_becomes_the_one_that_providers_know(said: str, data: bytes) -> None:
    assert attachment(data, said).mime in MEDIA_TYPES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG",
        b"<html>",
        b"%PDF-1.7",
        b"RIFF",
        b"RIFF\x00\x00\x00\x00AVI ",
        b"OggS",
        b"\xff\xff\xff\xff",
        b"\xff",
    ],
)
def test_bytes_of_another_type_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidValue) as refused:
        attachment(data, "image/png")
    assert refused.value.code == "bad_attachment"


@pytest.mark.parametrize("said", ["image/jpeg", "audio/wav", "image/svg+xml", "text/html", "", "IMAGE/PNG; x=y"])
def test_a_type_that_the_bytes_deny_is_refused(said: str) -> None:
    with pytest.raises(InvalidValue, match="image/png") as refused:
        attachment(PNG, said)
    assert refused.value.code == "bad_attachment"


@given(st.binary(max_size=16))
def test_any_bytes_are_taken_as_what_they_are_or_refused(data: bytes) -> None:
    if media_type(data) is None:
        with pytest.raises(InvalidValue):
            attachment(data)
    else:
        assert attachment(data).mime == media_type(data)


def test_the_largest_part_is_taken_and_a_larger_one_is_not() -> None:
    assert attachment(PNG.ljust(MAX_PART_BYTES, b"\0")).mime == "image/png"
    with pytest.raises(InvalidValue) as refused:
        attachment(PNG.ljust(MAX_PART_BYTES + 1, b"\0"))
    assert refused.value.code == "bad_attachment"


def test_a_request_carries_so_much_and_no_more_whoever_sent_it() -> None:
    half = Image("image/png", bytes(MAX_REQUEST_BYTES // 2))
    items: list[Item] = [Message("user", (half,)), ToolOutput("c", "x", images=(half,))]
    assert list(attached(items)) == [half, half]
    check_request(items, (Image,), "p")
    with pytest.raises(InvalidValue) as refused:
        check_request([*items, Message("user", (Image("image/png", b"1"),))], (Image,), "p")
    assert refused.value.code == "attachments_too_large"


@pytest.mark.parametrize(
    ("part", "takes", "said"),
    [(Audio("audio/wav", WAV), (Image,), "sound"), (Image("image/png", PNG), (), "images")],
)
def test_an_attachment_kind_that_a_provider_does_not_take_is_refused_with_the_providers_name(
    part: Part, takes: tuple[type[Image | Audio], ...], said: str
) -> None:
    with pytest.raises(InvalidValue, match=f"provider small takes no {said}") as refused:
        check_request([Message("user", (Text("Here:"), part))], takes, "small")
    assert refused.value.code == "unsupported_attachment"


# -- Golden fixtures: the exact keys of every part (seed 003, invariant 15)

SOUND = Message("user", (Text("Listen: "), attachment(WAV), attachment(SAMPLES["audio/mpeg"][1])))
PICTURES: list[Item] = [
    Message("user", (Text("Look: "), *(attachment(SAMPLES[mime][0]) for mime in MEDIA_TYPES[:4]))),
    ToolCall("call_1", "docs__plot", "{}"),
]
RESULT = ToolOutput("call_1", "Two plots.", images=(Image("image/png", PNG), Image("image/png", PNG)))
CONVERSATIONS: dict[str, list[Item]] = {
    "chat": [*PICTURES, ToolOutput("call_1", "Two plots."), SOUND],
    "messages": [*PICTURES, RESULT],
    "responses": [*PICTURES, RESULT, SOUND],
}


@pytest.mark.parametrize("api", FORMATS)
def test_attachments_are_sent_with_exactly_these_keys(api: str) -> None:
    expected = json.loads((GOLDEN / f"{api}.json").read_text("utf-8"))
    assert FORMATS[api].encode_messages(CONVERSATIONS[api]) == expected


def test_a_sound_that_a_format_can_not_hold_is_refused() -> None:
    with pytest.raises(InvalidValue) as refused:
        FORMATS["messages"].encode_messages([*PICTURES, SOUND])
    assert refused.value.code == "unsupported_attachment"


@pytest.mark.parametrize("api", ["messages", "responses"])
def test_a_result_that_is_an_image_alone_has_no_empty_text(api: str) -> None:
    sent = json.dumps(FORMATS[api].encode_messages([ToolOutput("call_1", "", images=(Image("image/png", PNG),))]))
    assert base64.b64encode(PNG).decode() in sent
    assert '"text"' not in sent
