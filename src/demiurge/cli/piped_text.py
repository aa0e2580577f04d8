"""Text that is piped into `demiurge chat -m`, as in `cat notes.txt | demiurge chat -m "Summarise this."`.

A program that starts the command may leave stdin open and never write to it. So a pipe that stays silent for a while is
left alone, with a notice, unless the user says that text will come.
"""

from __future__ import annotations

import os
import select
import stat
import sys

from demiurge.cli import output
from demiurge.errors import InvalidValue, Unavailable

__all__ = ["SILENCE_S", "piped_text", "with_piped"]

SILENCE_S = 3.0
"""How long a pipe may be silent before the message goes without its text, in seconds."""


def piped_text(*, waits: bool) -> str:
    """Returns the text on stdin if stdin is a pipe or a file, else "". With `waits` a silent pipe is waited for. Raises
    InvalidValue (not UTF-8), Unavailable."""
    if sys.stdin is None or sys.stdin.closed or not (waits or _brings_text()):
        return ""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("stdin holds something else than UTF-8 text, which can't be part of a message.") from error
    except OSError as error:
        raise Unavailable(f"stdin can't be read ({error.strerror}); `< /dev/null` sends the message alone.") from error


def with_piped(message: str, piped: str) -> str:
    """Returns the message with the piped text before it, and an empty line between them."""
    return f"{piped.rstrip()}\n\n{message}" if piped.strip() else message


def _brings_text() -> bool:
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):  # a stream in memory
        return True
    if stat.S_ISREG(mode):
        return True
    if not stat.S_ISFIFO(mode):
        return False
    speaks = bool(select.select([number], [], [], SILENCE_S)[0])
    if not speaks:
        output.notice(
            f"No text came on stdin within {SILENCE_S:.0f} seconds, so the message goes without it; "
            "--stdin waits for the text, and `< /dev/null` sends the message at once."
        )
    return speaks
