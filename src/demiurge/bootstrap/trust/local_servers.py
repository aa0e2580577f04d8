"""The MCP servers that this user added or adopted, in this world and this folder. No other server is started or asked.

The settings of a server are in the world, and name a program to start, or a URL and the secrets to send to it. A world
may be copied, shared or found. So the digest of the settings that this user accepted is recorded in the user's config
folder, before the world names the server. Other settings need the user again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from demiurge.bootstrap.trust.world_profile import WorldProfile, recall, remember
from demiurge.errors import DemiurgeError
from demiurge.mcp.settings import ServerSettings
from demiurge.values import cbor

__all__ = ["LocalServers", "settings_digest"]

MOST = 128
"""The number of latest digests that are kept."""

_FREE = ("limits",)
"""The settings that start nothing and send nothing."""


def settings_digest(settings: ServerSettings) -> str:
    """Returns the digest of the settings that say what is started or asked, and with which secrets."""
    node = settings.to_json()
    return cbor.digest({name: node[name] for name in node if name not in _FREE}).hex()


class LocalServers:
    """The servers that this user accepted for the world in `folder`. One whose record could not be written counts for
    this process only."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self._here: set[str] = set()

    def add(self, settings: ServerSettings) -> str | None:
        """Records that the user accepts these settings. Returns a warning for the user if the record could not be
        written, else None."""
        digest = settings_digest(settings)
        self._here.add(digest)
        try:
            if remember(self._environment, self._folder, lambda kept: _with(kept, digest)) is not None:
                return None
            why = "There is no home folder: set HOME."
        except DemiurgeError as error:
            why = error.message
        name = settings.name
        return f"Your decision on the MCP server {name} could not be saved, so it counts for this process only. {why}"

    def holds(self, settings: ServerSettings) -> bool:
        """Returns whether the user accepted these settings. False if the user's record can't be trusted."""
        digest = settings_digest(settings)
        try:
            return digest in self._here or digest in (recall(self._environment, self._folder) or WorldProfile()).servers
        except DemiurgeError:
            return False


def _with(kept: WorldProfile, digest: str) -> WorldProfile:
    if digest in kept.servers:
        return kept
    return replace(kept, servers=(*kept.servers, digest)[-MOST:])
