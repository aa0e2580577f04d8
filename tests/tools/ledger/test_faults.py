"""Eleven things that went wrong in the system that the ledger comes from; here they don't."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from tests.tools.order_shop import NAME, Order, Receipt, Shop, order_tool, runner_for

from demiurge.tools import (
    Budgets,
    Deadline,
    EffectLedger,
    IdempotencyConfig,
    PromptValidationError,
    Redaction,
    Tool,
    ToolCallResult,
    ToolContext,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
)
from demiurge.values.clock import FixedClock

ARGS = {"order_id": "o"}


def test_1_a_repeated_call_reads_the_same_to_the_model(ledger: EffectLedger, shop: Shop) -> None:
    """The value comes back as its own type, which knows how it is rendered."""
    runner = runner_for(order_tool(shop.place), ledger)
    assert [runner.exec_sync(NAME, ARGS).content for _ in range(3)] == ["ordered\n\n<<o>>"] * 3
    assert shop.taken == ["o"]


def test_2_a_repeated_call_is_published_again_as_a_repetition(ledger: EffectLedger, shop: Shop) -> None:
    """So what listens can apply it once more, to a session that was rolled back say, or leave it."""
    events: list[Any] = []
    runner = runner_for(order_tool(shop.place), ledger, emit=events.append)
    for _ in range(2):
        runner.exec_sync(NAME, ARGS)
    ends = [event for event in events if isinstance(event, ToolCallResult)]
    assert [(end.result, end.replayed) for end in ends] == [({"order_id": "o"}, False), ({"order_id": "o"}, True)]


def test_3_a_value_that_was_hidden_from_the_model_stays_hidden(ledger: EffectLedger) -> None:
    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        return ToolResult("stored", Receipt("o"), exclude_value_from_context=True)

    runner = runner_for(order_tool(place), ledger)
    assert [runner.exec_sync(NAME, ARGS).content for _ in range(2)] == ["stored", "stored"]


def listener_that_raises(event: Any) -> None:
    raise RuntimeError("nobody listens")


TOO_SMALL = ToolPolicy((NAME,), budgets=Budgets(max_result_bytes=5))


class Broken(Redaction):
    def apply(self, message: str, value: Any) -> Any:
        raise RuntimeError("no view")


@pytest.mark.parametrize(
    ("options", "redaction", "code"),
    [
        ({"policy": TOO_SMALL}, Redaction.allow("order_id"), "result_too_large"),
        ({}, Broken(), "redaction_failed"),
        ({"emit": listener_that_raises}, Redaction.allow("order_id"), None),
    ],
)
def test_4_when_the_publication_fails_the_next_call_publishes_what_was_done(
    ledger: EffectLedger, shop: Shop, options: dict[str, Any], redaction: Redaction, code: str | None
) -> None:
    """Neither is the order placed twice, nor is its result lost for good."""
    first = runner_for(order_tool(shop.place, redaction=redaction), ledger, **options).exec_sync(NAME, ARGS)
    assert first.error_code == code
    again = runner_for(order_tool(shop.place), ledger).exec_sync(NAME, ARGS)
    assert (again.ok, again.value, again.record.replayed) == (True, {"order_id": "o"}, True)
    assert shop.taken == ["o"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (tuple[int, ...], (1, 2)),
        (int, 3),
        (float, 2.5),
        (bool, False),
        (str, "text"),
        (list[Receipt], [Receipt("o", (1,))]),
        (dict[str, list[int]], {"a": [1]}),
        (None, None),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (frozenset[int], frozenset([1])),
    ],
)
def test_5_every_kind_of_result_is_given_back_and_nobody_can_change_it(
    ledger: EffectLedger, kind: Any, value: Any
) -> None:
    loaded: list[Any] = []

    def give(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        return ToolResult("m", value)

    give.__annotations__["return"] = ToolResult[kind]
    bound = Tool[Order, kind](name=NAME, description="d", handler=give, idempotency=IdempotencyConfig()).bound

    def load(encoded: bytes) -> Any:
        loaded.append(bound.load(encoded))
        return loaded[-1]

    runner = runner_for(replace(bound, load=load), ledger)
    first = runner.exec_sync(NAME, ARGS)
    if isinstance(value, list | dict):
        value.clear()
    second, third = (runner.exec_sync(NAME, ARGS) for _ in range(2))
    assert first.content == second.content == third.content
    assert [type(item) for item in loaded] == ([] if value is None else [type(value)] * 2)
    assert loaded[:1] == loaded[1:]


class Kind(Enum):
    RUSH = "rush"


@dataclass(frozen=True)
class Line:
    at: date
    kind: Kind


@dataclass(frozen=True)
class Delivery:
    when: datetime
    who: UUID
    lines: tuple[Line, ...]


def test_6_parameters_of_any_type_make_a_key_and_a_misspelt_one_is_found_at_once(ledger: EffectLedger) -> None:
    ran: list[Delivery] = []

    def deliver(params: Delivery, *, context: ToolContext) -> ToolResult[int]:
        ran.append(params)
        return ToolResult("m", len(ran))

    def made(config: IdempotencyConfig) -> Tool[Any, Any]:
        return Tool[Delivery, int](name=NAME, description="d", handler=deliver, idempotency=config)

    args = {
        "when": "2026-01-01T00:00:00Z",
        "who": str(UUID(int=1)),
        "lines": [{"at": "2026-01-01", "kind": "rush"}],
    }
    runner = runner_for(made(IdempotencyConfig()), ledger)
    changes: list[dict[str, Any]] = [{}, {"who": str(UUID(int=2))}, {"lines": []}, {}]
    for changed in changes:
        assert runner.exec_sync(NAME, {**args, **changed}).ok
    assert len(ran) == 3
    with pytest.raises(PromptValidationError, match="'whom', which the parameters do not have"):
        made(IdempotencyConfig("params", ("whom",)))


def test_7_a_custom_key_of_one_tool_does_not_answer_for_another(ledger: EffectLedger) -> None:
    def says(word: str) -> Callable[..., Any]:
        def say(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
            return ToolResult(word, Receipt("o"))

        return say

    config = IdempotencyConfig("custom", key_fn=lambda order: order.order_id)
    tools = [order_tool(says(name), name=name, idempotency=config) for name in ("pay", "refund")]
    runner = ToolRunner(tools, policy=ToolPolicy(("pay", "refund")), ledger=ledger)
    assert [runner.exec_sync(name, ARGS).content.split()[0] for name in ("pay", "refund")] == ["pay", "refund"]


def test_8_two_sessions_that_share_a_ledger_do_not_share_results(ledger: EffectLedger, shop: Shop) -> None:
    runner = runner_for(order_tool(shop.place), ledger)
    for run in ("one", "two", "one", "two"):
        runner.exec_sync(NAME, ARGS, ctx=ToolPolicyContext(run_id=run))
    assert shop.taken == ["o", "o"]


def test_9_after_the_deadline_a_stored_answer_is_refused_like_any_call(ledger: EffectLedger, shop: Shop) -> None:
    clock = FixedClock(10**18)
    runner = runner_for(order_tool(shop.place), ledger)
    soon = datetime.fromtimestamp(10**9, UTC) + timedelta(seconds=2)
    context = ToolContext(deadline=Deadline(soon, clock=clock))
    assert runner.exec_sync(NAME, ARGS, ctx=context).ok
    clock.advance(2 * 10**9)
    for order in ("o", "other"):
        assert runner.exec_sync(NAME, {"order_id": order}, ctx=context).error_code == "deadline_exceeded"


def test_10_what_has_expired_is_neither_counted_nor_there_and_a_day_is_the_default() -> None:
    clock = FixedClock(10**18)
    ledger = EffectLedger(clock=clock)
    entry = ledger.record(idempotency_key="k", tool_name="t", params=None, result=ToolResult("m"))
    assert entry.expires_at == entry.created_at + timedelta(hours=24)
    clock.advance(24 * 3600 * 10**9)
    assert (len(ledger), "k" in ledger, ledger.lookup("k")) == (0, False, None)


async def test_11_of_two_calls_at_once_one_runs(ledger: EffectLedger, shop: Shop) -> None:
    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        await asyncio.sleep(0)
        return shop.take(params)

    runner = runner_for(order_tool(place), ledger)
    results = await asyncio.gather(*(runner.exec(NAME, ARGS) for _ in range(5)))
    assert all(result.ok for result in results)
    assert shop.taken == ["o"]


async def test_11_a_call_that_overran_after_its_effect_is_never_run_again(ledger: EffectLedger, shop: Shop) -> None:
    """Upstream's "exactly once" was "perhaps twice": it recorded only what had returned in time."""

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        result = shop.take(params)
        await asyncio.Event().wait()
        return result

    policy = ToolPolicy((NAME,), budgets=Budgets(max_runtime_ms=20))
    runner = runner_for(order_tool(place), ledger, policy=policy)
    for _ in range(2):
        result = await runner.exec(NAME, ARGS)
        assert result.error_code == "unknown_outcome"
        assert result.safe_message == "It is not known whether this took effect. Check before trying again."
    assert shop.taken == ["o"]
