"""Stage: parses the arguments strictly, as one JSON object.

A truncated call must never run with arguments that were guessed. Repeated keys, NaN, trailing text and anything that
is not an object are `invalid_json`, and the error quotes none of the text. Parsing a very long text would block
everything else on the event loop, so the length has a limit that no real call comes near.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.values import canonical_json

__all__ = ["MAX_ARGUMENT_BYTES", "decode", "read_arguments"]

MAX_ARGUMENT_BYTES = 1_048_576
"""The maximum size of a call's arguments, in UTF-8 bytes of JSON."""


def decode(ports: Ports, call: Call) -> None:
    """Sets the call's arguments, as text and as an object. Raises what `read_arguments` raises."""
    call.args_text, call.args = read_arguments(call.raw_args)


def read_arguments(raw: object) -> tuple[str | bytes, dict[str, Any]]:
    """Returns the JSON text of a call's arguments, and the object it encodes. A mapping is written as JSON first and
    then read like text. Raises ToolFailure: `invalid_json`, and `validation` for more than `MAX_ARGUMENT_BYTES`."""
    try:
        text = raw if isinstance(raw, str) else _text(raw)
        if len(text) > MAX_ARGUMENT_BYTES // 4 and _is_too_long(text):  # in UTF-8 a character has up to 4 bytes
            raise ToolFailure(ToolErrorCode.VALIDATION, fields=("the object is longer than 1 MiB",))
        args = canonical_json.parse_object(text)
    except (InvalidValue, ValueError, TypeError, RecursionError) as error:
        raise ToolFailure(ToolErrorCode.INVALID_JSON) from error
    return text, args


def _text(raw: object) -> str | bytes:
    if isinstance(raw, Mapping):
        return json.dumps(dict(raw))
    if not isinstance(raw, bytes):
        raise ToolFailure(ToolErrorCode.INVALID_JSON)
    return raw


def _is_too_long(text: str | bytes) -> bool:
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return len(data) > MAX_ARGUMENT_BYTES
