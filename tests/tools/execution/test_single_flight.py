"""One job at a time, shared by all who wait; nobody who gives up ends it for the others."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from demiurge.tools.execution.single_flight import SingleFlight


class Job:
    """Waits until it is let go."""

    def __init__(self, result: bool = True, error: BaseException | None = None) -> None:
        self.runs = 0
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self._result = result
        self._error = error

    async def __call__(self) -> bool:
        self.runs += 1
        self.begun.set()
        await self.let_go.wait()
        if self._error is not None:
            raise self._error
        return self._result


@pytest.mark.parametrize("result", [True, False])
async def test_all_who_come_meanwhile_share_one_run(result: bool) -> None:
    flights, job = SingleFlight(), Job(result)
    waiting = [asyncio.create_task(flights.run("a", job, 30)) for _ in range(20)]
    await job.begun.wait()
    waiting.append(asyncio.create_task(flights.run("a", job, 30)))
    job.let_go.set()
    assert await asyncio.gather(*waiting) == [result] * 21
    assert job.runs == 1


async def test_a_caller_after_the_flight_runs_the_job_again() -> None:
    flights, job = SingleFlight(), Job()
    job.let_go.set()
    assert await flights.run("a", job, 30)
    assert await flights.run("a", job, 30)
    assert job.runs == 2


async def test_names_do_not_wait_for_each_other() -> None:
    flights, slow, quick = SingleFlight(), Job(), Job()
    first = asyncio.create_task(flights.run("slow", slow, 30))
    await slow.begun.wait()
    quick.let_go.set()
    assert await flights.run("quick", quick, 30)
    slow.let_go.set()
    assert await first


@pytest.mark.parametrize("leader", [True, False])
async def test_a_cancelled_caller_does_not_end_the_flight(leader: bool) -> None:
    flights, job = SingleFlight(), Job()
    first = asyncio.create_task(flights.run("a", job, 30))
    await job.begun.wait()
    second = asyncio.create_task(flights.run("a", job, 30))
    await asyncio.sleep(0)
    gone, stays = (first, second) if leader else (second, first)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    job.let_go.set()
    assert await stays
    assert job.runs == 1


@pytest.mark.parametrize("leader", [True, False])
async def test_a_caller_without_time_gives_up_alone(leader: bool) -> None:
    flights, job = SingleFlight(), Job()
    seconds = (0, 30) if leader else (30, 0)
    first = asyncio.create_task(flights.run("a", job, seconds[0]))
    await job.begun.wait()
    second = asyncio.create_task(flights.run("a", job, seconds[1]))
    assert not await (first if leader else second)
    job.let_go.set()
    assert await (second if leader else first)
    assert job.runs == 1


async def test_a_flight_that_raises_is_false_for_all_callers_and_only_the_type_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flights, job = SingleFlight(), Job(error=RuntimeError("canary"))
    waiting = [asyncio.create_task(flights.run("refresh of a", job, 30)) for _ in range(3)]
    await job.begun.wait()
    job.let_go.set()
    assert await asyncio.gather(*waiting) == [False] * 3
    (record,) = caplog.records
    assert "refresh of a raised RuntimeError at" in record.message
    assert "canary" not in caplog.text


def test_callers_on_several_loops_share_it() -> None:
    flights = SingleFlight()
    begun, let_go, runs, results = threading.Event(), threading.Event(), [], []

    async def job() -> bool:
        runs.append(1)
        begun.set()
        await asyncio.to_thread(let_go.wait)
        return True

    def caller() -> None:
        results.append(asyncio.run(flights.run("a", job, 30)))

    first = threading.Thread(target=caller)
    first.start()
    begun.wait()

    async def others() -> list[bool]:
        waiting = [asyncio.create_task(flights.run("a", job, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        let_go.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(others()) == [True] * 3
    first.join()
    assert (results, runs) == ([True], [1])


async def never() -> bool:
    await asyncio.Event().wait()
    return True


async def at_once() -> bool:
    return True


def test_a_loop_that_ends_takes_its_job_with_it_and_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    flights = SingleFlight()
    assert not asyncio.run(flights.run("a", never, 0))
    assert asyncio.run(flights.run("a", at_once, 30))
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_a_loop_that_was_closed_in_the_middle_is_not_waited_for() -> None:
    flights = SingleFlight()
    loop = asyncio.new_event_loop()
    assert not loop.run_until_complete(flights.run("a", never, 0))
    (left,) = asyncio.all_tasks(loop)
    loop.close()
    assert asyncio.run(flights.run("a", at_once, 30))
    left._log_destroy_pending = False  # type: ignore[attr-defined]  # it is pending for good, and that is the point
