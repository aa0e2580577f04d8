"""Encrypts secrets for storage: AES-256-GCM under keys with names, so that a key can be replaced.

A sealed secret is `nonce(12) | ciphertext | tag(16)`. It can only be decrypted with its key and the same associated
data, which names its owner: in another row, or for another tenant, it is noise. A failure gives no reason. Needs the
package `cryptography`, imported when a ring is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from demiurge.errors import Damaged, InvalidValue, Unavailable
from demiurge.tools.connections.credentials import Secret, Uncopyable
from demiurge.values.clock import Entropy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["KeyRing"]

_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_TEXT = re.compile(r"[0-9a-fA-F]{64}")
_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


@final
class KeyRing(Uncopyable):
    """Keys by id, oldest first: all of them decrypt, the last one encrypts.

    A key is 32 bytes, or 64 hexadecimal digits as an environment variable holds them (`openssl rand -hex 32`).
    Raises InvalidValue for an empty ring or a malformed key; Unavailable (`missing_package`)."""

    __slots__ = ("_ciphers", "newest")

    def __init__(self, keys: Mapping[str, bytes | str]) -> None:
        self._ciphers: dict[str, AESGCM] = {}
        cipher = _cipher()
        problem = _problem(keys)
        if cipher is None or problem:
            keys = {}  # a traceback may show this frame's variables
            if cipher is None:
                raise Unavailable(
                    "Secrets and connections need a package: pip install 'demiurge-runtime[connections]'.",
                    code="missing_package",
                )
            raise InvalidValue(problem, path="keys")
        self._ciphers = {name: cipher(_raw(key)) for name, key in keys.items()}
        self.newest = next(reversed(self._ciphers))
        """The id of the key that encrypts."""

    def __repr__(self) -> str:
        return f"<keys {', '.join(self._ciphers)}>"

    def seal(self, secret: Secret, associated: bytes, entropy: Entropy) -> bytes:
        """Returns the secret encrypted under the newest key, with 12 new random bytes of `entropy`."""
        nonce = entropy.token(_NONCE_BYTES)
        return nonce + self._ciphers[self.newest].encrypt(nonce, secret.reveal().encode(), associated)

    def open(self, key_id: str, sealed: bytes, associated: bytes) -> Secret:
        """The inverse of `seal`. Raises Damaged (`sealed`): the key, the bytes or the associated data are wrong."""
        secret = self._opened(key_id, sealed, associated)
        if secret is None:
            raise Damaged(
                "The stored credentials can't be decrypted with these keys. Restore the missing key.",
                code="sealed",
            )
        return secret

    def _opened(self, key_id: str, sealed: bytes, associated: bytes) -> Secret | None:
        cipher = self._ciphers.get(key_id)
        if cipher is None or len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            return None
        try:
            return Secret(cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], associated).decode())
        except Exception:  # noqa: BLE001  (the reason must not leak)
            return None


def _cipher() -> type[AESGCM] | None:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        return None
    return AESGCM


def _raw(key: bytes | str) -> bytes:
    return bytes.fromhex(key) if isinstance(key, str) else key


def _problem(keys: object) -> str:
    if not isinstance(keys, Mapping) or not keys:
        return "at least one key by its id is needed"
    for name, key in keys.items():
        if not isinstance(name, str) or not _KEY_ID.fullmatch(name):
            return "a key's id is 1 to 64 letters, digits, '.', '_' or '-'"
        fits = _KEY_TEXT.fullmatch(key) if isinstance(key, str) else isinstance(key, bytes) and len(key) == _KEY_BYTES
        if not fits:
            return f"key {name} is not 32 bytes or 64 hexadecimal digits"
    return ""
