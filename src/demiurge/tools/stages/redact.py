"""Stage: makes the public view of the result with the tool's redaction, an allowlist. The runner applies it, not the
tool.
"""

from __future__ import annotations

from demiurge.tools.execution.call import Call
from demiurge.tools.execution.ports import Ports

__all__ = ["redact"]


def redact(ports: Ports, call: Call) -> None:
    call.view = call.bound.spec.redaction.apply(call.message, call.plain)
