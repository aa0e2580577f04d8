"""Inspects the signature of a Python function: parameters, types, sync or async.

Annotations may be strings (`from __future__ import annotations`) and may name classes local to the calling function.
So names are looked up in the function's own scope and then in the frames that define the function.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from demiurge.tools.authoring.named_types import argument_of, is_union, named_type
from demiurge.tools.context import ToolContext
from demiurge.tools.input_required import InputRequired
from demiurge.tools.result import ToolResult

__all__ = [
    "UNKNOWN",
    "ReturnMismatch",
    "check_handler",
    "check_parameters",
    "is_async_callable",
    "is_generator",
    "is_params_type",
    "item_of",
    "payload_of",
    "resolve_hints",
    "result_problem",
]


class ReturnMismatch(ValueError):
    """A handler's return annotation is not the ToolResult that the tool declares."""


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()
"""Stands for an annotation that is missing or cannot be resolved."""

_NO_RESULT: Any = object()
_PACKAGE = __name__.partition(".")[0]
_ARRAYS = (list, tuple, Sequence)


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Returns whether this is an `async def`, also behind functools.partial or as `__call__`."""
    call = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def is_generator(function: Callable[..., Any]) -> bool:
    """Returns whether the function yields, sync or async: a call of it runs nothing and returns no result."""
    call = function if inspect.isroutine(function) else type(function).__call__
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_kind(each) for is_kind in kinds for each in (function, call))


def is_params_type(kind: Any) -> bool:
    """Returns whether the type can describe a tool's arguments: a dataclass, a pydantic model, or None."""
    if kind is None or kind is type(None):
        return True
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, BaseModel))


def resolve_hints(function: Callable[..., Any], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the resolved annotations by parameter name; a name that cannot be resolved is UNKNOWN."""
    target = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    raw = dict(getattr(target, "__annotations__", {}))
    globalns = getattr(inspect.unwrap(target), "__globals__", {})
    localns = {**_caller_locals(), **(known or {})} if any(isinstance(hint, str) for hint in raw.values()) else {}
    hints: dict[str, Any] = {}
    for name, hint in raw.items():
        probe = types.SimpleNamespace(__annotations__={name: hint})
        try:
            hints[name] = typing.get_type_hints(probe, globalns, localns, include_extras=True)[name]
        except (NameError, AttributeError, TypeError, SyntaxError):
            hints[name] = UNKNOWN
    return hints


def _caller_locals() -> dict[str, Any]:
    """Returns the local names of the code that defines a tool: of the frames outside this package, innermost first."""
    scopes = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE and frame.f_locals is not frame.f_globals:
            scopes.append(frame.f_locals)
        frame = frame.f_back if len(scopes) < 2 else None
    names: dict[str, Any] = {}
    for scope in reversed(scopes):
        names.update(scope)
    return names


def payload_of(annotation: Any) -> Any:
    """Returns R of `ToolResult[R]`, also behind Annotated, an alias, a NewType or a subclass, and in a union with a
    ToolResult; the annotation itself if it is not a ToolResult; UNKNOWN for a bare ToolResult."""
    annotation = _without_questions(annotation)
    payload = _payload(annotation)
    if payload is not _NO_RESULT:
        return payload
    kind = named_type(annotation)
    if not is_union(kind) or all(_payload(arm) is _NO_RESULT for arm in get_args(kind)):
        return annotation
    payloads = [payload_of(arm) for arm in get_args(kind) if arm is not type(None)]
    return UNKNOWN if UNKNOWN in payloads else Union[tuple(payloads)]  # noqa: UP007  (any number of arms)


def _without_questions(annotation: Any) -> Any:
    """Returns a return annotation without InputRequired, which a handler may return in place of any result."""
    kind = named_type(annotation)
    if not is_union(kind) or InputRequired not in get_args(kind):
        return annotation
    return Union[tuple(arm for arm in get_args(kind) if arm is not InputRequired)]  # noqa: UP007  (any number of arms)


def _payload(annotation: Any) -> Any:
    """Returns R of a ToolResult[R] under any name; _NO_RESULT for anything else."""
    kind = named_type(annotation)
    origin = get_origin(kind) or kind
    if not (isinstance(origin, type) and issubclass(origin, ToolResult)):
        return _NO_RESULT
    inner = argument_of(ToolResult, origin, get_args(kind))
    return UNKNOWN if inner is None or isinstance(inner, typing.TypeVar) else inner


def check_handler(handler: Callable[..., Any], params_type: Any, result_type: Any) -> None:
    """Checks that a handler is `(params: P, *, context: ToolContext) -> ToolResult[R]` for these P and R.

    A missing annotation is accepted, a contradicting one is not. Raises ValueError with a sentence that says what to
    write, ReturnMismatch if the return annotation is wrong."""
    known = {kind.__name__: kind for kind in (params_type, result_type) if isinstance(kind, type)}
    result_hint = check_parameters(handler, params_type, known, role="handler").get("return", UNKNOWN)
    if result_hint is not UNKNOWN and _payload(_without_questions(result_hint)) is _NO_RESULT:
        raise ReturnMismatch("the handler returns a ToolResult")
    if not _agree(result_type, payload_of(result_hint)):
        raise ReturnMismatch(f"the handler returns {result_hint!r}, but the tool declares {result_type!r}")


def check_parameters(
    function: Callable[..., Any], params_type: Any, known: Mapping[str, Any] | None = None, *, role: str
) -> dict[str, Any]:
    """Checks that a function is `(params: P, *, context: ToolContext)`, with any return type. Returns its
    annotations.

    `known`: types that the annotations may name besides those in the function's scope; `role`: the function's name
    in a ValueError."""
    if not callable(function):
        raise ValueError(f"the {role} must be callable")
    if is_generator(function):
        raise ValueError(f"the {role} must not yield; let it return a ToolResult, with a list as its value")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ValueError(f"the {role} has no signature that can be read") from error
    hints = resolve_hints(function, known)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p not in positional]
    if len(positional) != 1 or len(others) != 1 or others[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        raise ValueError(f"the {role} must be (params, *, context)")
    context = others[0]
    if context.name != "context" or context.default is not inspect.Parameter.empty:
        raise ValueError(f"the {role}'s keyword-only parameter is 'context', without a default")
    if named_type(hints.get("context", UNKNOWN)) not in (UNKNOWN, ToolContext):
        raise ValueError(f"the {role}'s 'context' is annotated ToolContext")
    params_hint = hints.get(positional[0].name, UNKNOWN)
    if not _agree(params_type, params_hint):
        raise ValueError(f"the {role}'s parameter is annotated {params_hint!r}, but declared {params_type!r}")
    return hints


def _agree(declared: Any, hinted: Any) -> bool:
    if hinted is UNKNOWN or hinted is Any or isinstance(hinted, str):
        return True
    return bool(_plain(declared) == _plain(hinted))


def _plain(kind: Any) -> Any:
    """Returns a form in which list[T], tuple[T, ...] and Sequence[T] are equal, and a named type equals the type
    behind it."""
    kind = named_type(kind)
    if _is_fixed(kind):
        return kind
    item = item_of(kind)
    return kind if item is UNKNOWN else ("items", named_type(item))


def item_of(kind: Any) -> Any:
    """Returns T of list[T], tuple[T, ...] and Sequence[T]; UNKNOWN for anything else."""
    return get_args(kind)[0] if get_origin(kind) in _ARRAYS and not _is_fixed(kind) else UNKNOWN


def result_problem(kind: Any) -> str | None:
    """Returns why a type cannot be the payload of a result; None if it can."""
    if _is_fixed(kind):
        return "a tuple of fixed length can't be a result; use tuple[T, ...], a list or a dataclass"
    item = item_of(kind)
    inner = kind if item is UNKNOWN else item
    is_type = inner is None or callable(inner) or get_origin(inner) is not None
    return None if is_type else f"{inner!r} is not a type"


def _is_fixed(kind: Any) -> bool:
    return get_origin(kind) is tuple and get_args(kind)[1:] != (...,)
