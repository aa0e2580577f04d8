"""How a result reads for the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.tools import ToolRenderableResult, ToolResult


@dataclass(frozen=True)
class Plain:
    a: int
    b: str | None = None


@dataclass(frozen=True)
class Speaking:
    words: str

    def render(self) -> str:
        if not self.words:
            raise ValueError("nothing to say")
        return self.words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("text", "text"),
        (Plain(1), '{"a":1,"b":null}'),
        (Speaking("hi"), "hi"),
        (Speaking(""), '{"words":""}'),
        ([Plain(1, "é")], '[{"a":1,"b":"é"}]'),
        ({"k": 1}, '{"k":1}'),
        (3, "3"),
    ],
)
def test_render_writes_each_kind_of_value_as_text(value: Any, text: str) -> None:
    assert ToolResult(message="m", value=value).render() == text


def test_results_can_be_subscripted_and_called() -> None:
    assert ToolResult[Plain](message="m", value=Plain(1)) == ToolResult("m", Plain(1))
    assert isinstance(Speaking("x"), ToolRenderableResult)
