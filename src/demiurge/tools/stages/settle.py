"""Stage: the outcome goes to the ledger before anybody is told. (seed 004, Idempotency Ledger)"""

from __future__ import annotations

from demiurge.tools.call import Call
from demiurge.tools.ports import Ports

__all__ = ["let_go", "settle"]


def let_go(ports: Ports, call: Call) -> None:
    """The end of a call that failed, whatever the reason."""
    return


def settle(ports: Ports, call: Call) -> None:
    return
