"""Secrets: names in the journal, values only in the copy that an adapter is handed.

A `sys/TextOrSecretRef@1` names `alias@version`; the manifest binds it to places such as `env:NAME` (seed 001). Nothing
but the adapter that needs the value ever asks for it, and what it got is never stored, logged or put into an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import Unavailable
from demiurge.world.manifest import Manifest

__all__ = ["Secrets"]


class Secrets:
    """Resolves secret refs against an environment mapping that the composition root passes in."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def resolve(self, manifest: Manifest, value: Mapping[str, Any] | None) -> str:
        """The secret's text. Raises Unavailable (`secret_unavailable`) with what to set; a literal is refused."""
        if value is None or value["$tag"] != "secret":
            raise Unavailable("A key must be named as a secret, never written out.", code="secret_unavailable")
        alias, version = value["$value"]["alias"], value["$value"]["version"]
        secret = manifest.secrets.get((alias, version))
        if secret is None:
            raise Unavailable(f"There is no secret {alias}@{version}.", code="secret_unavailable")
        names = [binding.removeprefix("env:") for binding in secret.bindings]
        for name in names:
            found = self._environment.get(name, "").strip()
            if found:
                return found
        wanted = " or ".join(names)
        raise Unavailable(f"No key for the model: set {wanted} in the environment.", code="secret_unavailable")
