"""What a Python function says about itself: parameters, types, sync or async.

Annotations may be strings (`from __future__ import annotations`) and may name classes local to the calling
function, so names are looked up in the function's own scope and, failing that, in the frames that are
defining it.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from demiurge.tools.context import ToolContext
from demiurge.tools.result import ToolResult

__all__ = [
    "UNKNOWN",
    "HandlerShape",
    "is_async_callable",
    "is_params_type",
    "payload_of",
    "read_handler",
    "resolve_hints",
]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()
"""Stands for an annotation that is missing or can't be resolved."""

_PACKAGE = __name__.partition(".")[0]


class HandlerShape(typing.NamedTuple):
    """A handler of the seed's form: `(params, *, context) -> ToolResult[R]`."""

    params_type: Any
    result_type: Any


def is_async_callable(function: Callable[..., Any]) -> bool:
    """True for `async def`, also behind functools.partial or as `__call__`."""
    call = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def is_params_type(kind: Any) -> bool:
    """True for what can describe a tool's arguments: a dataclass, a pydantic model, or None."""
    if kind is None or kind is type(None):
        return True
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, BaseModel))


def resolve_hints(function: Callable[..., Any], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Resolved annotations by parameter name; a name that can't be resolved is UNKNOWN."""
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
    """Local names of the code that is defining a tool: the frames outside this package, innermost first."""
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
    """R of `ToolResult[R]`; the annotation itself when it is no ToolResult; UNKNOWN for a bare ToolResult."""
    if annotation is ToolResult:
        return UNKNOWN
    if get_origin(annotation) is ToolResult:
        inner = get_args(annotation)[0]
        return UNKNOWN if isinstance(inner, typing.TypeVar) else inner
    return annotation


def read_handler(handler: Callable[..., Any], params_type: Any, result_type: Any) -> HandlerShape:
    """Checks a handler against `(params: P, *, context: ToolContext) -> ToolResult[R]` and gives its P and R.

    `params_type` and `result_type` are what `Tool[P, R]` names, or UNKNOWN. A missing annotation is taken as
    right, a contradicting one is not. Raises ValueError with a sentence that says what to write."""
    if not callable(handler):
        raise ValueError("the handler must be callable")
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError) as error:
        raise ValueError("the handler has no signature that can be read") from error
    known = {kind.__name__: kind for kind in (params_type, result_type) if isinstance(kind, type)}
    hints = resolve_hints(handler, known)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = [p for p in parameters if p not in positional]
    if len(positional) != 1 or len(others) != 1 or others[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        raise ValueError("the handler must be (params, *, context)")
    context = others[0]
    if context.name != "context" or context.default is not inspect.Parameter.empty:
        raise ValueError("the handler's keyword-only parameter is 'context', without a default")
    if hints.get("context", UNKNOWN) not in (UNKNOWN, ToolContext):
        raise ValueError("the handler's 'context' is annotated ToolContext")
    params_hint = hints.get(positional[0].name, UNKNOWN)
    if typing.get_origin(params_hint) is typing.Annotated:
        params_hint = get_args(params_hint)[0]
    result_hint = hints.get("return", UNKNOWN)
    if result_hint is not UNKNOWN and result_hint is not ToolResult and get_origin(result_hint) is not ToolResult:
        raise ValueError("the handler returns a ToolResult")
    return HandlerShape(
        _agree(params_type, params_hint, "the handler's parameter"),
        _agree(result_type, payload_of(result_hint), "the handler's ToolResult"),
    )


def _agree(declared: Any, hinted: Any, what: str) -> Any:
    """The type on which the declaration and the annotation agree. Raises ValueError."""
    declared = type(None) if declared is None else declared
    hinted = type(None) if hinted is None else hinted
    if declared is UNKNOWN:
        return hinted
    if hinted is UNKNOWN or hinted is Any or isinstance(hinted, str) or _plain(declared) == _plain(hinted):
        return declared
    raise ValueError(f"{what} is annotated {hinted!r}, but the tool is declared with {declared!r}")


def _plain(kind: Any) -> Any:
    """list[T], tuple[T, ...] and Sequence[T] stand for the same result (seed 004)."""
    arguments = get_args(kind)
    if get_origin(kind) in (list, tuple, Sequence) and (len(arguments) == 1 or arguments[1:] == (...,)):
        return ("items", arguments[0])
    return kind
