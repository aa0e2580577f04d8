"""`ReadOnlyLedger`: a ledger that answers and grants no claims.

It serves a call that must not run: one whose attempt has no receipt, or one that waits for a person. A call that it
does not know is in doubt. The attempt may have done its work and the ledger may have forgotten it, because entries
expire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from demiurge.tools.ledger.ledger import Claim, Ledger
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot

__all__ = ["ReadOnlyLedger"]


class ReadOnlyLedger:
    """Answers from another ledger. It grants no claim, so there is none to settle, release or doubt."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.blocking = ledger.blocking

    def find(self, slot: LedgerSlot, now_ns: int) -> LedgerRow | None:
        return self._ledger.find(slot, now_ns)

    def claim(self, slot: LedgerSlot, *, params_hash: str, now_ns: int, **_terms: Any) -> Claim:
        known = self._ledger.find(slot, now_ns)
        doubt = LedgerRow(slot, EntryState.IN_DOUBT, b"", params_hash, now_ns, None)
        return Claim(None, known if known is not None else doubt)

    def settle(self, claim: LedgerRow, **_result: Any) -> None:
        raise NotImplementedError

    def release(self, claim: LedgerRow) -> None:
        raise NotImplementedError

    def doubt(self, claim: LedgerRow) -> None:
        raise NotImplementedError

    def watch(self, slot: LedgerSlot, wake: Callable[[], None], place: Hashable = None) -> Callable[[], None]:
        return self._ledger.watch(slot, wake, place)
