"""Logs: to stderr, at warning level unless asked for more, and never with a secret in them.

The values of environment variables that are named like secrets, and the user and password in URLs, are cut out of
every line, tracebacks included, whoever wrote it. The HTTP libraries, which would log whole requests with their
headers, are heard from WARNING on only.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

from demiurge.cli import output
from demiurge.cli.failure import Failure
from demiurge.cli.settings import Settings

__all__ = ["configure", "trace"]

LOG = logging.getLogger("demiurge.cli")
SECRET_NAME = re.compile(r"(?i)(^|_)(key|token|secret|password|credentials?)$")
USER_IN_URL = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#"'<>]*@""")
TALKATIVE = ("httpx", "httpcore")
SHORTEST = 6
"""Shorter values are words that would be cut out of everything."""


def configure(settings: Settings) -> None:
    """Set up logging as the global options say, in place of what an earlier call set up."""
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler.formatter, _Scrubbed)]:
        root.removeHandler(earlier)
    handler = logging.StreamHandler()
    handler.setFormatter(_Scrubbed(os.environ, as_json=settings.log_json))
    root.addHandler(handler)
    root.setLevel({0: logging.WARNING, 1: logging.INFO}.get(settings.verbose, logging.DEBUG))
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def trace(failure: Failure) -> None:
    """The traceback of a failure, for those who asked for it."""
    cause = failure.cause
    LOG.debug("%s", failure.code, exc_info=(type(cause), cause, cause.__traceback__))


class _Scrubbed(logging.Formatter):
    def __init__(self, environment: Mapping[str, str], *, as_json: bool) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._as_json = as_json
        found = {name: value.strip() for name, value in environment.items() if SECRET_NAME.search(name)}
        self._secrets = {value: f"[{name}]" for name, value in found.items() if len(value) >= SHORTEST}

    def format(self, record: logging.LogRecord) -> str:
        if not self._as_json:
            return output.plain(self._scrub(super().format(record)))
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._scrub(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = self._scrub(self.formatException(record.exc_info))
        return output.as_json(line)

    def _scrub(self, text: str) -> str:
        for value, name in self._secrets.items():
            text = text.replace(value, name)
        return USER_IN_URL.sub(r"\1", text)
