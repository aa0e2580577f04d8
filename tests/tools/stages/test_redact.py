"""The public view of a result is made by the runner from what the tool's redaction lets through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from demiurge import Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner


@dataclass(frozen=True)
class Order:
    id: str
    note: str


def look(params: None, *, context: ToolContext) -> ToolResult[Order]:
    return ToolResult("looked", Order("o", "canary"))


@pytest.mark.parametrize(
    ("redaction", "view"),
    [
        (Redaction.allow("id"), {"id": "o"}),
        (Redaction.message_only(), {"message": "looked"}),
        (Redaction.drop_all(), {}),
    ],
)
def test_the_view_has_what_the_redaction_lets_through(redaction: Redaction, view: dict[str, Any]) -> None:
    events: list[Any] = []
    tool = Tool[None, Order]("look", "Looks.", look, effect=ToolEffect.READ_ONLY, redaction=redaction)
    result = ToolRunner([tool], policy=ToolPolicy(("look",)), emit=events.append).exec_sync("look", "{}")
    assert (result.value, events[-1].result, result.record.result) == (view, view, view)
    assert "canary" in result.content
