"""Predicates: functions with which a section decides about itself, called with the parameters, the session, both or
neither.

The signature is inspected when the section is made, so a mistake is found there and not in a turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from demiurge.tools.authoring.signature import is_async_callable, is_generator

__all__ = ["Predicate", "predicate"]


class Predicate(NamedTuple):
    """A function and how to call it. `takes_params`: it is called with the section's parameters."""

    function: Callable[..., Any]
    takes_params: bool
    takes_session: bool

    def __call__(self, params: Any, session: Any) -> Any:
        arguments = (params,) if self.takes_params else ()
        return self.function(*arguments, session=session) if self.takes_session else self.function(*arguments)


def predicate(function: Callable[..., Any]) -> Predicate:
    """Returns the predicate for a function. Raises ValueError for a function with other parameters, and for one that
    is async or yields."""
    if not callable(function):
        raise ValueError("must be a function")
    if is_async_callable(function) or is_generator(function):
        raise ValueError("must be a plain function, not async and not a generator")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ValueError("has no signature that can be read") from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p not in positional]
    if len(positional) > 1 or any(p.kind is not p.KEYWORD_ONLY or p.name != "session" for p in others):
        raise ValueError("must take nothing or the parameters, and may take a keyword-only 'session'")
    if positional and positional[0].name == "session":
        raise ValueError("must take 'session' by keyword only: write (*, session)")
    return Predicate(function, bool(positional), bool(others))
