"""Logging to stderr: at warning level by default, and never with a secret.

The values of environment variables that are named like secrets, and user and password in URLs, are masked in every
line, tracebacks included, whichever library logs it. The HTTP libraries, which would log whole requests with their
headers, log from WARNING on only; the SDK of the Model Context Protocol, which quotes what servers send, logs nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from demiurge.cli import output
from demiurge.cli.failure import CommandFailure
from demiurge.cli.hints import runnable
from demiurge.cli.settings import Settings
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.execution.secret_mask import SecretMask

__all__ = ["configure", "tool_errors", "trace"]

LOG = logging.getLogger("demiurge.cli")
TALKATIVE = ("httpx", "httpcore", "httpx2", "httpcore2")
QUOTING = ("mcp", "client")
"""The loggers of the protocol's SDK."""


def configure(settings: Settings) -> None:
    """Sets up logging by the global options; replaces an earlier set-up."""
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler.formatter, _Scrubbed)]:
        root.removeHandler(earlier)
    handler = _Stderr()
    handler.setFormatter(_Scrubbed(os.environ, as_json=settings.log_json))
    root.addHandler(handler)
    root.setLevel({0: logging.WARNING, 1: logging.INFO}.get(settings.verbose, logging.DEBUG))
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in QUOTING:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.captureWarnings(True)


def trace(failure: CommandFailure) -> None:
    """Logs the traceback of a failure if the user asked for it."""
    cause = failure.cause
    LOG.debug("%s", failure.code, exc_info=(type(cause), cause, cause.__traceback__))


def tool_errors(settings: Settings) -> ToolErrorLog | bool:
    """Returns the log for errors of tools: with -v, stderr; with -vv, whole tracebacks."""
    if not settings.verbose:
        return False
    whole = settings.verbose > 1
    if settings.log_json:
        return ToolErrorLog(_json_line, whole=whole)
    return ToolErrorLog(output.to_stderr, whole=whole)


def _json_line(text: str) -> None:
    """Returns a report of a tool's error, from which known secrets are removed, as one line of the log."""
    record = logging.LogRecord("demiurge.tools", logging.ERROR, "", 0, "%s", (text,), None)
    output.to_stderr(_Scrubbed(os.environ, as_json=True).format(record))


class _Stderr(logging.Handler):
    """Writes to the current stderr. A line that cannot be written is dropped: logging's own report about it would show
    unmasked arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            output.to_stderr(self.format(record))


class _Scrubbed(logging.Formatter):
    def __init__(self, environment: Mapping[str, str], *, as_json: bool) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._as_json = as_json
        self._mask = SecretMask(environment)

    def format(self, record: logging.LogRecord) -> str:
        if not self._as_json:
            return output.plain(self._mask(runnable(super().format(record))))
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._mask(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = self._mask(self.formatException(record.exc_info))
        return output.as_json(line)
