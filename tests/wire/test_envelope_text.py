"""The text of the JSON tool protocol, as a model reads it."""

from __future__ import annotations

import json

import pytest

from demiurge.tools.spec import ToolSpec
from demiurge.wire.envelope_text import call_text, nonce_text, protocol_text, rejection_text, result_text, rules_text
from demiurge.wire.tool_envelope import (
    REJECTION_CODES,
    EnvelopeCall,
    EnvelopeTools,
    FinalEnvelope,
    Rejection,
    read_call,
    read_decision,
)

NONCE = "0123456789abcdef0123456789abcdef"
SPECS = [
    ToolSpec(name, f"Does {name}.", {"type": "object", "properties": {}, "additionalProperties": False})
    for name in ("open_door", "close_door")
]
TOOLS = EnvelopeTools.of(SPECS)


def _shapes(text: str) -> list[str]:
    return [line[line.index("{") : line.rindex("}") + 1] for line in text.splitlines() if '"nonce"' in line]


def test_the_rules_name_each_tool_and_hold_no_nonce() -> None:
    text = rules_text(SPECS)
    assert all(f"{spec.name}: {spec.description}" in text for spec in SPECS)
    assert NONCE not in text
    assert protocol_text(SPECS, NONCE).startswith(text)


def test_the_shape_that_the_model_is_shown_is_a_call_once_it_is_filled_in() -> None:
    [shape] = _shapes(nonce_text(NONCE))
    filled = shape.replace("<id of a tool>", "open_door").replace("{...}", "{}")
    assert read_call(filled, TOOLS, NONCE) == EnvelopeCall("open_door", {})


def test_after_a_result_the_shapes_are_the_two_decisions() -> None:
    call, final = _shapes(nonce_text(NONCE, after_result=True))
    filled = call.replace("<id of a tool>", "open_door").replace("{...}", "{}")
    assert read_decision(filled, TOOLS, NONCE) == EnvelopeCall("open_door", {})
    assert read_decision(final, TOOLS, NONCE) == FinalEnvelope()


def test_a_call_that_must_come_is_the_only_possible_reply() -> None:
    text = nonce_text(NONCE, must_call="open_door")
    assert '"tool": "open_door"' in text
    assert "plain text" not in text


@pytest.mark.parametrize(("left", "expected"), [(3, "Tool steps remaining: 3"), (0, "No more tool calls"), (-1, "No")])
def test_the_model_is_told_how_many_steps_remain(left: int, expected: str) -> None:
    text = nonce_text(NONCE, rounds_left=left)
    assert expected in text
    assert (NONCE in text) == (left > 0)


def test_an_earlier_call_can_not_be_sent_again_as_it_is() -> None:
    found = read_call(call_text("open_door", {}), TOOLS, NONCE)
    assert isinstance(found, Rejection)
    assert found.code == "tool_call_nonce_invalid"


def test_a_result_names_its_call() -> None:
    text = result_text("open_door", "call_7", "It is open.")
    assert "open_door" in text.splitlines()[0]
    assert "call_7" in text.splitlines()[0]
    assert "It is open." in text.splitlines()


@pytest.mark.parametrize("code", REJECTION_CODES)
def test_a_rejection_is_a_stop_hook_with_its_code(code: str) -> None:
    [rejection] = [Rejection(each, "detail") for each in REJECTION_CODES if each == code]
    lines = rejection_text(rejection).splitlines()
    assert lines[:2] == ["STOP_HOOK: tool_call_rejected", f"Reason: {code} (detail)"]
    assert "Nothing was run." in lines[2]
    with pytest.raises(json.JSONDecodeError):
        json.loads(rejection_text(Rejection(rejection.code)))
