"""Tells exceptions of the tool from exceptions of the process around it. Only the latter may leave a call.

A handler can raise anything, including what Python uses to stop tasks and programs. If every such exception went up,
one `sys.exit()` in a library would end a chat; if none did, a person's Ctrl-C would be lost. The type alone does not
tell the two apart, so the traceback is inspected. Ordinary exceptions are not judged here.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import signal
import threading
from collections.abc import Iterator
from types import CodeType, TracebackType

__all__ = ["is_from_outside"]

_RAISE = dis.opmap["RAISE_VARARGS"]


def is_from_outside(error: BaseException) -> bool:
    """Returns True for an exception that the tool did not cause:

    - CancelledError, while somebody asks for the end of the task that runs here;
    - KeyboardInterrupt that the interpreter delivered: on the main thread, and no `raise` statement made it;
    - GeneratorExit from closing the waiting coroutine, so again without a `raise`;
    - anything that went through the process's own handler of a signal (asyncio's for Ctrl-C, a server's for
      SIGTERM).

    Returns False for the same types raised by a handler or a library below it, and for SystemExit."""
    if isinstance(error, asyncio.CancelledError):
        return _is_being_cancelled()
    if isinstance(error, GeneratorExit):
        return not _is_raised_by_code(error)
    if threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt) and not _is_raised_by_code(error):
        return True
    handlers = set(_signal_handlers())
    return any(step.tb_frame.f_code in handlers for step in _steps(error))


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False  # no loop runs here, so no task can be cancelled
    return task is not None and task.cancelling() > 0


def _is_raised_by_code(error: BaseException) -> bool:
    """Returns whether the last instruction of the innermost frame was a `raise`. Signals and `close()` interrupt
    other instructions: a call, a loop's jump or an await."""
    last = None
    for step in _steps(error):
        last = step
    return last is not None and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _steps(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _signal_handlers() -> Iterator[CodeType]:
    """Yields the code objects of the signal handlers that are written in Python."""
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if isinstance(code, CodeType):
            yield code
