"""Equal calls at once: one runs, the others wait for it, and nobody waits for himself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from tests.tools.order_shop import NAME, HookedStore, Order, Receipt, Shop, order_tool, runner_for

from demiurge.tools import (
    Budgets,
    Deadline,
    EffectLedger,
    IdempotencyConfig,
    LedgerSlot,
    Tool,
    ToolCallResult,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolUserError,
    compute_idempotency_key,
)
from demiurge.tools.ledger.store import LedgerRow, MemoryLedgerStore
from demiurge.tools.stages import claim as stage
from demiurge.values.clock import FixedClock

ARGS = {"order_id": "o"}
FAR = datetime(2200, 1, 1, tzinfo=UTC)
CONFIG = IdempotencyConfig()
LIMITED = ToolPolicy((NAME,), budgets=Budgets(max_runtime_ms=20))


@pytest.fixture(params=[False, True], ids=["ledger in memory", "ledger that blocks"])
def ledger(request: pytest.FixtureRequest) -> EffectLedger:
    return EffectLedger(store=HookedStore()) if request.param else EffectLedger()


@dataclass(frozen=True)
class Told(Deadline):
    """With as much time left as it is told."""

    left: list[timedelta] = field(default_factory=list)

    def __post_init__(self) -> None:
        return

    def remaining(self, *, now: datetime | None = None) -> timedelta:
        return self.left[0]


class Held:
    """An async handler that begins its first call, and ends it as it is told; the others are quick."""

    def __init__(self, first: Callable[[Order], ToolResult[Receipt]] | None = None) -> None:
        self.shop = Shop()
        self.first = first if first is not None else self.shop.take
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.calls = 0

    async def place(self, params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        self.calls += 1
        if self.calls > 1:
            return self.shop.take(params)
        self.begun.set()
        await self.go.wait()
        return self.first(params)


async def race(runner: ToolRunner, held: Held, waiters: int = 3) -> list[ToolExecResult]:
    """The answers of `waiters` calls that came while the first one ran, and the first one's before them."""
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    others = [asyncio.create_task(runner.exec(NAME, ARGS)) for _ in range(waiters)]
    for _ in range(20):
        await asyncio.sleep(0)
    held.go.set()
    return [await first, *await asyncio.gather(*others)]


def codes(results: list[ToolExecResult]) -> list[str | None]:
    return [result.error_code for result in results]


async def test_equal_calls_at_once_run_once_and_all_get_the_answer(ledger: EffectLedger) -> None:
    held = Held()
    results = await race(runner_for(order_tool(held.place), ledger), held)
    assert held.shop.taken == ["o"]
    assert {result.content for result in results} == {"ordered\n\n<<o>>"}
    assert [result.record.replayed for result in results] == [False, True, True, True]


async def test_the_next_equal_call_runs_after_the_first_one_failed(ledger: EffectLedger) -> None:
    def refuse(params: Order) -> ToolResult[Receipt]:
        raise ToolUserError("not today")

    held = Held(refuse)
    results = await race(runner_for(order_tool(held.place), ledger), held)
    assert codes(results) == ["execution", None, None, None]
    assert sorted(result.record.replayed for result in results[1:]) == [False, True, True]
    assert (held.calls, held.shop.taken) == (2, ["o"])


async def test_equal_calls_get_unknown_outcome_after_a_first_call_in_doubt(ledger: EffectLedger) -> None:
    def die(params: Order) -> ToolResult[Receipt]:
        held.shop.take(params)
        raise SystemExit

    held = Held(die)
    results = await race(runner_for(order_tool(held.place), ledger), held)
    assert codes(results) == ["unknown_outcome"] * 4
    assert held.shop.taken == ["o"]


async def test_a_claim_does_not_hold_up_calls_with_other_keys(ledger: EffectLedger) -> None:
    held = Held()
    runner = runner_for(order_tool(held.place), ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    assert (await runner.exec(NAME, {"order_id": "other"})).ok
    held.go.set()
    assert (await first).ok


@pytest.mark.parametrize(
    ("effect", "code"), [(ToolEffect.EXTERNAL_SIDE_EFFECT, "unknown_outcome"), (ToolEffect.READ_ONLY, "timeout")]
)
async def test_a_call_that_runs_out_of_time_while_it_waits_does_not_run(
    ledger: EffectLedger, effect: ToolEffect, code: str
) -> None:
    held = Held()
    tool = order_tool(held.place, effect=effect)
    first = asyncio.create_task(runner_for(tool, ledger).exec(NAME, ARGS))
    await held.begun.wait()
    limited = runner_for(tool, ledger, policy=LIMITED)
    late = ToolContext(deadline=Told(FAR, [timedelta(milliseconds=20)]))
    results = await asyncio.gather(limited.exec(NAME, ARGS), runner_for(tool, ledger).exec(NAME, ARGS, ctx=late))
    assert codes(list(results)) == [code, code]
    assert (await asyncio.to_thread(limited.exec_sync, NAME, ARGS)).error_code == code
    held.go.set()
    assert (await first).ok
    assert held.calls == 1


async def test_a_waiting_call_gives_up_although_the_injected_clock_stands_still() -> None:
    held, ledger = Held(), EffectLedger()
    first = asyncio.create_task(runner_for(order_tool(held.place), ledger).exec(NAME, ARGS))
    await held.begun.wait()
    still = runner_for(order_tool(held.place), ledger, policy=LIMITED, clock=FixedClock(10**18))
    assert (await still.exec(NAME, ARGS)).error_code == "unknown_outcome"
    held.go.set()
    assert (await first).ok


class RecordedWakeUp:
    """A wake-up that answers at once and records how long it was waited for."""

    place = None

    def __init__(self, clock: FixedClock, wakes: bool, after_ns: int) -> None:
        self.clock, self.wakes, self.after_ns, self.waits = clock, wakes, after_ns, list[float | None]()

    def set(self) -> None:
        return

    def clear(self) -> None:
        return

    async def wait(self, seconds: float | None) -> bool:
        self.waits.append(seconds)
        self.clock.advance(self.after_ns)
        return self.wakes and len(self.waits) == 1


@pytest.mark.parametrize(
    ("store", "wakes", "after_ns", "waits"),
    [
        (MemoryLedgerStore, False, 0, [0.02]),
        (MemoryLedgerStore, False, 30_000_000, [0.02]),
        (MemoryLedgerStore, True, 5_000_000, [0.02, 0.015]),
        (HookedStore, False, 0, [0.001, 0.002, 0.004, 0.008, 0.005]),
        (HookedStore, False, 7_000_000, [0.001, 0.002, 0.004]),
        (HookedStore, True, 0, [0.001, 0.002, 0.004, 0.008, 0.006]),
    ],
)
async def test_a_wait_takes_the_time_that_is_left_and_looks_ever_less_often_at_a_disk(
    monkeypatch: pytest.MonkeyPatch,
    store: type[MemoryLedgerStore],
    wakes: bool,
    after_ns: int,
    waits: list[float],
) -> None:
    held, ledger, clock = Held(), EffectLedger(store=store()), FixedClock(10**18)
    first = asyncio.create_task(runner_for(order_tool(held.place), ledger).exec(NAME, ARGS))
    await held.begun.wait()
    wake_up = RecordedWakeUp(clock, wakes, after_ns)
    monkeypatch.setattr(stage, "LoopWakeUp", lambda: wake_up)
    limited = runner_for(order_tool(held.place), ledger, policy=LIMITED, clock=clock)
    assert (await limited.exec(NAME, ARGS)).error_code == "unknown_outcome"
    assert wake_up.waits == pytest.approx(waits, rel=1e-9)
    held.go.set()
    assert (await first).ok


async def test_a_waiting_call_reads_the_ledger_and_writes_nothing() -> None:
    writes: list[str] = []
    held, ledger = Held(), EffectLedger(store=HookedStore(writes.append))
    runner = runner_for(order_tool(held.place), ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    limited = runner_for(order_tool(held.place), ledger, policy=LIMITED)
    assert (await limited.exec(NAME, ARGS)).error_code == "unknown_outcome"
    assert writes == ["claim", "claim"]
    held.go.set()
    assert (await first).ok


async def test_a_call_that_finds_a_free_slot_and_loses_the_claim_waits_on() -> None:
    """Between the look and the claim another process takes the slot, and lets go at the next look."""
    claims, others = 0, list[LedgerRow]()

    class Overtaken(HookedStore):
        def reading(self) -> Self:
            if claims == 2:
                loop.call_soon_threadsafe(held.go.set)
            if others:
                ledger.release(others.pop())
            return super().reading()

    def overtake(write: str) -> None:
        nonlocal claims
        claims += write == "claim"
        if write == "claim" and claims == 3:
            other = ledger.claim(slot, params_hash="", ttl_ns=None, now_ns=0).claimed
            assert other is not None
            others.append(other)

    def refuse(params: Order) -> ToolResult[Receipt]:
        raise ToolUserError("not today")

    loop, held = asyncio.get_running_loop(), Held(refuse)
    ledger = EffectLedger(store=Overtaken(overtake))
    slot = LedgerSlot("", NAME, str(compute_idempotency_key(tool_name=NAME, params=Order("o"), config=CONFIG)))
    runner = runner_for(order_tool(held.place), ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    second = await asyncio.to_thread(runner.exec_sync, NAME, ARGS)
    assert codes([await first, second]) == ["execution", None]
    assert (claims, held.shop.taken) == (5, ["o"])


@pytest.mark.parametrize("effect", list(ToolEffect))
async def test_a_claim_says_when_it_began_how_long_it_counts_and_whether_it_changes_anything(
    effect: ToolEffect,
) -> None:
    class Store(MemoryLedgerStore):
        def claim(self, row: LedgerRow, *, changes: bool) -> None:
            claims.append((row.created_ns, row.expires_ns, changes))
            super().claim(row, changes=changes)

    claims: list[Any] = []
    config = IdempotencyConfig(ttl=timedelta(seconds=3))
    tool = order_tool(Shop().place, effect=effect, idempotency=config)
    runner = runner_for(tool, EffectLedger(store=Store()), clock=FixedClock(7))
    assert (await runner.exec(NAME, ARGS)).ok
    assert claims == [(7, 7 + 3 * 10**9, effect is not ToolEffect.READ_ONLY)]


async def test_a_woken_call_that_finds_the_slot_taken_again_waits_on(ledger: EffectLedger) -> None:
    begun, go = asyncio.Queue[int](), [asyncio.Event(), asyncio.Event()]
    shop, calls = Shop(), 0

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        nonlocal calls
        calls += 1
        number = calls - 1
        begun.put_nowait(number)
        await go[number].wait()
        if number == 0:
            raise ToolUserError("not today")
        return shop.take(params)

    runner = runner_for(order_tool(place), ledger)
    tasks = [asyncio.create_task(runner.exec(NAME, ARGS)) for _ in range(4)]
    assert await begun.get() == 0
    go[0].set()
    assert await begun.get() == 1
    for _ in range(20):
        await asyncio.sleep(0)
    go[1].set()
    results = await asyncio.gather(*tasks)
    assert sorted(map(str, codes(results))) == ["None", "None", "None", "execution"]
    assert (calls, shop.taken) == (2, ["o"])


async def test_a_cancelled_waiting_call_leaves_the_claim_as_it_is(ledger: EffectLedger) -> None:
    held, events = Held(), list[Any]()
    runner = runner_for(order_tool(held.place), ledger, emit=events.append)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    waiter = asyncio.create_task(runner.exec(NAME, ARGS, tool_call_id="w"))
    for _ in range(5):
        await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    (ended,) = [event for event in events if isinstance(event, ToolCallResult)]
    assert (ended.tool_call_id, ended.result["error_code"]) == ("w", "cancelled")
    held.go.set()
    assert (await first).ok
    assert (await runner.exec(NAME, ARGS)).record.replayed


async def test_equal_reads_of_one_turn_overlap_with_others_and_not_with_each_other(ledger: EffectLedger) -> None:
    shop = Shop()
    begun: list[str] = []

    async def look(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        begun.append(params.order_id)
        while len(begun) < 2:  # goes on when another key is looked at, too
            await asyncio.sleep(0)
        return shop.take(params)

    runner = runner_for(order_tool(look, effect=ToolEffect.READ_ONLY), ledger, max_parallel=4)
    calls = [(str(n), NAME, {"order_id": order}) for n, order in enumerate(["a", "a", "b", "a"])]
    results = await runner.exec_many(calls)
    assert all(result.ok for result in results)
    assert [result.content for result in results] == [f"ordered\n\n<<{order}>>" for order in "aaba"]
    assert sorted(shop.taken) == ["a", "b"]


async def test_duplicates_of_one_turn_run_in_order_and_the_second_is_answered(ledger: EffectLedger) -> None:
    shop = Shop()
    runner = runner_for(order_tool(shop.place), ledger)
    results = await runner.exec_many([("1", NAME, ARGS), ("2", NAME, ARGS)])
    assert [result.record.replayed for result in results] == [False, True]
    assert shop.taken == ["o"]


def test_threads_wait_for_each_other(ledger: EffectLedger) -> None:
    shop, start = Shop(), threading.Barrier(8)
    runner = runner_for(order_tool(shop.place), ledger)

    def work(number: int) -> list[ToolExecResult]:
        start.wait()
        run: Callable[..., ToolExecResult] = (
            runner.exec_sync if number % 2 else lambda *args: asyncio.run(runner.exec(*args))
        )
        return [run(NAME, {"order_id": str(order)}) for order in range(20)]

    with ThreadPoolExecutor(8) as pool:
        results = [result for answered in pool.map(work, range(8)) for result in answered]
    assert all(result.ok for result in results)
    assert sorted(shop.taken, key=int) == [str(order) for order in range(20)]
    assert sum(not result.record.replayed for result in results) == 20


# Nobody waits for himself


@pytest.mark.parametrize("how", ["exec", "exec_sync", "thread", "own loop"])
async def test_a_handler_that_makes_its_own_call_is_told_so(ledger: EffectLedger, how: str) -> None:
    inner: list[ToolExecResult] = []

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        if how == "exec":
            inner.append(await runner.exec(NAME, ARGS))
        elif how == "exec_sync":
            inner.append(runner.exec_sync(NAME, ARGS))
        elif how == "thread":
            inner.append(await asyncio.to_thread(runner.exec_sync, NAME, ARGS))
        else:
            inner.append(await asyncio.to_thread(asyncio.run, runner.exec(NAME, ARGS)))
        return ToolResult("m", Receipt("o"))

    runner = runner_for(order_tool(place), ledger)
    outer = await runner.exec(NAME, ARGS)
    assert (outer.ok, codes(inner)) == (True, ["repeated_call"])
    assert (await runner.exec(NAME, ARGS)).record.replayed


def test_a_def_handler_that_makes_its_own_call_is_told_so(ledger: EffectLedger) -> None:
    inner: list[ToolExecResult] = []

    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        inner.append(runner.exec_sync(NAME, ARGS))
        return ToolResult("m", Receipt("o"))

    runner = runner_for(order_tool(place), ledger)
    assert runner.exec_sync(NAME, ARGS).ok
    assert runner.exec_sync(NAME, ARGS).record.replayed
    assert codes(inner) == ["repeated_call"]


def test_a_call_that_nobody_can_tell_is_its_handlers_does_not_wait_for_ever(
    ledger: EffectLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread without the handler's context variables, for which the handler waits."""
    monkeypatch.setattr(stage, "_LONGEST_WAIT_S", 0.02)
    inner: list[ToolExecResult] = []

    def handler(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        thread = threading.Thread(target=lambda: inner.append(runner.exec_sync(NAME, ARGS)))
        thread.start()
        thread.join()
        return Shop().take(params)

    runner = runner_for(order_tool(handler), ledger)
    assert runner.exec_sync(NAME, ARGS).ok
    assert [result.error_code for result in inner] == ["unknown_outcome"]
    assert runner.exec_sync(NAME, ARGS).record.replayed


async def test_an_equal_call_that_a_handler_makes_in_an_executor_does_not_wait_for_ever(
    ledger: EffectLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_LONGEST_WAIT_S", 0.02)
    inner: list[ToolExecResult] = []

    async def handler(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        loop = asyncio.get_running_loop()
        inner.append(await loop.run_in_executor(None, runner.exec_sync, NAME, ARGS))
        return Shop().take(params)

    runner = runner_for(order_tool(handler, effect=ToolEffect.READ_ONLY), ledger)
    assert (await runner.exec(NAME, ARGS)).ok
    assert [result.error_code for result in inner] == ["timeout"]


def test_a_handler_may_make_the_same_call_elsewhere(ledger: EffectLedger) -> None:
    """A tool around another one of the same name, with a ledger of its own."""
    shop = Shop()
    inside = runner_for(order_tool(shop.place), EffectLedger())

    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        return ToolResult(inside.exec_sync(NAME, ARGS).content, Receipt("o"))

    assert "<<o>>" in runner_for(order_tool(place), ledger).exec_sync(NAME, ARGS).content


async def test_two_handlers_that_make_each_others_call_do_not_wait_for_ever(ledger: EffectLedger) -> None:
    both = asyncio.Barrier(2)
    inner: list[ToolExecResult] = []

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        await both.wait()
        inner.append(await runner.exec(NAME, {"order_id": "b" if params.order_id == "a" else "a"}))
        return ToolResult("m", Receipt("o"))

    runner = runner_for(order_tool(place), ledger)
    outer = await asyncio.gather(*(runner.exec(NAME, {"order_id": order}) for order in "ab"))
    assert all(result.ok for result in outer)
    assert sorted(map(str, codes(inner))) == ["None", "repeated_call"]


async def test_a_task_that_a_handler_left_behind_is_free_when_its_call_is_over(ledger: EffectLedger) -> None:
    over = asyncio.Event()
    later: list[asyncio.Task[ToolExecResult]] = []

    async def again() -> ToolExecResult:
        await over.wait()
        return await runner.exec(NAME, ARGS)

    async def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        later.append(asyncio.create_task(again()))
        return ToolResult("m", Receipt("o"))

    runner = runner_for(order_tool(place), ledger)
    await runner.exec(NAME, ARGS)
    over.set()
    assert (await later[0]).record.replayed


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_thread_does_not_wait_for_the_loop_that_it_blocks(ledger: EffectLedger, is_async: bool) -> None:
    held = Held()

    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise AssertionError

    runner = runner_for(order_tool(held.place), ledger)
    sync = runner if is_async else runner_for(order_tool(place), ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    assert sync.exec_sync(NAME, ARGS).error_code == "repeated_call"
    held.go.set()
    assert (await first).ok


async def test_a_loop_is_not_blocked_for_a_call_that_needs_it(ledger: EffectLedger) -> None:
    """The way there leads through another call, in a loop of its own."""
    held = Held()
    inner: list[ToolExecResult] = []

    async def around(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        inner.append(await runner.exec(NAME, ARGS))
        return ToolResult("m", Receipt("o"))

    tools = order_tool(held.place), order_tool(around, "around")
    runner = ToolRunner(tools, policy=ToolPolicy((NAME, "around")), ledger=ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    assert runner.exec_sync("around", ARGS).ok
    assert codes(inner) == ["repeated_call"]
    held.go.set()
    assert (await first).ok


async def test_of_many_who_wait_only_the_next_one_looks_when_one_has_failed() -> None:
    begun = 0

    async def refuse(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0)
        raise ToolUserError("no")

    looks = 0

    class Counted(MemoryLedgerStore):
        def get(self, slot: LedgerSlot) -> LedgerRow | None:
            nonlocal looks
            looks += 1
            return super().get(slot)

    runner = runner_for(order_tool(refuse), EffectLedger(store=Counted()))
    results = await asyncio.gather(*(runner.exec(NAME, ARGS) for _ in range(100)))
    assert codes(results) == ["execution"] * 100
    assert begun == 100
    assert looks < 100 * 15


# Doubts


def test_a_doubt_is_ended_by_a_tool_that_finds_out(ledger: EffectLedger) -> None:
    shop, asked = Shop(), list[str]()
    answers: list[Any] = [
        None,
        RuntimeError("down"),
        ToolUserError("ask later"),
        ToolResult("it was ordered", Receipt("o")),
    ]

    def dies(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        shop.take(params)
        raise SystemExit

    def find_out(params: Order, *, context: ToolContext) -> Any:
        asked.append(context.tool_call_id)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    runner = runner_for(order_tool(dies, reconcile=find_out), ledger)
    results = [runner.exec_sync(NAME, ARGS, tool_call_id=str(n)) for n in range(6)]
    assert codes(results) == ["unknown_outcome", "unknown_outcome", "unknown_outcome", "execution", None, None]
    assert results[3].safe_message == "ask later"
    assert results[4].content == results[5].content == "it was ordered\n\n<<o>>"
    assert [result.record.replayed for result in results[4:]] == [False, True]
    assert (asked, shop.taken) == (["1", "2", "3", "4"], ["o"])


async def test_a_doubt_is_released_by_a_tool_that_knows_it_did_nothing(ledger: EffectLedger) -> None:
    shop, dead = Shop(), [True]

    def place(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        if dead.pop() if dead else False:
            raise SystemExit
        return shop.take(params)

    async def find_out(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        await asyncio.sleep(0)
        return ToolResult("there is no such order", None, success=False)

    runner = runner_for(order_tool(place, reconcile=find_out), ledger)
    results = [await runner.exec(NAME, ARGS) for _ in range(3)]
    assert codes(results) == ["unknown_outcome", "execution", None]
    assert shop.taken == ["o"]


async def test_a_doubt_that_is_being_found_out_is_waited_for(ledger: EffectLedger) -> None:
    begun, go, asked = asyncio.Event(), asyncio.Event(), list[str]()

    def dies(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise SystemExit

    async def find_out(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        asked.append(params.order_id)
        begun.set()
        await go.wait()
        return ToolResult("it was ordered", Receipt("o"))

    runner = runner_for(order_tool(dies, reconcile=find_out), ledger)
    await runner.exec(NAME, ARGS)
    tasks = [asyncio.create_task(runner.exec(NAME, ARGS)) for _ in range(3)]
    await begun.wait()
    go.set()
    assert all(result.ok for result in await asyncio.gather(*tasks))
    assert asked == ["o"]


async def test_a_finding_out_that_is_cut_off_leaves_the_doubt(ledger: EffectLedger) -> None:
    begun = asyncio.Event()

    def dies(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise SystemExit

    async def find_out(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    tool = order_tool(dies, reconcile=find_out)
    runner = runner_for(tool, ledger)
    await runner.exec(NAME, ARGS)
    task = asyncio.create_task(runner.exec(NAME, ARGS))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(ledger.in_doubt()) == 1
    limited = runner_for(tool, ledger, policy=LIMITED)
    assert (await limited.exec(NAME, ARGS)).error_code == "unknown_outcome"
    assert len(ledger.in_doubt()) == 1


def test_a_doubt_of_a_tool_that_only_reads_is_no_reason_not_to_read_again(ledger: EffectLedger) -> None:
    shop = Shop()
    runner = runner_for(order_tool(shop.place), ledger)
    runner.exec_sync(NAME, ARGS)
    (slot,) = ledger._store._done  # type: ignore[attr-defined]
    ledger.clear()
    claim = ledger.claim(slot, params_hash="h", ttl_ns=None, now_ns=0).claimed
    assert claim is not None
    ledger.doubt(claim)
    reader = runner_for(order_tool(shop.place, effect=ToolEffect.READ_ONLY), ledger)
    assert reader.exec_sync(NAME, ARGS).ok
    assert (len(shop.taken), ledger.in_doubt()) == (2, ())


# A ledger on a disk


async def test_a_loop_never_waits_for_a_disk() -> None:
    store, shop = HookedStore(), Shop()
    ledger = EffectLedger(store=store)

    def refuse(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise ToolUserError("no")

    for handler in (shop.place, refuse):
        runner = runner_for(order_tool(handler), ledger)
        for order in ("a", "a", "b"):
            await runner.exec(NAME, {"order_id": f"{handler.__name__} {order}"})
    assert threading.current_thread() not in store.threads
    runner.exec_sync(NAME, ARGS)
    assert threading.current_thread() in store.threads


async def test_a_call_that_is_cancelled_while_it_claims_lets_go_again() -> None:
    writing, go = threading.Event(), threading.Event()

    def wait(write: str) -> None:
        if write == "claim" and not go.is_set():
            writing.set()
            go.wait()

    ledger, shop = EffectLedger(store=HookedStore(wait)), Shop()
    runner = runner_for(order_tool(shop.place), ledger)
    task = asyncio.create_task(runner.exec(NAME, ARGS))
    await asyncio.to_thread(writing.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done(), "what is half written is waited for"
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shop.taken == []
    assert (await runner.exec(NAME, ARGS)).ok
    assert shop.taken == ["o"]


async def test_a_call_that_is_cancelled_while_it_takes_over_a_doubt_leaves_it() -> None:
    writing, go = threading.Event(), threading.Event()
    claims: list[str] = []

    def wait(write: str) -> None:
        claims.append(write)
        if claims.count("claim") == 2 and write == "claim":
            writing.set()
            go.wait()

    def dies(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise SystemExit

    def find_out(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise AssertionError

    ledger = EffectLedger(store=HookedStore(wait))
    runner = runner_for(order_tool(dies, reconcile=find_out), ledger)
    await runner.exec(NAME, ARGS)
    task = asyncio.create_task(runner.exec(NAME, ARGS))
    await asyncio.to_thread(writing.wait)
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(ledger.in_doubt()) == 1


@pytest.mark.parametrize("doubted", [False, True])
def test_a_call_that_is_thrown_away_while_it_claims_leaves_what_there_was(doubted: bool) -> None:
    """What becomes of it when its event loop ends in the middle."""
    writing, go, over = threading.Event(), threading.Event(), threading.Event()
    store = HookedStore()

    def wait(write: str) -> None:
        if write == "claim":
            writing.set()
            go.wait()

    def dies(params: Order, *, context: ToolContext) -> ToolResult[Receipt]:
        raise SystemExit if doubted else ToolUserError("no")

    ledger = EffectLedger(store=store)
    runner = runner_for(order_tool(dies, reconcile=dies), ledger)
    runner.exec_sync(NAME, ARGS)
    store.hook = wait
    key = compute_idempotency_key(tool_name=NAME, params=Order("o"), config=IdempotencyConfig())
    ledger.watch(LedgerSlot("", NAME, str(key)), over.set)
    with closing(asyncio.new_event_loop()) as loop:
        journey: Any = runner.exec(NAME, ARGS)
        task: Any = loop.create_task(journey)
        loop.run_until_complete(asyncio.to_thread(writing.wait))
        journey.close()
        task._log_destroy_pending = False
        go.set()
        assert over.wait(10)
    assert (len(ledger.in_doubt()), len(ledger)) == (int(doubted), 0)


async def test_a_claim_that_can_not_be_written_stops_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def fail(write: str) -> None:
        raise OSError(28, "canary")

    store, shop = HookedStore(fail), Shop()
    runner = runner_for(order_tool(shop.place), EffectLedger(store=store))
    assert (await runner.exec(NAME, ARGS)).error_code == "execution"
    assert runner.exec_sync(NAME, ARGS).error_code == "execution"
    assert shop.taken == []
    assert "OSError" in caplog.text
    assert "canary" not in caplog.text
    store.hook = lambda write: None
    assert (await runner.exec(NAME, ARGS)).ok


async def test_a_call_that_comes_too_late_for_its_claim_does_not_run() -> None:
    """Waiting counts: time is looked at once more before the handler."""
    shop, left = Shop(), [timedelta(seconds=60)]

    def refuse(params: Order) -> ToolResult[Receipt]:
        left[0] = timedelta()
        raise ToolUserError("no")

    held = Held(refuse)
    ledger = EffectLedger()
    runner = runner_for(order_tool(held.place), ledger)
    first = asyncio.create_task(runner.exec(NAME, ARGS))
    await held.begun.wait()
    late = ToolContext(deadline=Told(FAR, left))
    waiter = asyncio.create_task(runner.exec(NAME, ARGS, ctx=late))
    for _ in range(5):
        await asyncio.sleep(0)
    held.go.set()
    assert codes([await first, await waiter]) == ["execution", "deadline_exceeded"]
    assert (await runner.exec(NAME, ARGS)).ok, "its claim is released"
    assert shop.taken == []


def test_a_custom_key_is_one_tools_own(ledger: EffectLedger) -> None:
    shop = Shop()
    config = IdempotencyConfig("custom", key_fn=lambda params: "same")
    tools = [order_tool(shop.place, name=name, idempotency=config) for name in ("one", "two")]
    runner = ToolRunner(tools, policy=ToolPolicy(("one", "two")), ledger=ledger)
    for tool in ("one", "two", "one"):
        runner.exec_sync(tool, ARGS, ctx=ToolPolicyContext())
    assert len(shop.taken) == 2


def test_a_tool_without_parameters_has_a_key(ledger: EffectLedger) -> None:
    ran: list[int] = []

    def tick(params: None, *, context: ToolContext) -> ToolResult[int]:
        ran.append(1)
        return ToolResult("ticked", len(ran))

    tool = Tool[None, int](name=NAME, description="Tick.", handler=tick, idempotency=IdempotencyConfig())
    runner = runner_for(tool, ledger)
    assert [runner.exec_sync(NAME, "{}").content for _ in range(2)] == ["ticked\n\n1"] * 2
