"""The secret vault of a user: one small file of sealed values, and a key that lies elsewhere.

Invariant: the file holds no value in clear. Each value is sealed for its alias and version
(`tools.connections.keyring`), so it does not open in the place of another. Aliases and versions are readable. Reading
makes no file.

A version that an effect made keeps the id of the effect's intent, so that a repeated attempt finds it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from demiurge.errors import Damaged, InvalidValue, NotFound, Unavailable
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.errors import unavailable
from demiurge.stores.secret_file import CODE, locked_folder, read_private, write_private
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.connections.keyring import KeyRing
from demiurge.values.clock import Entropy, SeededEntropy

__all__ = ["ALIAS_RULE", "NOT_SEALED", "SealedSecret", "SecretVault", "is_alias"]

_LONGEST_ALIAS = 128
ALIAS_RULE = f"1 to {_LONGEST_ALIAS} characters of ASCII, without spaces and '@'"
"""The names that `is_alias` accepts, in words."""
NOT_SEALED = "This blob is no sealed value: make one with `demiurge secrets seal` or `World.seal`."
MAX_BYTES = 16 * 1024 * 1024
_FORMAT = {"format": "demiurge-secrets", "version": 1}
_SEALED = b"demiurge-sealed-1\n"
"""The first bytes of a value that is sealed for storage elsewhere."""


def is_alias(text: str) -> bool:
    """Returns whether a value can be stored under this name (`ALIAS_RULE`)."""
    return text.isascii() and text.isprintable() and 1 <= len(text) <= _LONGEST_ALIAS and not set(text) & set(" @")


class SealedSecret(NamedTuple):
    """One row; `key` is the name of the key that opens it, `intent` the id of the effect that made it, if an effect
    did."""

    alias: str
    version: int
    key: str
    sealed: bytes
    intent: str = ""

    def to_json(self) -> dict[str, Any]:
        row = {**self._asdict(), "sealed": b64encode(self.sealed).decode()}
        return {name: value for name, value in row.items() if value or name != "intent"}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SealedSecret:
        sealed = b64decode(row["sealed"], validate=True)
        return cls(str(row["alias"]), int(row["version"]), str(row["key"]), sealed, str(row.get("intent", "")))


class SecretVault:
    """The vault in the file `path`. `find_key` returns the key as 64 hexadecimal digits, or None; `make_key` makes a
    key if there is none.

    Several processes may use it at the same time. Methods raise Unavailable (code `secret_unavailable` for a vault or a
    key that cannot be trusted or read; `missing_package`; `vault_full`; `unsettled`: the version exists, but a power
    cut may still remove it), Damaged.
    """

    def __init__(self, path: Path, find_key: Callable[[], Secret | None], make_key: Callable[[], Secret]) -> None:
        self.path = path
        self._find_key, self._make_key = find_key, make_key

    def names(self) -> list[tuple[str, int]]:
        """Returns the (alias, version) pairs in order. Needs no key."""
        return [(row.alias, row.version) for row in self._rows()]

    def get(self, alias: str, version: int) -> Secret | None:
        row = next((row for row in self._rows() if (row.alias, row.version) == (alias, version)), None)
        if row is None:
            return None
        ring = _ring(self._key())
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
        """Seals `secret` in place of any earlier value of that version; durable on return."""
        ring = _ring(self._make_key())
        sealed = ring.seal(secret, _associated(alias, version), entropy)
        with locked_folder(self.path.parent):
            rows = self._by_name()
            before = rows.get((alias, version))
            made_by = "" if before is None else before.intent
            rows[alias, version] = SealedSecret(alias, version, ring.newest, sealed, made_by)
            self._write(rows)

    def add(self, alias: str, secret: Secret, intent: str, entropy: Entropy, *, first: bool = True) -> int:
        """Seals `secret` as the next version of `alias`, for the intent with this id, and returns the version; durable
        on return.

        An intent makes one version: if it has made one already, nothing changes. Raises NotFound if this would be the
        first version and `first` is false.
        """
        ring = _ring(self._make_key())
        with locked_folder(self.path.parent):
            rows = self._by_name()
            made = self.version_of(intent)
            if made is not None:
                return made
            version = max((number for name, number in rows if name == alias), default=0) + 1
            if version == 1 and not first:
                why = f"put the first version there with `demiurge secrets set {alias}`"
                raise NotFound(f"There is no {alias} in the secret vault {self.path}: {why}.", code="unknown_alias")
            sealed = ring.seal(secret, _associated(alias, version), entropy)
            rows[alias, version] = SealedSecret(alias, version, ring.newest, sealed, intent)
            try:
                self._write(rows)
            except Unavailable:
                if self.version_of(intent) is None:
                    raise
            return version

    def version_of(self, intent: str) -> int | None:
        """Returns the version that the effect with this id has made, if any; durable on return."""
        made = next((row.version for row in self._rows() if intent and row.intent == intent), None)
        if made is not None:
            try:
                sync_folder(self.path.parent)
            except OSError as error:
                raise Unavailable(unavailable(error, self.path).message, code="unsettled") from None
        return made

    def discard(self, alias: str, version: int) -> bool:
        """Removes one version; returns whether there was one."""
        if (alias, version) not in self.names():
            return False
        with locked_folder(self.path.parent):
            rows = self._by_name()
            taken = rows.pop((alias, version), None)
            self._write(rows)
        return taken is not None

    def seal(self, secret: Secret, purpose: bytes, salt: bytes) -> bytes:
        """Returns `secret` sealed for storage elsewhere, under a key that is derived from the vault's key. The same
        salt, purpose and value give the same bytes; with another salt nobody can tell that the values are equal."""
        key = self._make_key()
        ring = _ring(_derived(key, b"demiurge sealed value"))
        nonces = SeededEntropy(_mac(_derived(key, b"demiurge sealed nonce"), purpose, salt, secret))
        return _SEALED + ring.newest.encode() + ring.seal(secret, purpose, nonces)

    def open(self, sealed: bytes, purpose: bytes) -> Secret:
        """Inverse of `seal`, for the same purpose only. Raises InvalidValue (`sealed_invalid`)."""
        ring = _ring(_derived(self._key(), b"demiurge sealed value"))
        name, rest = sealed[len(_SEALED) :][: len(ring.newest)], sealed[len(_SEALED) + len(ring.newest) :]
        if not sealed.startswith(_SEALED):
            raise InvalidValue(NOT_SEALED, code="sealed_invalid")
        if name != ring.newest.encode():
            raise InvalidValue("This value was not sealed with the key of this secret vault.", code="sealed_invalid")
        try:
            return ring.open(ring.newest, rest, purpose)
        except Damaged:
            message = "This value was sealed for another name or another world, or it is damaged."
            raise InvalidValue(message, code="sealed_invalid") from None

    def _key(self) -> Secret:
        key = self._find_key()
        if key is None:
            why = "set DEMIURGE_VAULT_KEY to its key, or put its key file back"
            raise Unavailable(f"The secret vault {self.path} has no key: {why}.", code=CODE)
        return key

    def _by_name(self) -> dict[tuple[str, int], SealedSecret]:
        return {(row.alias, row.version): row for row in self._rows()}

    def _rows(self) -> list[SealedSecret]:
        data = read_private(self.path, MAX_BYTES)
        if data is None:
            return []
        try:
            node = json.loads(data)
            if {name: node[name] for name in _FORMAT} != _FORMAT:
                raise ValueError
            return sorted(SealedSecret.from_json(row) for row in node["secrets"])
        except (KeyError, TypeError, ValueError):
            why = "upgrade Demiurge if a newer one made it, else restore it from a backup"
            raise Damaged(f"{self.path} is no secret vault of this version: {why}.") from None

    def _write(self, rows: Mapping[tuple[str, int], SealedSecret]) -> None:
        node = {**_FORMAT, "secrets": [rows[name].to_json() for name in sorted(rows)]}
        data = json.dumps(node, indent=1).encode() + b"\n"
        if len(data) > MAX_BYTES:
            why = "take versions that nothing uses out of it with `demiurge secrets rm`"
            raise Unavailable(f"The secret vault {self.path} is full: {why}.", code="vault_full")
        write_private(self.path, data)


def _derived(key: Secret, purpose: bytes) -> Secret:
    return Secret(hmac.digest(bytes.fromhex(key.reveal()), purpose, "sha256").hex())


def _mac(key: Secret, purpose: bytes, salt: bytes, secret: Secret) -> bytes:
    raw = bytes.fromhex(key.reveal())
    return hmac.digest(raw, json.dumps([purpose.hex(), salt.hex(), secret.reveal()]).encode(), "sha256")


def _ring(key: Secret) -> KeyRing:
    """Returns a key ring of one key, named by a digest of it, so that another key has another name."""
    try:
        name = hashlib.sha256(b"demiurge vault key\0" + key.reveal().lower().encode()).hexdigest()[:12]
        return KeyRing({name: key.reveal()})
    except Unavailable:
        raise Unavailable(
            "The secret vault needs a package: pip install 'demiurge-runtime[connections]'.", code="missing_package"
        ) from None


def _associated(alias: str, version: int) -> bytes:
    return json.dumps(["demiurge/secret", alias, version]).encode()
