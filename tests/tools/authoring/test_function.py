"""What a function says of itself is enough for a tool, and what it lacks is asked for in words that help."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from demiurge.tools import PromptValidationError, Tool, ToolContext, ToolPolicy, ToolResult, ToolRunner, tool


def add(a: int, b: int = 1, *, context: ToolContext | None = None) -> int:
    """Adds.

    Args:
        a: The first.
    """
    return a + b


class Adding:
    """Not this text."""

    def __call__(self, a: int) -> int:
        """Adds one."""
        return a + 1


class AddingLater:
    async def __call__(self, a: int) -> int:
        return a + 1


def answer(made: Tool[Any, Any], arguments: Any) -> Any:
    result = ToolRunner([made], policy=ToolPolicy((made.name,))).exec_sync(made.name, arguments)
    return result.content if result.ok else result.error_code


def test_a_partial_and_an_object_are_tools_under_a_name() -> None:
    fixed = Tool.wrap(functools.partial(add, b=2), name="add_two")
    assert fixed.description == "Adds."
    assert fixed.spec.input_schema["properties"] == {"a": {"description": "The first.", "type": "integer"}}
    assert answer(fixed, {"a": 1}) == "3"
    assert answer(fixed, {"a": 1, "b": 5}) == "validation"
    assert answer(Tool.wrap(functools.partial(add, 4), name="add_to_four"), {"b": 1}) == "5"
    assert answer(Tool.wrap(Adding(), name="add_one"), {"a": 1}) == "2"
    assert Tool.wrap(Adding(), name="add_one").description == "Adds one."
    assert answer(Tool.wrap(AddingLater(), name="add_one", description="Adds."), {"a": 1}) == "2"


@pytest.mark.parametrize("function", [functools.partial(add, b=2), Adding()])
def test_a_value_that_has_no_name_is_asked_for_one(function: Any) -> None:
    with pytest.raises(PromptValidationError, match="pass name= and description="):
        Tool.wrap(function)


def wordless(a: int) -> int:
    return a


def other_name(a: int, ctx: ToolContext) -> int:
    """Words."""
    return a


def other_name_by_keyword(a: int, *, ctx: Annotated[ToolContext, "it"]) -> int:
    """Words."""
    return a


class Owner:
    def method(self, a: int) -> int:
        """Words."""
        return a


def yields(a: int) -> Iterator[int]:
    """Words."""
    yield a


async def yields_later(a: int) -> AsyncIterator[int]:
    """Words."""
    yield a


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (wordless, "tool 'wordless': write a docstring or pass description="),
        (other_name, "other_name: the parameter 'ctx' is a ToolContext; name it context"),
        (other_name_by_keyword, "'ctx' is a ToolContext; name it context"),
        (Owner.method, "write Tool.wrap(owner.method)"),
        (yields, "a tool must not yield; let it return a list"),
        (yields_later, "must not yield"),
        (functools.partial(yields), "must not yield"),
        (3, "3 can't be called"),
    ],
)
def test_a_value_that_cannot_be_a_tool_is_told_what_to_do(function: Any, advice: str) -> None:
    with pytest.raises(PromptValidationError) as caught:
        tool(function)
    assert advice in str(caught.value)


def test_a_method_of_an_object_is_a_tool() -> None:
    assert answer(Tool.wrap(Owner().method), {"a": 1}) == "1"


def test_a_type_that_is_out_of_reach_is_named_as_such() -> None:
    class Inner(BaseModel):
        a: int

    @dataclass
    class Outer:
        inner: Inner

    def local(params: Outer) -> int:
        """Words."""
        return 1

    def returning(a: int) -> ToolResult[Outer]:
        """Words."""
        raise AssertionError

    for function in (local, returning):
        with pytest.raises(PromptValidationError, match="define it at module level") as caught:
            Tool.wrap(function)
        assert "rebuild" not in str(caught.value)
