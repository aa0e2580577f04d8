"""A reconcile of every form stands in for the handler."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest

from demiurge.tools import Tool, ToolContext, ToolResult
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
async def test_it_answers_in_the_handlers_place(reconcile: Any) -> None:
    made = Tool[Order, str](name="order", description="Orders.", handler=handler, reconcile=reconcile)
    asked = reconciling(made.bound)
    answer = asked.call(Order("nut"), ToolContext())
    assert (await answer if asked.is_async else answer) == ToolResult("found", "nut")
