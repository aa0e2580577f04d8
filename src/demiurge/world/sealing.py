"""Sealed values: secrets encrypted for one vault, so that a world may record them.

Parameters of effects are journaled, and blobs are stored. So a secret that an effect shall keep is passed sealed, under
a key derived from the vault's key for one alias in one world. A sealed value does not open in another world, for
another alias, or with a byte changed; a copy of the world's folder holds only ciphertext.
"""

from __future__ import annotations

import json
from typing import Final

from demiurge.errors import InvalidValue, Unavailable
from demiurge.stores.secret_file import CODE
from demiurge.stores.secret_vault import ALIAS_RULE, NOT_SEALED, SecretVault, is_alias
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS, Secret

__all__ = ["Sealing"]

MAX_BYTES: Final = 4 * MAX_SECRET_CHARACTERS + 256


class Sealing:
    """Seals and opens the values of one world. Without a secret vault nothing is sealed or opened.

    Methods raise InvalidValue (`bad_alias`, `bad_secret`, `sealed_invalid`), Unavailable.
    """

    def __init__(self, vault: SecretVault | None, world_id: str) -> None:
        self._vault, self._world_id = vault, world_id

    @property
    def vault(self) -> SecretVault:
        if self._vault is None:
            raise Unavailable("There is no home folder for the secret vault. Set HOME.", code=CODE)
        return self._vault

    def seal(self, alias: str, value: Secret, salt: bytes) -> bytes:
        """Returns `value`, 1 to 16,384 characters, encrypted for `alias`. The same `salt` and value give the same
        bytes."""
        if not _is_text(value):
            message = f"A secret's value is 1 to {MAX_SECRET_CHARACTERS} characters of UTF-8 text."
            raise InvalidValue(message, code="bad_secret")
        return self.vault.seal(value, self._purpose(alias), salt)

    def open(self, alias: str, sealed: bytes) -> Secret:
        """Returns the value that `seal` encrypted for `alias`."""
        if len(sealed) > MAX_BYTES:
            raise InvalidValue(NOT_SEALED, code="sealed_invalid")
        return self.vault.open(sealed, self._purpose(alias))

    def _purpose(self, alias: str) -> bytes:
        if not is_alias(alias):
            raise InvalidValue(f"A secret's name is {ALIAS_RULE}.", code="bad_alias")
        return json.dumps(["demiurge/sealed", self._world_id, alias]).encode()


def _is_text(value: Secret) -> bool:
    text = value.reveal()
    is_utf8 = not any("\ud800" <= character <= "\udfff" for character in text)
    return is_utf8 and bool(text.strip()) and len(text) <= MAX_SECRET_CHARACTERS
