"""The vault of a user's secrets: one small file of sealed values, and a key that lies elsewhere.

Invariant: the file holds no value in clear; each is sealed for its alias and version (`tools.connections.keyring`), so
in the place of another it does not open. Aliases and versions are there to be read. Looking makes nothing.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from demiurge.errors import Damaged, Unavailable
from demiurge.stores.secret_file import CODE, locked_folder, read_closed, write_closed
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.connections.keyring import KeyRing
from demiurge.values.clock import Entropy

__all__ = ["SealedSecret", "SecretVault"]

MAX_BYTES = 16 * 1024 * 1024
_FORMAT = {"format": "demiurge-secrets", "version": 1}


class SealedSecret(NamedTuple):
    """One row; `key` is the name of the key that opens it."""

    alias: str
    version: int
    key: str
    sealed: bytes

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "sealed": b64encode(self.sealed).decode()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SealedSecret:
        return cls(str(row["alias"]), int(row["version"]), str(row["key"]), b64decode(row["sealed"], validate=True))


class SecretVault:
    """The vault in the file `path`. `find_key` says 64 hexadecimal digits, or None; `make_key` makes them if need be.

    Several processes may use it at a time. Methods raise Unavailable (code `secret_unavailable` for a vault or a key
    that can't be trusted or read, `missing_package`), Damaged."""

    def __init__(self, path: Path, find_key: Callable[[], Secret | None], make_key: Callable[[], Secret]) -> None:
        self.path = path
        self._find_key, self._make_key = find_key, make_key

    def names(self) -> list[tuple[str, int]]:
        """What is in it: (alias, version), in order. Needs no key."""
        return [(row.alias, row.version) for row in self._rows()]

    def get(self, alias: str, version: int) -> Secret | None:
        row = next((row for row in self._rows() if (row.alias, row.version) == (alias, version)), None)
        if row is None:
            return None
        key = self._find_key()
        if key is None:
            why = "set DEMIURGE_VAULT_KEY to its key, or put its key file back"
            raise Unavailable(f"The vault {self.path} has no key: {why}.", code=CODE)
        ring = _ring(key)
        if row.key != ring.newest:
            why = f"use that key, or run `demiurge secrets set {alias}` again"
            raise Unavailable(f"{alias}@{version} in {self.path} was sealed with another key: {why}.", code=CODE)
        try:
            return ring.open(row.key, row.sealed, _associated(alias, version))
        except Damaged:
            raise Damaged(
                f"{alias}@{version} in {self.path} is damaged: run `demiurge secrets set {alias}` again."
            ) from None

    def put(self, alias: str, version: int, secret: Secret, entropy: Entropy) -> None:
        """Seal `secret`, in place of the one before; durable on return."""
        ring = _ring(self._make_key())
        sealed = ring.seal(secret, _associated(alias, version), entropy)
        with locked_folder(self.path.parent):
            rows = {(row.alias, row.version): row for row in self._rows()}
            rows[alias, version] = SealedSecret(alias, version, ring.newest, sealed)
            self._write(rows)

    def discard(self, alias: str, version: int) -> bool:
        """Take one out; False when there is none."""
        if (alias, version) not in self.names():
            return False
        with locked_folder(self.path.parent):
            rows = {(row.alias, row.version): row for row in self._rows()}
            taken = rows.pop((alias, version), None)
            self._write(rows)
        return taken is not None

    def _rows(self) -> list[SealedSecret]:
        data = read_closed(self.path, MAX_BYTES)
        if data is None:
            return []
        try:
            node = json.loads(data)
            if {name: node[name] for name in _FORMAT} != _FORMAT:
                raise ValueError
            return sorted(SealedSecret.from_json(row) for row in node["secrets"])
        except (KeyError, TypeError, ValueError):
            why = "upgrade Demiurge if a newer one made it, else restore it from a backup"
            raise Damaged(f"{self.path} is no vault of this version: {why}.") from None

    def _write(self, rows: Mapping[tuple[str, int], SealedSecret]) -> None:
        node = {**_FORMAT, "secrets": [rows[name].to_json() for name in sorted(rows)]}
        write_closed(self.path, json.dumps(node, indent=1).encode() + b"\n")


def _ring(key: Secret) -> KeyRing:
    """A ring of one key, named by a digest of it: another key has another name."""
    try:
        name = hashlib.sha256(b"demiurge vault key\0" + key.reveal().lower().encode()).hexdigest()[:12]
        return KeyRing({name: key.reveal()})
    except Unavailable:
        raise Unavailable(
            "The vault needs a package: pip install 'demiurge-runtime[connections]'.", code="missing_package"
        ) from None


def _associated(alias: str, version: int) -> bytes:
    return json.dumps(["demiurge/secret", alias, version]).encode()
