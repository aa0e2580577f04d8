"""`vault.put` and `vault.rotate`: a new version of a secret in the user's secret vault, for plans and tools.

Invariant: no parameter and no receipt holds a value. `vault.put` names a sealed blob (`world.sealing`), and
`vault.rotate` draws a value here. The vault stores each version with the id of its intent, so an attempt without a
receipt finds out whether the version was made: one intent never makes two.
"""

from __future__ import annotations

import asyncio
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue, Unavailable
from demiurge.tools.capabilities import SecretName
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.worker import to_the_end
from demiurge.values.clock import Entropy
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.vault import VAULT
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.effects.blob import resolve_input_blob
from demiurge.world.manifest import Manifest
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent

__all__ = ["VaultEffects", "WorldVaultAccess"]

LEAST, MOST, USUAL = 16, 256, 32
"""How many random bytes `vault.rotate` draws: at least, at most, by default."""


class VaultEffects:
    """The adapter of `vault.*`. `entropy` gives fresh values; `secrets` computes digests."""

    kinds = VAULT.names

    def __init__(self, secrets: Secrets, sealing: Sealing, entropy: Entropy) -> None:
        self._secrets, self._sealing, self._entropy = secrets, sealing, entropy

    @classmethod
    def bind(cls, parts: WorldParts) -> VaultEffects:
        return cls(parts.secrets, parts.sealing, parts.entropy)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "reconcile": the vault knows whether it has the version of this intent."""
        return "reconcile"

    async def perform(self, call: EffectCall) -> Result:
        try:
            return await self._perform(call)
        except DemiurgeError as error:
            if isinstance(error, Unavailable) and error.code == "unsettled":
                call.stalled = error
            return failed(error.code, error.message)

    async def _perform(self, call: EffectCall) -> Result:
        intent, alias = call.intent.id.hex(), call.intent.params["alias"]
        vault, rotates = self._sealing.vault, call.intent.kind == "vault.rotate"
        version = vault.version_of(intent)
        if version is None:
            value = self._fresh(call) if rotates else await self._unsealed(call)
            version = await to_the_end(partial(vault.add, alias, value, intent, self._entropy, first=not rotates))
        kept = vault.get(alias, version)
        if kept is None:
            raise Unavailable(f"{alias}@{version} was taken out of the vault.", code="secret_unavailable")
        previous = {"previous_version": version - 1} if rotates else {}
        return succeeded(**self._secrets.receipt_entry(call, alias, version, kept), **previous)

    async def _unsealed(self, call: EffectCall) -> Secret:
        """Returns the value in the blob, if it is the value that the plan expects."""
        params = call.intent.params
        value = self._sealing.open(params["alias"], call.get_blob(await resolve_input_blob(call, params["value_ref"])))
        expected = params["expected_digest"]
        if expected is not None:
            digest = self._secrets.digest_for(call, params["alias"], value) or ""
            if not hmac.compare_digest(digest.encode(), expected.encode()):
                message = "The sealed value has another digest: expect the one that `secrets seal --json` prints."
                raise InvalidValue(message, code="digest_mismatch")
        return value

    def _fresh(self, call: EffectCall) -> Secret:
        size = call.intent.params["bytes"]
        size = USUAL if size is None else size
        if not LEAST <= size <= MOST:
            raise InvalidValue(f"A fresh value is made of {LEAST} to {MOST} bytes.", code="bad_size")
        return Secret(urlsafe_b64encode(self._entropy.token(size)).decode().rstrip("="))


class WorldVaultAccess:
    """The `VaultAccess` capability of a running tool."""

    def __init__(self, call: EffectCall, sealing: Sealing) -> None:
        self._call, self._sealing = call, sealing

    async def put(self, alias: str, value: Secret) -> SecretName:
        """Stores a new version of a secret. The call's id is the salt of the sealed value, so a handler that runs again
        asks for the same."""
        try:
            sealed = await asyncio.to_thread(self._sealing.seal, alias, value, self._call.intent.id)
        except DemiurgeError as error:
            raise ToolUserError(error.message) from None
        ref = await self._call.put_blob(sealed)
        return _name(await ask(self._call, "vault.put", alias=alias, value_ref=ref, expected_digest=None))

    async def rotate(self, alias: str, *, size: int | None = None) -> SecretName:
        return _name(await ask(self._call, "vault.rotate", alias=alias, bytes=size))


def _name(kept: Mapping[str, Any]) -> SecretName:
    return SecretName(kept["alias"], kept["version"])
