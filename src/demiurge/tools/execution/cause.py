"""Why something failed, for the log: the exception's type and place, never its text."""

from __future__ import annotations

import logging

__all__ = ["log_cause"]

_LOG = logging.getLogger("demiurge.tools")
logging.getLogger("demiurge").addHandler(logging.NullHandler())  # what is shown is the application's to say


def log_cause(what: str, error: BaseException) -> None:
    """Logs where an exception came from, without its text: that may quote arguments or secrets."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown place"
    _LOG.warning("tool call: %s raised %s at %s", what, type(error).__name__, place)
