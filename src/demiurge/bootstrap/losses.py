"""Accepting what a world has lost: the one way to go on without a part of it, and it is recorded.

Looked for are the end of the journal, or all of it; the effect log; what the ledger knew; what is in the database and
is not ours; and the mark that ties what the user has decided to this world. What was open is answered
`unknown_outcome`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from demiurge.bootstrap.digest_key import WorldDigestKey
from demiurge.bootstrap.ledger import WorldLedger
from demiurge.bootstrap.trust.trusted_code import TrustedCode
from demiurge.bootstrap.trust.world_profile import disown
from demiurge.stores.errors import OR_ACCEPT
from demiurge.stores.protocol import Store
from demiurge.stores.sqlite.world_folder import remains
from demiurge.tools.source import ToolSource
from demiurge.values.caller import USER
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.history.replay import Manifests
from demiurge.world.losses import AcceptedLoss, accept
from demiurge.world.manifest import Manifest
from demiurge.world.record import Stamp

__all__ = ["Losses"]


class Losses:
    """The losses of the world in `folder`. Make it before the world is opened. `why` is the reason to accept the
    losses; with None they are not accepted."""

    def __init__(self, folder: Path, environment: Mapping[str, str], why: str | None) -> None:
        self._folder, self._environment, self._why = folder, environment, why
        self.accepts = why is not None
        self._is_new = not os.path.exists(folder / "journal.db")
        self._remains = remains(folder) if self.accepts else None
        self._mark: str | None = None
        self.accepted: AcceptedLoss | None = None

    def begin(self) -> None:
        """Forgets the remembered settings of another world, if a new world was made in its folder, or of this world, if
        its mark is lost and the loss is accepted. Raises Unavailable."""
        if self._is_new or self.accepts:
            self._mark = disown(self._environment, self._folder) or self._mark

    def settle(self, store: Store, manifest: Manifest, source: ToolSource) -> None:
        """Records the losses and continues without the lost parts, if they are accepted and there are any. A call that
        was interrupted can be repeated. Raises InvalidValue, Unavailable."""
        if self._why is not None and self.accepted is None:
            self.accepted = self._accept(store, manifest, source, self._why)

    def _accept(self, store: Store, manifest: Manifest, source: ToolSource, why: str) -> AcceptedLoss | None:
        clock, entropy = SystemClock(), SystemEntropy()
        ledger = WorldLedger(self._folder, clock, store)
        of_ledger = ledger.lost()
        digest_key = WorldDigestKey(self._folder, store)
        of_key = digest_key.lost()
        others = (self._remains, *store.lost, *of_ledger, *of_key, self._mark)
        lost = tuple(what.removesuffix(f" {OR_ACCEPT}") for what in others if what)
        if not lost:
            return None

        def stamp() -> Stamp:
            return Stamp(clock.now_ns(), entropy.token(16), USER, manifest.ref)

        code = TrustedCode(self._environment, self._folder)
        done = accept(store, Manifests(manifest, store.get_blob, code.holds), lost, why, stamp, entropy)
        if of_ledger:
            ledger.accept_losses(source)
        if of_key:
            digest_key.accept_loss()
        store.accept_losses()
        return done
