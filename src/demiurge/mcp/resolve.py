"""Looks up what the settings of a server refer to, at the moment the server is started."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from demiurge.errors import Unavailable
from demiurge.mcp.settings import ServerSettings, SettingValue, parse_reference
from demiurge.tools.capabilities import SecretName
from demiurge.values.environment import process_environment

__all__ = ["ResolvedSettings", "resolved"]

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """The values of settings. They hold secrets, so they are given to the server and kept nowhere."""

    command: tuple[str, ...]
    cwd: str | None
    url: str | None
    env: dict[str, str] = field(repr=False)
    headers: dict[str, str] = field(repr=False)


async def resolved(
    settings: ServerSettings, secret_of: Callable[[SecretName], str | Awaitable[str]] | None
) -> ResolvedSettings:
    """Returns the settings with the values that they refer to. Raises Unavailable (`setting_missing`) for a variable
    that is not set or a secret that nobody has."""

    async def secret(name: SecretName) -> str:
        if secret_of is None:
            message = f"The server {settings.name} needs the secret {name.alias}, and this program has no secrets."
            raise Unavailable(message, code="setting_missing")
        found = secret_of(name)
        return await found if inspect.isawaitable(found) else found

    async def value(given: SettingValue) -> str:
        if isinstance(given, SecretName):
            return await secret(given)
        parts = []
        at = 0
        for found in _REFERENCE.finditer(given):
            named, default = parse_reference(found[1])
            text = await secret(named) if isinstance(named, SecretName) else _variable(settings.name, named, default)
            parts += [given[at : found.start()], text]
            at = found.end()
        return "".join((*parts, given[at:]))

    async def values(given: Mapping[str, SettingValue]) -> dict[str, str]:
        return {name: await value(item) for name, item in given.items()}

    return ResolvedSettings(
        tuple([await value(word) for word in settings.command]),
        None if settings.cwd is None else await value(settings.cwd),
        None if settings.url is None else await value(settings.url),
        await values(settings.env),
        await values(settings.headers),
    )


def _variable(server: str, name: str, default: str | None) -> str:
    found = process_environment().get(name) or default
    if found is None:
        message = f"The server {server} needs the variable {name}. Set it, then start this program again."
        raise Unavailable(message, code="setting_missing")
    return found
