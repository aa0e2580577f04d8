"""A section's questions: functions of the parameters, the session, both or neither, called in one way.

How to call one is read from its signature when the section is made, so a mistake is found there and not in a turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from demiurge.tools.authoring.signature import is_async_callable, is_generator

__all__ = ["Predicate", "predicate"]


class Predicate(NamedTuple):
    """`takes_params`: it has to be asked with the section's parameters."""

    function: Callable[..., Any]
    takes_params: bool
    takes_session: bool

    def __call__(self, params: Any, session: Any) -> Any:
        given = (params,) if self.takes_params else ()
        return self.function(*given, session=session) if self.takes_session else self.function(*given)


def predicate(function: Callable[..., Any]) -> Predicate:
    """Raises ValueError for a function that takes anything else, or answers later."""
    if not callable(function):
        raise ValueError("is a function")
    if is_async_callable(function) or is_generator(function):
        raise ValueError("answers at once: it is no coroutine and no generator")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ValueError("has no signature that can be read") from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p not in positional]
    if len(positional) > 1 or any(p.kind is not p.KEYWORD_ONLY or p.name != "session" for p in others):
        raise ValueError("takes nothing or the parameters, and a keyword-only 'session' if it wants")
    if positional and positional[0].name == "session":
        raise ValueError("takes 'session' by keyword only: write (*, session)")
    return Predicate(function, bool(positional), bool(others))
