"""Logs why something failed: types, places and declared names, never the text of an exception or a value."""

from __future__ import annotations

import logging
import sysconfig
from typing import Final

__all__ = ["INSTALLED", "STANDARD_LIBRARY", "WHERE_TO_LOOK", "log_cause", "log_fault", "place_of"]

WHERE_TO_LOOK: Final = "`demiurge -v`, or `log_tool_errors=True` in Python, shows its message and its traceback"

INSTALLED: Final = "/site-packages/"

STANDARD_LIBRARY: Final = (f"{sysconfig.get_path('stdlib')}/", "<frozen")
"""The beginnings of the file names of Python's own library."""

_LOG = logging.getLogger("demiurge.tools")
logging.getLogger("demiurge").addHandler(logging.NullHandler())  # the application decides what is shown


class _Hints(logging.Handler):
    """Shows log lines that have a hint on stderr if the application has not configured logging, as Python does for
    warnings. The author of a first tool, run in a script, has to learn that the tool failed and where to look."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "has_hint", False) and logging.lastResort is not None and not _is_set_up():
            logging.lastResort.handle(record)


_LOG.addHandler(_Hints())


def _is_set_up() -> bool:
    """Returns whether the application has a handler for the records that are logged here."""
    own = [handler for name in ("demiurge", _LOG.name) for handler in logging.getLogger(name).handlers]
    application_handlers = [handler for handler in own if not isinstance(handler, _Hints | logging.NullHandler)]
    return bool(application_handlers or logging.getLogger().handlers)


def log_fault(what: str, fault: str) -> None:
    """Logs a fault for which nothing was raised. `fault` holds only names of types and declared fields."""
    _LOG.warning("tool call: %s %s", what, fault)


def log_cause(what: str, error: BaseException, *, hint: str = "") -> None:
    """Logs the type and place of an exception, without its text, which may quote arguments or secrets. `hint`: where
    the text can be seen."""
    line = f"tool call: {what} raised {type(error).__name__} at {place_of(error)}"
    if hint:
        _LOG.warning("%s; %s", line, hint, extra={"has_hint": True})
    else:
        _LOG.warning("%s", line)


def place_of(error: BaseException) -> str:
    """Returns the file and line in which an exception was raised; if that is in a library, the line that called it."""
    trace, places, own = error.__traceback__, ["unknown place"], None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        places.append(f"{file}:{trace.tb_lineno}")
        if INSTALLED not in file and not file.startswith(STANDARD_LIBRARY):
            own = places[-1]
        trace = trace.tb_next
    return own if own is not None else places[-1]
