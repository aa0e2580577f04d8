"""`Tool.run_direct` calls a handler in a unit test."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from demiurge.tools import (
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolFailure,
    ToolResult,
    ToolUserError,
    ToolValidationError,
    tool,
)


class Pool:
    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True)
class Size:
    width: int
    height: int = 1


@tool
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@tool
async def add_later(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@tool
def pool_name(*, context: ToolContext) -> str:
    """Names the pool."""
    pool = context.resources.get(Pool)
    return pool.name if pool is not None else f"none for {context.caller.actor}"


@tool
def describe(size: Size, day: date, words: tuple[str, ...] = ()) -> str:
    """Describes."""
    return f"{size.width}x{size.height} {day:%d.%m.%Y} {words}"


@tool
def refuse(a: int) -> int:
    """Refuses."""
    raise ToolUserError("Not today.")


def area_of(params: Size, *, context: ToolContext) -> ToolResult[int]:
    return ToolResult("The area.", params.width * params.height)


area = Tool[Size, int](name="area", description="Computes an area.", handler=area_of)
nothing = Tool[None, int](
    name="nothing", description="Takes nothing.", handler=lambda params, *, context: ToolResult("", 1)
)
absent = Tool[None, int](name="absent", description="Has no handler.", handler=None)


def test_a_sync_handler_returns_its_result() -> None:
    assert add.run_direct(a=2) == ToolResult("", 3)
    assert add.run_direct({"a": 2, "b": 3}) == ToolResult("", 5)
    assert nothing.run_direct() == ToolResult("", 1)


async def test_an_async_handler_returns_an_awaitable() -> None:
    pending = add_later.run_direct(a=2)
    assert isinstance(pending, Awaitable)
    assert await pending == ToolResult("", 3)


def test_a_parameter_object_is_passed_on_unchanged() -> None:
    assert area.run_direct(Size(2, 3)) == area.run_direct(width=2, height=3) == ToolResult("The area.", 6)


def test_arguments_are_converted_as_those_of_a_model() -> None:
    expected = "2x1 31.01.2026 ('a',)"
    assert describe.run_direct(size=Size(2), day=date(2026, 1, 31), words=["a"]).value == expected
    assert describe.run_direct(size={"width": 2}, day="2026-01-31", words=("a",)).value == expected


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"a": "2"}, "a: must be an integer"),
        ({}, "a: is required"),
        ({"a": 1, "colour": 2}, "unknown field colour; known: a, b"),
    ],
)
def test_arguments_that_a_model_could_not_send_are_refused(arguments: dict[str, Any], found: str) -> None:
    with pytest.raises(ToolValidationError) as caught:
        add.run_direct(**arguments)
    assert str(caught.value) == f"The arguments do not fit the tool's schema. Found: {found}."


def test_a_context_has_what_it_was_given() -> None:
    assert pool_name.run_direct().value.startswith("none for ")
    assert pool_name.run_direct(context={Pool: Pool("main")}).value == "main"
    context = ToolContext(resources=ResourceRegistry.build({Pool: Pool("other")}))
    assert pool_name.run_direct(context=context).value == "other"


def test_an_exception_of_the_handler_reaches_the_test() -> None:
    with pytest.raises(ToolUserError, match="Not today"):
        refuse.run_direct(a=1)
    with pytest.raises(ToolFailure, match="not available"):
        absent.run_direct()


@pytest.mark.parametrize(
    ("made", "params", "arguments", "message"),
    [
        (area, 3, {}, "the tool takes a Size, not an int"),
        (nothing, Size(1), {}, "the tool takes no parameters, not a Size"),
        (area, Size(1), {"width": 2}, "not both"),
        (add, None, {"a": object()}, "can't be written as JSON: pass the parameter object"),
    ],
)
def test_parameters_of_another_kind_are_a_mistake_of_the_test(
    made: Tool[Any, Any], params: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        made.run_direct(params, **arguments)
