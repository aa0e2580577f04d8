"""The same exception can be the tool's own or a person's; only the way it came tells."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from demiurge.tools.execution.interrupt import is_from_outside


def caught_exception(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001  (what is judged)
        return error
    raise AssertionError


def raising(error: BaseException) -> Callable[[], object]:
    def work() -> None:
        raise error

    return work


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Odd(), asyncio.CancelledError()], ids=repr
)
def test_an_exception_raised_by_code_is_not_from_outside(error: BaseException) -> None:
    assert not is_from_outside(caught_exception(raising(error)))


def test_a_key_pressed_on_the_main_thread_is_from_outside() -> None:
    def press() -> None:
        signal.raise_signal(signal.SIGINT)

    def press_and_tidy_up() -> None:
        try:
            press()
        except KeyboardInterrupt:
            raise

    assert is_from_outside(caught_exception(press))
    assert is_from_outside(caught_exception(press_and_tidy_up))


@contextmanager
def handling(number: signal.Signals, handler: Any) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


class Server:
    def stop(self, *_: object) -> None:
        raise SystemExit(0)


@pytest.mark.parametrize(
    "handler", [Server().stop, functools.partial(Server.stop, Server())], ids=["method", "partial"]
)
def test_an_exception_raised_by_a_signal_handler_is_from_outside(handler: Any) -> None:
    with handling(signal.SIGTERM, handler):
        assert is_from_outside(caught_exception(lambda: signal.raise_signal(signal.SIGTERM)))
    assert not is_from_outside(caught_exception(Server().stop))


def test_no_signal_reaches_another_thread() -> None:
    seen: list[bool] = []

    def work() -> None:
        generator = (item for item in (1, 2))
        next(generator)
        seen.append(is_from_outside(caught_exception(lambda: generator.throw(KeyboardInterrupt()))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_closed_coroutine_is_ended_from_outside() -> None:
    seen: list[bool] = []

    class Forever:
        def __await__(self) -> Generator[None, None, None]:
            while True:
                yield

    async def work() -> None:
        try:
            await Forever()
        except GeneratorExit as error:
            seen.append(is_from_outside(error))
            raise

    coroutine = work()
    coroutine.send(None)
    coroutine.close()
    assert seen == [True]


async def test_a_task_is_cancelled_from_outside_only_when_somebody_asked() -> None:
    seen: list[bool] = []

    async def waits(future: asyncio.Future[None]) -> None:
        try:
            await future
        except asyncio.CancelledError as error:
            seen.append(is_from_outside(error))

    loop = asyncio.get_running_loop()
    for ask in (True, False):
        future: asyncio.Future[None] = loop.create_future()
        task = asyncio.create_task(waits(future))
        await asyncio.sleep(0)
        task.cancel() if ask else future.cancel()
        await task
    assert seen == [True, False]
