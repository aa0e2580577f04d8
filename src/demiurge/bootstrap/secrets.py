"""The places of secrets on this machine: the environment, files, the user's vault and its key; and a world's digest
key.

The vault is the user's, not a world's: a world's folder may be copied, shared or found. Its key lies in another folder
than the vault, or in the environment alone. An environment that names no home has no vault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from demiurge.bootstrap.digest_key import DIGEST_KEY, WorldDigestKey
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.protocol import Store
from demiurge.stores.secret_file import CODE
from demiurge.stores.secret_key import read_key, read_or_make_key
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Entropy, SystemEntropy
from demiurge.world.secrets import Secrets

__all__ = ["VaultPlaces", "config_folder", "holds", "open_secrets", "open_vault", "read_secrets", "vault_places"]

KEY_VARIABLE = "DEMIURGE_VAULT_KEY"

_KEY = re.compile(r"[0-9a-fA-F]{64}")


class VaultPlaces(NamedTuple):
    """The vault's file, and the file of its key (None: the key is in the environment)."""

    vault: Path
    key: Path | None


def vault_places(environment: Mapping[str, str]) -> VaultPlaces | None:
    """Returns the places of the vault: `$DEMIURGE_VAULT`, else `vault.json` in the user's data folder; the key is
    `$DEMIURGE_VAULT_KEY`, else in `vault.key` in the user's config folder. None: no home is known."""
    data = _folder(environment, "XDG_DATA_HOME", ".local/share")
    config = config_folder(environment)
    chosen = environment.get("DEMIURGE_VAULT")
    vault = Path(chosen).expanduser() if chosen else data / "vault.json" if data is not None else None
    in_environment = bool(environment.get(KEY_VARIABLE))
    if vault is None or (config is None and not in_environment):
        return None
    return VaultPlaces(vault.absolute(), None if in_environment or config is None else config / "vault.key")


def open_vault(environment: Mapping[str, str], entropy: Entropy | None = None) -> SecretVault | None:
    """Returns the user's vault, which need not be there yet; its key file is made by the first `put`."""
    places = vault_places(environment)
    if places is None:
        return None
    key = places.key
    if key is None:
        return SecretVault(places.vault, lambda: _given(environment), lambda: _given(environment))
    return SecretVault(places.vault, lambda: read_key(key), lambda: read_or_make_key(key, entropy or SystemEntropy()))


def open_secrets(environment: Mapping[str, str], folder: Path, store: Store | None = None) -> Secrets:
    """Returns the secrets for the effects of the world in `folder`."""
    return Secrets(environment, vault=open_vault(environment), digest_key=WorldDigestKey(folder, store).read)


def read_secrets(environment: Mapping[str, str], folder: Path) -> Secrets:
    """Returns the secrets for reading alone: a world without a digest key gets none, and its secrets no digests."""
    key = read_key(folder / DIGEST_KEY)
    known = None if key is None else bytes.fromhex(key.reveal())
    return Secrets(environment, vault=open_vault(environment), digest_key=None if known is None else lambda: known)


def holds(environment: Mapping[str, str], alias: str, version: int) -> bool:
    """Returns whether the user's vault lists this secret, even if its value can't be opened: that is reported where the
    secret is needed. False for a vault that can't be read."""
    vault = open_vault(environment)
    try:
        return vault is not None and (alias, version) in vault.names()
    except DemiurgeError:
        return False


def config_folder(environment: Mapping[str, str]) -> Path | None:
    """Returns the folder of this user's settings; None: no home is known."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config")


def _folder(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    if shared := environment.get(variable):
        return Path(shared) / "demiurge"
    return Path(home) / usual / "demiurge" if (home := environment.get("HOME")) else None


def _given(environment: Mapping[str, str]) -> Secret:
    key = Secret(environment[KEY_VARIABLE].strip())
    if not _KEY.fullmatch(key.reveal()):
        raise Unavailable(f"{KEY_VARIABLE} is not 64 hexadecimal digits: `openssl rand -hex 32` makes some.", code=CODE)
    return key
