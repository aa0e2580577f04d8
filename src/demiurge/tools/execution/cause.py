"""Why something failed, for the log: types, places and declared names, never an exception's text or a value."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["WHERE_TO_LOOK", "log_cause", "log_fault", "place_of"]

WHERE_TO_LOOK: Final = "`log_tool_errors=True`, or `demiurge -v`, shows its message and its traceback on stderr"

_LOG = logging.getLogger("demiurge.tools")
logging.getLogger("demiurge").addHandler(logging.NullHandler())  # what is shown is the application's to say


class _Hints(logging.Handler):
    """Shows a line with a hint as Python shows any warning where an application has set up no logging: on stderr. An
    author who runs a first tool in a script has to learn that it broke, and where to look."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "has_hint", False) and logging.lastResort is not None and not _is_set_up():
            logging.lastResort.handle(record)


_LOG.addHandler(_Hints())


def _is_set_up() -> bool:
    """Whether the application listens to what is logged here."""
    own = [handler for name in ("demiurge", _LOG.name) for handler in logging.getLogger(name).handlers]
    given = [handler for handler in own if not isinstance(handler, _Hints | logging.NullHandler)]
    return bool(given or logging.getLogger().handlers)


def log_fault(what: str, fault: str) -> None:
    """Logs what is wrong where nothing was raised. `fault`: only names of types and declared fields."""
    _LOG.warning("tool call: %s %s", what, fault)


def log_cause(what: str, error: BaseException, *, hint: str = "") -> None:
    """Logs where an exception came from, without its text: that may quote arguments or secrets. `hint`: where the text
    can be seen."""
    line = f"tool call: {what} raised {type(error).__name__} at {place_of(error)}"
    if hint:
        _LOG.warning("%s; %s", line, hint, extra={"has_hint": True})
    else:
        _LOG.warning("%s", line)


def place_of(error: BaseException) -> str:
    """File and line in which an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown place"
