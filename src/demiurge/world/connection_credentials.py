"""The credentials of a world's connections, which are in the user's secret vault and nowhere in the world.

An entry holds the tokens, and for a connection by OAuth the login that they came from. It belongs to one connection of
one world and holds a digest of what that connection may be used for. So a fork or another world has no credentials for
it, and a journal that was rewritten to allow more opens nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from demiurge.capabilities.oauth.login import OAuthLogin
from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.stores.renewal_lock import renewal_lock
from demiurge.stores.secret_file import CODE
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Credentials, Secret
from demiurge.values import cbor
from demiurge.values.clock import Entropy

__all__ = ["CONNECTION_ALIASES", "ConnectionCredentials", "StoredCredentials"]

CONNECTION_ALIASES: Final = "connection/"
"""The prefix of an entry's alias. No secret of a manifest may have such an alias."""

_VERSION = 1
_TERMS = ("provider", "credential_type", "tenant", "scopes", "tools", "expires_at_ms")


class StoredCredentials(NamedTuple):
    """The entry of a connection in the vault. `login`: None for a token that a person gave."""

    credentials: Credentials
    login: OAuthLogin | None


class ConnectionCredentials:
    """The credentials of one world's connections. `state` is the connection's state in its unit. Methods block on the
    disk, and raise Unavailable without a vault or its key."""

    def __init__(self, vault: SecretVault | None, world_id: str) -> None:
        self._vault, self._prefix = vault, f"{CONNECTION_ALIASES}{world_id}/"

    def put(
        self,
        connection_id: str,
        state: Mapping[str, Any],
        credentials: Credentials,
        entropy: Entropy,
        login: OAuthLogin | None = None,
    ) -> None:
        """Stores the credentials in place of earlier ones; durable on return."""
        sealable = _sealable(state, credentials, login)
        self._there.put(self._prefix + connection_id, _VERSION, sealable, entropy)

    def get(self, connection_id: str, state: Mapping[str, Any]) -> StoredCredentials:
        """Returns the entry. Raises NotFound, and Damaged if it belongs to a connection with other terms."""
        found = self._there.get(self._prefix + connection_id, _VERSION)
        if found is None:
            raise NotFound(f"The vault has no credentials for the connection {connection_id}.", code="no_credentials")
        stored = _opened(state, found)
        if stored is None:
            raise Damaged(f"The credentials of {connection_id} in the vault are those of another connection.")
        return stored

    def lock(self, connection_id: str, seconds: float) -> AbstractContextManager[None]:
        """Returns the lock of an entry, across processes; it blocks for at most about `seconds` (`renewal_lock`)."""
        return renewal_lock(self._there.path.parent, self._prefix + connection_id, seconds)

    def discard(self, connection_id: str) -> bool:
        """Removes the credentials from the vault. Returns whether there were any."""
        return self._there.discard(self._prefix + connection_id, _VERSION)

    def ids(self) -> frozenset[str]:
        """Returns the connections of this world for which the vault has credentials; needs no key."""
        names = self._vault.names() if self._vault is not None else ()
        return frozenset(alias.removeprefix(self._prefix) for alias, _ in names if alias.startswith(self._prefix))

    @property
    def _there(self) -> SecretVault:
        if self._vault is None:
            raise Unavailable("There is no home folder for the secret vault. Set HOME.", code=CODE)
        return self._vault


def _terms(state: Mapping[str, Any]) -> str:
    """Returns a digest of what a connection may be used for."""
    tools = state["tools"]
    terms = {name: state[name] for name in _TERMS}
    terms |= {"scopes": list(state["scopes"]), "tools": None if tools is None else sorted(tools)}
    return cbor.node_ref(terms)


def _sealable(state: Mapping[str, Any], credentials: Credentials, login: OAuthLogin | None) -> Secret:
    entry = {"terms": _terms(state), "credentials": credentials.pack().reveal()}
    return Secret(json.dumps(entry if login is None else {**entry, "oauth": login.to_json()}))


def _opened(state: Mapping[str, Any], found: Secret) -> StoredCredentials | None:
    try:
        kept = json.loads(found.reveal())
        login = OAuthLogin.of_json(kept["oauth"]) if "oauth" in kept else None
        credentials = Credentials.unpack(Secret(kept["credentials"])) if kept["terms"] == _terms(state) else None
    except (KeyError, TypeError, ValueError):
        return None
    return None if credentials is None else StoredCredentials(credentials, login)
