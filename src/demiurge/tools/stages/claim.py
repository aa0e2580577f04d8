"""Stage: one of several equal calls gets to run. (seed 004, Idempotency Ledger)"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.ports import Ports

__all__ = ["claim"]


def claim(ports: Ports, call: Call) -> None:
    return
