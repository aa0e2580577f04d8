"""Stage: checks that the result has its declared form, and makes its JSON and its text for the model.

No other stage refuses a result for its form (`output_validation`). After this stage the public view and the texts
can always be written as RFC 8785 JSON and UTF-8. The result's type must also accept the encoded value back, because
what is stored now must be readable later. An integer beyond ±(2^53 - 1) keeps all its digits: it is a JSON number in
the model's text and decimal text in the view.

The stage ends the call as `execution` if the handler reported a failure by itself, and as `redaction_failed` if the
result holds the credentials of its connection. A result from the ledger keeps the rendering it was stored with,
because the stored value still holds what the value's own `render()` hid.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import formatannotation
from itertools import islice
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.params import params_names
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolValidationError
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_fault
from demiurge.tools.execution.portable import portable
from demiurge.tools.execution.ports import Ports
from demiurge.tools.parts import ResultPart, binary_part, checked_parts
from demiurge.tools.result import ToolResult, join_text, plain_text, render_value

__all__ = ["check"]

_MAX_FAULTS = 3
_MAX_ITEMS = 100
"""The number of items of a list whose types are looked at."""


def check(ports: Ports, call: Call) -> None:
    """Sets the call's message, encoded and portable value, rendering and content. Raises ToolFailure
    (`output_validation`, `redaction_failed`, `execution`)."""
    result = call.result
    assert result is not None
    if (type(result.success), type(result.exclude_value_from_context)) != (bool, bool):
        log_fault(f"result of {call.tool_id}", "has a flag that is not True or False")
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION)
    rendering = ""
    try:
        call.message = plain_text(result.message)
        if result.value is not None:
            call.encoded = call.bound.dump(result.value)
            call.plain = portable(from_json(call.encoded))
            if call.rendering is not None:
                rendering = call.rendering
            elif not result.exclude_value_from_context:
                rendering = render_value(result.value, call.encoded)
        call.parts, call.verbatim = _parts(result), result.verbatim
    except (ToolValidationError, InvalidValue, TypeError, ValueError) as error:
        log_fault(f"result of {call.tool_id}", _fault(call, result, error))
        ports.show_error(call, f"result of {call.tool_id}", error)
        raise ToolFailure(ToolErrorCode.OUTPUT_VALIDATION) from error
    if call.lease is not None and call.lease.leaks(
        call.message, rendering, to_json(call.plain).decode(), *_texts(call)
    ):
        raise ToolFailure(ToolErrorCode.REDACTION_FAILED)
    call.rendering = rendering
    call.content = join_text(call.message, rendering)
    if not result.success:
        call.reported_message = call.message
        public = call.message if call.bound.spec.redaction.shows_message else ""
        raise ToolFailure(ToolErrorCode.EXECUTION, safe_message=public or None)


def _parts(result: ToolResult[Any]) -> tuple[ResultPart, ...]:
    """Returns the parts of a result, and a file for a value of bytes that are not text; none for a failure."""
    if not result.success:
        return ()
    binary = None if result.exclude_value_from_context else binary_part(result.value)
    given = result.parts if binary is None else (*result.parts, binary)
    return checked_parts(given) if given != () else ()


def _texts(call: Call) -> Iterator[str]:
    """Yields the verbatim answer, and the names and bytes of the parts as text, to be searched for credentials."""
    yield (call.verbatim or b"").decode()
    for part in call.parts:
        yield part.name
        yield part.data.decode("latin-1")


def _fault(call: Call, result: ToolResult[Any], error: Exception) -> str:
    """Returns a line for the log that says where the value breaks its type. It names types and declared fields only:
    anything else on the path to the fault may be data, and is written as `*`."""
    kind, cause = type(result.value), error.__cause__ or error
    declared, returned = _declared_words(call.bound.result_type), _type_words(result.value)
    what = f"has not its declared form: {call.tool_id} declares {declared} and returned {returned}"
    message = type(result.message).__name__
    what += f", with a message of type {message}" if message != "str" else ""
    if isinstance(cause, InvalidValue) and cause.path.startswith("parts"):
        return f"has parts that can't be taken: {cause.message}"
    if not isinstance(cause, ValidationError):
        return what if declared != returned else f"{what} ({type(cause).__name__})"
    names = params_names(kind)
    details = cause.errors()[:_MAX_FAULTS]
    faults = [
        ".".join(str(step) if step in names or isinstance(step, int) else "*" for step in entry["loc"])
        + f" ({entry['type']})"
        for entry in details
    ]
    return f"{what}: {', '.join(faults)}"


def _declared_words(declared: Any) -> str:
    """Returns a result type as an annotation is written; None stands for any JSON."""
    if declared is None:
        return "JSON"
    return declared.__name__ if isinstance(declared, type) and not get_args(declared) else formatannotation(declared)


def _type_words(value: Any) -> str:
    """Returns the type of a value, of a list or a mapping with the types of its first items: `list[int | str]`."""
    name = type(value).__name__
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return name
    kinds = sorted({type(item).__name__ for item in islice(items, _MAX_ITEMS)})
    key = "..., " if isinstance(value, dict) else ""
    return f"{name}[{key}{' | '.join(kinds[:_MAX_FAULTS])}]" if kinds else name
