"""A ledger that only answers, for a call that must not run: its attempt has no receipt, or it waits for a person.

What it does not know it has in doubt. The attempt may have done its work and be forgotten by now: a ledger's entries
end with their time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from demiurge.tools.ledger.ledger import Claim, Ledger
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot

__all__ = ["RecallingLedger"]


class RecallingLedger:
    """`Ledger` over another one; nobody gets a claim of it, so there is none to end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.blocking = ledger.blocking

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        return self._ledger.find(slot, now_ns)

    def claim(self, slot: LedgerSlot, *, params_hash: str, now_ns: int, **_terms: Any) -> Claim:
        there = self._ledger.find(slot, now_ns)
        doubt = LedgerRow(slot, EntryState.IN_DOUBT, b"", params_hash, now_ns, None)
        return Claim(None, there if there is not None else doubt)

    def settle(self, claim: LedgerRow, **_result: Any) -> None:
        raise NotImplementedError

    def release(self, claim: LedgerRow) -> None:
        raise NotImplementedError

    def doubt(self, claim: LedgerRow) -> None:
        raise NotImplementedError

    def watch(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable = None) -> Callable[[], None]:
        return self._ledger.watch(slot, wake, place)
