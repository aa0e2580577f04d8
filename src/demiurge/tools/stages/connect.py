"""Stage: may this call use the connection that it names? (seed 003 #26)"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.ports import Ports

__all__ = ["connect"]


def connect(ports: Ports, call: Call) -> None:
    return
