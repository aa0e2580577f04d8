"""Events as JSON."""

from __future__ import annotations

from demiurge.tools import Done, TextDelta, ToolCallResult, ToolCallStart, UsageReport, event_to_json


def test_an_event_as_json_has_its_type_and_fields() -> None:
    assert event_to_json(TextDelta("x")) == {"type": "text_delta", "delta": "x"}
    assert event_to_json(ToolCallStart("c", "t")) == {
        "type": "tool_call_start",
        "tool_call_id": "c",
        "tool_name": "t",
        "args": {},
    }
    assert event_to_json(ToolCallResult("c", {"n": 1}))["is_error"] is False
    done = event_to_json(Done(UsageReport(1, 2), "stop"))
    assert (done["type"], done["usage"]["completion"]) == ("done", 2)
