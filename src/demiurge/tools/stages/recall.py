"""Stage: has the ledger answered an equal call already? (seed 004, Idempotency Ledger)"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.ports import Ports

__all__ = ["recall"]


def recall(ports: Ports, call: Call) -> None:
    return
