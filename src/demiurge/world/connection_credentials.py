"""The credentials of a world's connections, in the user's secret vault and nowhere in the world.

An entry is kept for one connection of one world, together with a digest of what that connection may be used for. So a
fork or another world has no credentials for it, and a journal that somebody rewrote to allow more opens nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.stores.secret_file import CODE
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Credentials, Secret
from demiurge.values import cbor
from demiurge.values.clock import Entropy

__all__ = ["CONNECTION_ALIASES", "ConnectionCredentials"]

CONNECTION_ALIASES: Final = "connection/"
"""How the alias of an entry begins; no secret of a manifest may be kept under such an alias."""

_VERSION = 1
_TERMS = ("provider", "credential_type", "tenant", "scopes", "tools", "expires_at_ms")


class ConnectionCredentials:
    """The credentials of one world's connections. `state` is the connection's, as its unit has it. Methods raise
    Unavailable without a vault or its key, and wait for a disk."""

    def __init__(self, vault: SecretVault | None, world_id: str) -> None:
        self._vault, self._prefix = vault, f"{CONNECTION_ALIASES}{world_id}/"

    def put(self, connection_id: str, state: Mapping[str, Any], credentials: Credentials, entropy: Entropy) -> None:
        """Keeps them in place of those before; durable on return."""
        self._there.put(self._prefix + connection_id, _VERSION, _sealable(state, credentials), entropy)

    def get(self, connection_id: str, state: Mapping[str, Any]) -> Credentials:
        """Raises NotFound, and Damaged for what is not the credentials of a connection with these terms."""
        found = self._there.get(self._prefix + connection_id, _VERSION)
        if found is None:
            raise NotFound(f"The vault has no credentials for the connection {connection_id}.", code="no_credentials")
        credentials = _opened(state, found)
        if credentials is None:
            raise Damaged(f"The credentials of {connection_id} in the vault are those of another connection.")
        return credentials

    def discard(self, connection_id: str) -> bool:
        """Takes them out of the vault; False when there are none."""
        return self._there.discard(self._prefix + connection_id, _VERSION)

    def ids(self) -> frozenset[str]:
        """The connections of this world for which the vault has credentials; needs no key."""
        names = self._vault.names() if self._vault is not None else ()
        return frozenset(alias.removeprefix(self._prefix) for alias, _ in names if alias.startswith(self._prefix))

    @property
    def _there(self) -> SecretVault:
        if self._vault is None:
            raise Unavailable("There is no home folder to keep a vault in.", code=CODE)
        return self._vault


def _terms(state: Mapping[str, Any]) -> str:
    """A digest of what a connection may be used for."""
    tools = state["tools"]
    terms = {name: state[name] for name in _TERMS}
    terms |= {"scopes": list(state["scopes"]), "tools": None if tools is None else sorted(tools)}
    return cbor.node_ref(terms)


def _sealable(state: Mapping[str, Any], credentials: Credentials) -> Secret:
    return Secret(json.dumps({"terms": _terms(state), "credentials": credentials.pack().reveal()}))


def _opened(state: Mapping[str, Any], found: Secret) -> Credentials | None:
    try:
        kept = json.loads(found.reveal())
        credentials = Secret(kept["credentials"]) if kept["terms"] == _terms(state) else None
    except (KeyError, TypeError, ValueError):
        return None
    return None if credentials is None else Credentials.unpack(credentials)
