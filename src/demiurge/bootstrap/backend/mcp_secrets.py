"""The secrets that the settings of MCP servers name: found where the world's manifest or the user's vault has them, and
masked in what calls of these servers record and show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from demiurge.errors import Unavailable
from demiurge.mcp.settings import ServerSettings, looks_like_credential, references
from demiurge.tools.capabilities import SecretName
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.execution.secret_mask import HideSecret
from demiurge.world.manifest import DeclaredSecret, Manifest
from demiurge.world.secrets import Secrets, how_to_set

__all__ = ["McpSecrets"]


class McpSecrets:
    """The secrets of one owner's servers. `manifest` returns the manifest in force: a secret that it declares is looked
    for where it says, any other one in the user's vault. `environment`: where `${NAME}` of settings is looked up."""

    def __init__(
        self, secrets: Secrets, manifest: Callable[[], Manifest], environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self._secrets, self._manifest, self._environment = secrets, manifest, environment
        self._handed: dict[SecretName, list[Secret]] = {}
        """The values that were handed out, of each name the latest last."""

    async def value(self, name: SecretName) -> str:
        """Returns the value of a secret. Raises Unavailable (`secret_unavailable`, `secret_not_allowed`)."""
        found = await asyncio.to_thread(self._find, name)
        handed = self._handed.setdefault(name, [])
        if found.reveal() not in [secret.reveal() for secret in handed]:
            handed.append(found)
        return found.reveal()

    async def prepare(self, settings: ServerSettings) -> None:
        """Looks up the secrets of a server that were not handed out yet, so that they can be masked. Raises as
        `value`."""
        for name in settings.secrets:
            if name not in self._handed:
                await self.value(name)

    def hide(self, settings: ServerSettings, hide: HideSecret | None) -> None:
        """Masks the secrets of a server, and its variables with the name of a credential."""
        if hide is None:
            return
        for name in settings.secrets:
            for secret in self._handed.get(name, ()):
                hide(secret)
        for secret in self._of_environment(settings):
            hide(secret)

    def _of_environment(self, settings: ServerSettings) -> Iterator[Secret]:
        values = (*settings.command, *settings.env.values(), *settings.headers.values(), settings.url or "")
        for name in (each for value in values if isinstance(value, str) for each in references(value)):
            text = self._environment().get(name, "") if isinstance(name, str) else ""
            if isinstance(name, str) and text and looks_like_credential(name, text):
                yield Secret(text)

    def _find(self, name: SecretName) -> Secret:
        declared = self._manifest().secret(name.alias, name.version)
        if declared is None:
            declared = DeclaredSecret(name.alias, name.version, (f"vault:{name.alias}",))
        if declared.allowed_caps is not None or declared.allowed_plans is not None:
            message = f"The manifest gives the secret {declared} to some effects only, and not to MCP servers."
            raise Unavailable(message, code="secret_not_allowed")
        found = self._secrets.find(declared)
        if found is None:
            message = f"The secret {declared} has no value: {how_to_set(declared)}."
            raise Unavailable(message, code="secret_unavailable")
        return found
