"""Why something failed, for the log: types, places and declared names, never an exception's text or a value."""

from __future__ import annotations

import logging

__all__ = ["log_cause", "log_fault"]

_LOG = logging.getLogger("demiurge.tools")
logging.getLogger("demiurge").addHandler(logging.NullHandler())  # what is shown is the application's to say


def log_fault(what: str, fault: str) -> None:
    """Logs what is wrong where nothing was raised. `fault`: only names of types and declared fields."""
    _LOG.warning("tool call: %s %s", what, fault)


def log_cause(what: str, error: BaseException) -> None:
    """Logs where an exception came from, without its text: that may quote arguments or secrets."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown place"
    _LOG.warning("tool call: %s raised %s at %s", what, type(error).__name__, place)
