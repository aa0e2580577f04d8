"""A reconcile of every form stands in for the handler."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.tools import Tool, ToolContext, ToolErrorCode, ToolFailure, ToolResult, ToolUserError
from demiurge.tools.ledger.reconcile import reconciling


@dataclass(frozen=True)
class Order:
    part: str


def handler(params: Order, *, context: ToolContext) -> ToolResult[str]:
    raise AssertionError


def looks(params: Order, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("found", params.part)


class LooksLater:
    async def __call__(self, params: Order, *, context: ToolContext) -> ToolResult[str]:
        return looks(params, context=context)


@pytest.mark.parametrize("reconcile", [looks, LooksLater(), LooksLater().__call__, functools.partial(looks)])
async def test_reconcile_answers_in_place_of_the_handler(reconcile: Any) -> None:
    made = Tool[Order, str](name="order", description="Orders.", handler=handler, reconcile=reconcile)
    asked = reconciling(made.bound)
    answer = asked.call(Order("nut"), ToolContext())
    assert (await answer if asked.is_async else answer) == ToolResult("found", "nut")


class Looks:
    """Notes the contexts that it is given, and gives or raises `answer`."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.contexts: list[ToolContext] = []

    def __call__(self, params: Order, *, context: ToolContext) -> Any:
        self.contexts.append(context)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class LooksInTime(Looks):
    async def __call__(self, params: Order, *, context: ToolContext) -> Any:
        return super().__call__(params, context=context)


@pytest.mark.parametrize("kind", [Looks, LooksInTime])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, "unknown_outcome"),
        (LookupError("canary"), "unknown_outcome"),
        (ToolFailure(ToolErrorCode.TIMEOUT), "timeout"),
        (ToolUserError("It can't be."), None),
        (ToolResult("found", "nut"), None),
    ],
)
async def test_a_call_stays_in_doubt_unless_reconcile_answers(
    kind: type[Looks], answer: Any, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    reconcile, context = kind(answer), ToolContext()
    made = Tool[Order, str](name="order", description="Orders.", handler=handler, reconcile=reconcile)
    asked = reconciling(made.bound)
    assert asked.is_async is (kind is LooksInTime)

    async def ask() -> Any:
        found = asked.call(Order("nut"), context)
        return await found if asked.is_async else found

    if isinstance(answer, ToolResult):
        assert await ask() is answer
    elif code is None:
        with pytest.raises(ToolUserError, match="It can't be"):
            await ask()
    else:
        with pytest.raises(ToolFailure) as caught:
            await ask()
        assert caught.value.error_code == code
    assert len(caplog.records) == isinstance(answer, LookupError), "only what broke is logged"
    assert reconcile.contexts == [context]
    assert reconcile.contexts[0] is context
