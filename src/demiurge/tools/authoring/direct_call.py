"""Prepares a call of a tool's handler for a unit test: no policy, no ledger, no runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from demiurge.tools.context import ResourceRegistry, ToolContext
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, ToolValidationError
from demiurge.values.article import with_article

__all__ = ["direct_context", "direct_params"]


def direct_params(
    parse: Callable[[str | bytes], Any], params_type: Any, params: Any, arguments: Mapping[str, Any]
) -> Any:
    """Returns the parameters of a direct call: `params` as they are if they are of the tool's type, else `arguments`,
    or a mapping in `params`, checked as a model's arguments are. Raises TypeError, ToolValidationError."""
    if params is not None and arguments:
        raise TypeError("run_direct takes a parameter object or keyword arguments, not both")
    is_object = params_type is not None and isinstance(params, params_type)
    if is_object:
        return params
    if params is not None and not isinstance(params, Mapping):
        wanted = "no parameters" if params_type is None else with_article(params_type.__name__)
        raise TypeError(f"the tool takes {wanted}, not {with_article(type(params).__name__)}")
    try:
        text = to_json(dict(params or arguments))
    except (PydanticSerializationError, ValueError) as error:
        raise TypeError("an argument can't be written as JSON: pass the parameter object") from error
    try:
        return parse(text)
    except ToolValidationError as error:
        message = f"{SAFE_MESSAGES[ToolErrorCode.VALIDATION]} Found: {'; '.join(error.for_model)}."
        raise ToolValidationError(message, fields=error.fields, for_model=error.for_model) from error


def direct_context(context: ToolContext | Mapping[Any, Any] | None) -> ToolContext:
    """Returns a context; one without prompt and session, with these resources by type, if it is a mapping."""
    if isinstance(context, ToolContext):
        return context
    return ToolContext(resources=ResourceRegistry.build(context or {}))
