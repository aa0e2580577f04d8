"""The keyboard while nothing is asked: keys are not echoed, and those typed too early decide nothing."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.input.typeahead import clear_typeahead

__all__ = ["drop_typed_ahead", "without_echo"]

LOCAL_MODES = 3
"""The place of the local modes in what `termios.tcgetattr` returns."""


@contextmanager
def without_echo() -> Iterator[None]:
    """Hides what is typed in the block. Keys wait for the next input line, also if Ctrl-C comes after them."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):  # not a terminal
        yield
        return
    hidden = [*before]
    hidden[LOCAL_MODES] = hidden[LOCAL_MODES] & ~termios.ECHO | termios.NOFLSH
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def drop_typed_ahead() -> None:
    """Forgets the keys that were typed and not used, so that none of them answers a question that comes now: those that
    the terminal holds, and those that an earlier input line read behind its Enter."""
    if sys.stdin is not None and sys.stdin.isatty():
        clear_typeahead(get_app_session().input)
    with suppress(termios.error, ValueError, OSError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
