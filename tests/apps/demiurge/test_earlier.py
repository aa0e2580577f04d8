"""What the reducers that were shipped earlier import of this package must go on to mean what it meant.

Histories are computed again by the source that wrote them, which is kept, with the imports of today. A change that
fails here makes recorded worlds diverge: give the new meaning another name, and leave what is pinned here as it is.
"""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.apps.demiurge.answer import error_blob, known_code, said
from demiurge.errors import InvalidValue
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of
from demiurge.wire.attachments import attached
from demiurge.wire.items import Audio, Image, Item, Message, Text, ToolCall, ToolOutput
from demiurge.wire.rounds import MAX_PROPOSED, call_identity, next_choice, refuse
from demiurge.world.messages import attachment_refs, expand

SENTENCES = {
    "policy_denied": "This tool is not allowed here.",
    "approval_required": "A person has to approve this call before it can run.",
    "approval_rejected": "A person rejected this call. Do not repeat it.",
    "approval_expired": "The approval of this call has expired.",
    "quarantined": "Nobody has reviewed this tool as it is now, new or changed, so it is blocked.",
    "rounds_exceeded": "Too many rounds of tool calls. Answer with what is known.",
    "repeated_call": "The same call was made before. Use its earlier result.",
    "unavailable": "This tool is not available at the moment.",
    "invalid_json": "Invalid tool arguments JSON",
    "validation": "The arguments do not fit the tool's schema.",
    "output_validation": "The tool ran, but its result does not have the declared form.",
    "deadline_exceeded": "There is no time left to run the tool.",
    "budget_exceeded": "The budget for this run is used up.",
    "timeout": "The tool took too long and was stopped.",
    "result_too_large": "The tool ran, but its result is larger than allowed.",
    "execution": "The tool failed.",
    "redaction_failed": "The tool ran, but its result could not be made safe to show.",
    "unknown_outcome": "It is not known whether this took effect. Check before trying again.",
    "cancelled": "The call was cancelled.",
    "connection_unavailable": "The tool needs a connection that is not available.",
    "authz_denied": "This call is not authorized.",
    "authz_unavailable": "This call could not be authorized.",
}

PNG, WAV = b"\x89PNG\r\n\x1a\n", b"RIFF\x00\x00\x00\x00WAVEfmt "

ADDRESS_OF_ANSWER = "sha256:183f6a819df893c0b48ff25eac1fd077af04b76cb23bb12f9b644126d5a70d51"
IDENTITY = "sha256:8edc7ac4eb3ab331619c5b74d856d0d8a24decbfdf704578d599498f14ea3233"
IDENTITY_OF_CUT = "sha256:62f8c3bbd23af9802d892b832ef9239e743f232e5c5e6587ceda019e0e73b349"

KNOWN = {
    "effect_level": "policy_denied",
    "expired": "policy_denied",
    "no_adapter": "unavailable",
    "no_grant": "policy_denied",
    "origin_not_allowed": "policy_denied",
    "tool_not_allowed": "policy_denied",
    "path_not_allowed": "execution",
    "of_no_list": "execution",
}


def test_the_sentences_that_are_in_recorded_answers() -> None:
    """A code may be added; a sentence of one that is here may not change."""
    assert {str(code): SAFE_MESSAGES[ToolErrorCode(code)] for code in SENTENCES} == SENTENCES


@pytest.mark.parametrize("code", SENTENCES)
def test_an_answer_of_then_in_its_bytes(code: str) -> None:
    text = f'{{"error_code":"{code}","message":"{SENTENCES[code]}","ok":false}}'
    assert known_code(code) == code
    assert (said(code), said(code, "Another.")) == (SENTENCES[code], "Another.")
    stored = canonical_json.parse_object(error_blob("c1", code, said(code)))
    assert stored == {"role": "tool", "tool_call_id": "c1", "content": text}


@pytest.mark.parametrize(("code", "called"), KNOWN.items())
def test_known_code_maps_each_effect_code_as_shipped_reducers_expect(code: str, called: str) -> None:
    assert known_code(code) == called


def test_the_address_of_an_answer() -> None:
    blob = error_blob("c1", "policy_denied", said("policy_denied"))
    assert ref_of(blob) == ADDRESS_OF_ANSWER


@pytest.mark.parametrize("invalid", [True, False])
@pytest.mark.parametrize("repeated", [True, False])
def test_refuse_returns_the_codes_that_shipped_reducers_expect(invalid: bool, repeated: bool) -> None:
    of_call = "invalid_json" if invalid else "repeated_call" if repeated else None
    for round_, rounds, denied, code in (
        (1, 8, False, of_call),
        (8, 8, False, of_call),
        (8, 8, True, "policy_denied"),
        (9, 8, True, "rounds_exceeded"),
        (1, 0, False, "rounds_exceeded"),
    ):
        assert refuse(round_, rounds, denied=denied, invalid=invalid, repeated=repeated) == code


def test_the_choice_of_the_request_that_followed() -> None:
    assert [next_choice(round_, 2) for round_ in (1, 2, 3, 4)] == ["auto", "auto", "none", None]


def test_an_answer_could_propose_64_calls() -> None:
    assert MAX_PROPOSED == 64


def test_call_identity_ignores_the_spelling_of_equal_arguments() -> None:
    assert call_identity("t", '{"a":1,"b":2}') == call_identity("t", '{ "b": 2, "a": 1.0 }') == IDENTITY
    assert call_identity("t", "{cut") == IDENTITY_OF_CUT


PICTURE = {"type": "image", "mime": "image/png", "bytes_ref": "sha256:" + "1" * 64}
SOUND = {"type": "audio", "mime": "audio/wav", "bytes_ref": "sha256:" + "2" * 64}
CALL = {"id": "c1", "name": "t", "arguments_json": "{}"}


@pytest.mark.parametrize(
    ("blob", "items"),
    [
        ({"role": "user", "content": "Hi"}, [Message("user", (Text("Hi"),))]),
        ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, [Message("user", (Text("Hi"),))]),
        ({"role": "user", "content": []}, []),
        ({"role": "user"}, []),
        ({"role": "user", "content": [PICTURE]}, [Message("user", (Image("image/png", PNG),))]),
        ({"role": "tool", "tool_call_id": "c1", "content": "x"}, [ToolOutput("c1", "x")]),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [CALL]},
            [Message("assistant", (Text("a"),)), ToolCall("c1", "t", "{}")],
        ),
    ],
)
def test_expand_reads_the_items_of_a_message_blob(blob: Any, items: list[Item]) -> None:
    assert expand(canonical_json.encode(blob), lambda _ref: PNG) == items


@pytest.mark.parametrize(("blob", "code"), [(b"[]", "invalid_json"), (b"junk", "invalid_json")])
def test_a_blob_that_is_no_message(blob: bytes, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        expand(blob, lambda _ref: PNG)
    assert refused.value.code == code


def test_a_picture_of_another_type_than_it_says() -> None:
    blob = canonical_json.encode({"role": "user", "content": [PICTURE]})
    with pytest.raises(InvalidValue) as refused:
        expand(blob, lambda _ref: b"no picture")
    assert refused.value.code == "bad_attachment"


def test_the_attachments_of_a_message() -> None:
    blob = canonical_json.encode({"role": "user", "content": [PICTURE, SOUND, {"type": "text", "text": "Hi"}]})
    assert attachment_refs(blob) == (PICTURE["bytes_ref"], SOUND["bytes_ref"])
    items = expand(blob, {PICTURE["bytes_ref"]: PNG, SOUND["bytes_ref"]: WAV}.__getitem__)
    assert list(attached(items)) == [Image("image/png", PNG), Audio("audio/wav", WAV)]
