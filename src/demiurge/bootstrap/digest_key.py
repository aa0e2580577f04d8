"""The key of the digests by which a world's receipts tell the values of secrets apart.

The key lies in the world's folder, and in none of its records and blobs, so a reader of the journal can't verify a
guess of a secret. A new key would make every value look changed. So the journal's meta data contains a digest of the
world's key.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from demiurge.errors import Unavailable
from demiurge.stores.errors import OR_ACCEPT
from demiurge.stores.protocol import Store
from demiurge.stores.secret_key import read_key, read_or_make_key
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

__all__ = ["DIGEST_KEY", "WorldDigestKey"]

DIGEST_KEY: Final = "digest.key"
_META: Final = "digest_key"


class WorldDigestKey:
    """The key of the world in `folder`. Without `store` the key is not noted in the journal, and a lost key is not
    detected."""

    def __init__(self, folder: Path, store: Store | None = None) -> None:
        self._path, self._store = folder / DIGEST_KEY, store

    def read(self) -> bytes:
        """Returns the key, and makes and notes it at the first call. Raises Unavailable (`lost`) if the journal has
        noted another key."""
        lost = self.lost()
        if lost:
            raise Unavailable(lost[0], code="lost")
        key = read_or_make_key(self._path, SystemEntropy())
        if self._store is not None and not self._store.get_meta(_META):
            self._store.set_meta(_META, _name(key))
        return bytes.fromhex(key.reveal())

    def lost(self) -> tuple[str, ...]:
        """Returns a sentence that names the file, if the world's key is lost."""
        known = self._store.get_meta(_META) if self._store is not None else None
        if not known:
            return ()
        try:
            key = read_key(self._path)
        except Unavailable as error:
            return (f"{error.message} {OR_ACCEPT}",)
        if key is None:
            return (f"{self._path} is gone: no value of a secret could be told from an earlier one. {OR_ACCEPT}",)
        return () if _name(key) == known else (f"{self._path} is not the one that this world had. {OR_ACCEPT}",)

    def accept_loss(self) -> None:
        """Accepts the key file as it is, or makes a new key: later digests match none of the earlier ones."""
        if self._store is not None:
            try:
                read_key(self._path)
            except Unavailable:
                self._path.unlink(missing_ok=True)
            self._store.set_meta(_META, "")


def _name(key: Secret) -> str:
    return hashlib.sha256(b"digest key " + key.reveal().encode()).hexdigest()
