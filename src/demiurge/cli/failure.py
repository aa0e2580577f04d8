"""Turns an exception into the report for a person or a script: one sentence, a stable code, an exit status."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from demiurge.errors import DemiurgeError

__all__ = ["FAILED", "CommandFailure", "OutcomeError", "explain"]

FAILED, WRONG_USAGE = 1, 2


class OutcomeError(DemiurgeError):
    """A command failed but has a document to show all the same (a turn that failed or waits for a person, a damaged
    journal)."""

    def __init__(self, code: str, message: str, document: Mapping[str, Any]) -> None:
        super().__init__(message, code=code)
        self.shown = document


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """`text` is for a terminal; `message` is the sentence in a JSON error."""

    status: int
    code: str
    message: str
    text: str
    cause: BaseException
    shown: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Returns what `--json` prints."""
        details = self.cause.details if isinstance(self.cause, DemiurgeError) else {}
        error = {"code": self.code, "message": self.message, **({"details": details} if details else {})}
        return {**self.shown, "error": error}


def explain(error: BaseException) -> CommandFailure:
    """Returns the report for any exception."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            return CommandFailure(WRONG_USAGE, "usage", "Missing command.", error.format_message(), error)
        case click.ClickException():
            message = error.format_message()
            help_path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "demiurge"
            problem = message if message.endswith(("?", "?)")) else f"{message.rstrip('.')}."
            text = f"{problem} See `{help_path} --help`."
            return CommandFailure(WRONG_USAGE, "usage", message, text, error)
        case OutcomeError():
            return CommandFailure(FAILED, error.code, error.message, error.message, error, error.shown)
        case DemiurgeError():
            message = str(error)
            return CommandFailure(FAILED, error.code, message, message, error)
        case MemoryError() | RuntimeError(args=("can't start new thread",)):
            message = "This process may use no more memory: give it more (ulimit -v), or ask for less at a time."
            return CommandFailure(FAILED, "no_memory", message, message, error)
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            message = "This process may open no more files: allow more (ulimit -n 256), and run it again."
            return CommandFailure(FAILED, "no_files", message, message, error)
        case OSError() if error.filename is not None:
            message = (
                f"{error.filename} can't be used ({error.strerror}): check its owner, its permissions and its disk."
            )
            return CommandFailure(FAILED, "unavailable", message, message, error)
        case KeyboardInterrupt() | click.Abort() | EOFError():
            return CommandFailure(FAILED, "stopped", "Stopped.", "Stopped.", error)
        case _:
            message = (
                f"Demiurge failed in a way it should not ({type(error).__name__}); run it again with -vv to see where."
            )
            return CommandFailure(FAILED, "internal", message, message, error)
