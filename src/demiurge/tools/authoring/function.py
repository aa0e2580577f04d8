"""Reads a plain Python function as the parts of a tool: its parameters become a dataclass, its docstring the
descriptions.

The adapter around the function is generated once, when the tool is made; a call only unpacks the parameters and
wraps the result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from demiurge.tools.authoring.docstring import Docstring, read_docstring
from demiurge.tools.authoring.named_types import named_type
from demiurge.tools.authoring.signature import (
    UNKNOWN,
    is_async_callable,
    is_generator,
    is_params_type,
    payload_of,
    resolve_hints,
)
from demiurge.tools.context import ToolContext
from demiurge.tools.input_required import InputRequired
from demiurge.tools.result import ToolResult

__all__ = ["FunctionTool", "plain_tool"]

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class FunctionTool(NamedTuple):
    """The parts that `Tool` needs of a function. `name` is empty if it has none."""

    name: str
    doc: Docstring
    params_type: Any
    result_type: Any
    handler: Callable[..., Any]


def plain_tool(function: Callable[..., Any]) -> FunctionTool:
    """Reads a function, a partial of one or a callable object. A parameter that a partial binds by name is not an
    argument any more. Raises ValueError for parameters that cannot be arguments of a tool."""
    if not callable(function):
        raise ValueError(f"{function!r} can't be called")
    name = getattr(function, "__name__", "")
    doc = read_docstring(_doc(function))
    hints = resolve_hints(function)
    bound_by_name = function.keywords if isinstance(function, functools.partial) else {}
    parameters = [entry for entry in inspect.signature(function).parameters.values() if entry.name not in bound_by_name]
    if problem := _problem(function, parameters, hints):
        raise ValueError(f"{name or 'the function'}: {problem}")
    wants_context = any(entry.name == "context" for entry in parameters)
    arguments = [entry for entry in parameters if entry.name != "context"]
    first = _unannotated(hints.get(arguments[0].name, UNKNOWN)) if len(arguments) == 1 else UNKNOWN
    takes_object = first is not UNKNOWN and first not in (None, type(None)) and is_params_type(first)
    params_type = first if takes_object else _params_class(name, arguments, hints, doc.parameters)
    result_type = payload_of(hints.get("return", Any))
    result_type = Any if result_type is UNKNOWN else result_type
    by_position = [entry.name for entry in arguments if entry.kind is inspect.Parameter.POSITIONAL_ONLY]
    by_name = [entry.name for entry in arguments if entry.name not in by_position]

    def unpack(params: Any, context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        keywords: dict[str, Any] = {"context": context} if wants_context else {}
        if takes_object:
            return [params], keywords
        positions = [getattr(params, entry) for entry in by_position]
        keywords.update((entry, getattr(params, entry)) for entry in by_name)
        return positions, keywords

    if takes_object and arguments[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ValueError(f"{name}: the one parameter object must be positional")
    return FunctionTool(name, doc, params_type, result_type, _adapter(function, unpack))


def _doc(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    own = function if inspect.isroutine(function) else type(function).__call__
    return inspect.getdoc(own) or ""


def _problem(function: Callable[..., Any], parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> str | None:
    """Returns why a function cannot be a tool, as far as its signature shows; None if it can."""
    if is_generator(function):
        return "a tool must not yield; let it return a list"
    if any(entry.kind in _VARIADIC for entry in parameters):
        return "*args and **kwargs can't be described to a model"
    if parameters and parameters[0].name in ("self", "cls") and parameters[0].name not in hints:
        return "a method is a tool only of an object; write Tool.wrap(owner.method) where there is one"
    contexts = [entry.name for entry in parameters if named_type(hints.get(entry.name)) is ToolContext]
    if contexts and contexts[0] != "context":
        return f"the parameter {contexts[0]!r} is a ToolContext; name it context"
    return None


def _adapter(
    function: Callable[..., Any], unpack: Callable[[Any, ToolContext], tuple[list[Any], dict[str, Any]]]
) -> Callable[..., Any]:
    async def async_handler(params: Any, *, context: ToolContext) -> ToolResult[Any] | InputRequired:
        positions, keywords = unpack(params, context)
        return _as_result(await function(*positions, **keywords))

    def sync_handler(params: Any, *, context: ToolContext) -> ToolResult[Any] | InputRequired:
        positions, keywords = unpack(params, context)
        return _as_result(function(*positions, **keywords))

    handler: Callable[..., Any] = async_handler if is_async_callable(function) else sync_handler
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(function, name):
            setattr(handler, name, getattr(function, name))
    return handler


def _as_result(value: Any) -> ToolResult[Any] | InputRequired:
    return value if isinstance(value, ToolResult | InputRequired) else ToolResult(message="", value=value)


def _params_class(
    name: str, arguments: list[inspect.Parameter], hints: dict[str, Any], texts: Mapping[str, str]
) -> type:
    """Returns a dataclass with one field per parameter, descriptions included. Raises ValueError."""
    fields: list[Any] = []
    for entry in arguments:
        hint = hints.get(entry.name, UNKNOWN)
        if hint is UNKNOWN:
            raise ValueError(f"{name}: the type of parameter {entry.name!r} is missing or can't be resolved")
        text = texts.get(entry.name) if not _has_text(hint) else None
        if isinstance(entry.default, FieldInfo):  # `limit: int = Field(3, ge=1)`: pydantic reads the default in it
            hint = Annotated[hint, text] if text else hint
            fields.append((entry.name, hint, field(default=entry.default)))
            continue
        metadata = {"description": text} if text else {}
        if entry.default is inspect.Parameter.empty:
            fields.append((entry.name, hint, field(metadata=metadata)))
        elif entry.default is None:
            fields.append((entry.name, hint, field(default=None, metadata=metadata)))
        else:
            make_default = functools.partial(_same, entry.default)
            fields.append((entry.name, hint, field(default_factory=make_default, metadata=metadata)))
    title = "".join(part.capitalize() for part in name.split("_")) + "Params"
    return make_dataclass(title, fields, frozen=True, kw_only=True)


def _same(value: Any) -> Any:
    return value


def _unannotated(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _has_text(hint: Any) -> bool:
    """Returns whether an annotation describes its parameter: `Annotated[int, "text"]`, `Annotated[int,
    Field(description="text")]` or `Annotated[int, Doc("text")]`."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    texts = [(extra, getattr(extra, "description", None), getattr(extra, "documentation", None)) for extra in extras]
    return any(isinstance(text, str) for each in texts for text in each)
