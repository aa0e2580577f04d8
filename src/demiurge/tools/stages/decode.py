"""Stage 3: the arguments as one JSON object, read strictly (seed 003, decision 8).

A truncated call must never run with what can be guessed of it: repeated keys, NaN, trailing text and anything
but an object are `invalid_json`, and none of it is quoted back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports
from demiurge.values import canonical_json

__all__ = ["decode"]


def decode(ports: Ports, call: Call) -> None:
    """A mapping takes the same way as text: it is written as JSON first."""
    raw = call.raw_args
    try:
        if isinstance(raw, Mapping):
            raw = json.dumps(dict(raw), allow_nan=False)
        if not isinstance(raw, str | bytes):
            raise ToolFailure(ToolErrorCode.INVALID_JSON)
        args = canonical_json.parse_object(raw)
    except (InvalidValue, ValueError, TypeError, RecursionError) as error:
        raise ToolFailure(ToolErrorCode.INVALID_JSON) from error
    call.args_text = raw
    call.args = args
