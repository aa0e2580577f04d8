"""Explains why a call that will not run is at fault, in the words of the stage that detects the fault."""

from __future__ import annotations

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.call import Call
from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.explain import normalized
from demiurge.tools.execution.ports import Ports
from demiurge.tools.stages.decide import decide
from demiurge.tools.stages.decode import decode
from demiurge.tools.stages.validate import validate

__all__ = ["fault_of"]

_FOUND_BY = {
    decide: (ToolErrorCode.POLICY_DENIED, ToolErrorCode.UNAVAILABLE),
    decode: (ToolErrorCode.INVALID_JSON,),
    validate: (ToolErrorCode.VALIDATION,),
}
"""The stages that only inspect a call, and the codes that each can raise."""

_CODES = frozenset(code for codes in _FOUND_BY.values() for code in codes)


def fault_of(ports: Ports, call: Call, code: ToolErrorCode) -> ToolFailure | None:
    """Returns the failure with which a stage would end `call`, if that failure has this `code`. Returns None for a
    code that is not about the call itself."""
    if code not in _CODES:
        return None
    for stage, codes in _FOUND_BY.items():
        try:
            stage(ports, call)
        except ToolFailure as failure:
            found = normalized(failure, codes[0])
            return found if found.error_code is code else None
        except Exception as error:  # noqa: BLE001  (a user's policy or source may raise anything)
            log_cause(codes[0].value, error)
            return None
    return None
