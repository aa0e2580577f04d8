"""An id names one tool, wherever tools are joined."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.tools import (
    CORE_TOOLS,
    CompositeToolSource,
    PromptValidationError,
    StaticToolSource,
    Tool,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolSpec,
)
from demiurge.tools.bound import BoundTool
from demiurge.tools.source import as_source


@dataclass(frozen=True)
class Nothing:
    pass


def handle(params: Nothing, *, context: ToolContext) -> ToolResult[None]:
    return ToolResult(message="done")


def make_tool(name: str) -> Tool[Any, Any]:
    return Tool[Nothing, None](name=name, description="d", handler=handle)


def test_a_collision_raises_in_a_source_and_across_sources() -> None:
    with pytest.raises(PromptValidationError) as caught:
        StaticToolSource([make_tool("a"), make_tool("a")])
    assert caught.value.code == "tool_id_collision"
    with pytest.raises(PromptValidationError):
        CompositeToolSource(StaticToolSource([make_tool("a")]), StaticToolSource([make_tool("a")]))


class Growing:
    def __init__(self) -> None:
        self.tools: list[Tool[Any, Any]] = []

    def get(self, tool_id: str) -> BoundTool | None:
        return None

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools)


def test_a_source_that_grows_into_a_collision_is_found_out() -> None:
    growing = Growing()
    joined = CompositeToolSource(StaticToolSource([make_tool("a")]), growing)
    growing.tools.append(make_tool("b"))
    assert [spec.name for spec in joined.specs()] == ["a", "b"]
    growing.tools.append(make_tool("a"))
    with pytest.raises(PromptValidationError):
        joined.specs()


def test_lookup_goes_through_all_sources() -> None:
    joined = CompositeToolSource(StaticToolSource([make_tool("a")]), StaticToolSource(CORE_TOOLS))
    assert joined.get("core__get_current_time") is CORE_TOOLS[0].bound
    assert joined.get("none") is None


def test_missing_redaction_is_an_error_at_registration() -> None:
    bound = make_tool("a").bound
    spec = dataclasses.replace(bound.spec)
    object.__setattr__(spec, "redaction", None)
    with pytest.raises(PromptValidationError) as caught:
        StaticToolSource([dataclasses.replace(bound, spec=spec)])
    assert caught.value.code == "redaction_missing"


def count_words(text: str) -> int:
    """Counts words.

    Words are separated by blanks.
    """
    return len(text.split())


def test_a_plain_function_is_a_tool_wherever_tools_are_taken() -> None:
    source = as_source([count_words])
    (spec,) = source.specs()
    assert (spec.name, spec.effect) == ("count_words", ToolEffect.EXTERNAL_SIDE_EFFECT)
    assert spec == Tool.wrap(count_words).spec
    runner = ToolRunner([count_words], policy=ToolPolicy(("count_words",)))
    assert runner.exec_sync("count_words", {"text": "a b"}).content == "2"
    assert [each.name for each in ToolCatalog.compile([count_words], ToolPolicy(("count_words",))).specs()] == [
        spec.name
    ]
    with pytest.raises(PromptValidationError, match="two tools have the id"):
        as_source([count_words, Tool.wrap(count_words)])
