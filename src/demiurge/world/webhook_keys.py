"""The URL and the keys of a world's webhooks, which are in the user's secret vault and nowhere in the world.

An entry belongs to one webhook of one world, so a fork or another world delivers nothing with it. After a rotation the
former key signs as well, until the next rotation, so that the receiver may change its key in between.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.stores.secret_file import CODE
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Entropy

__all__ = ["WEBHOOK_ALIASES", "Receiver", "WebhookKeys", "new_key", "sign"]

WEBHOOK_ALIASES: Final = "webhook-key/"
"""The prefix of an entry's alias. No secret of a manifest may have such an alias."""

KEY_PREFIX: Final = "whsec_"
KEY_BYTES: Final = 32
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Receiver:
    """The whole URL of a webhook, and its keys, newest first: `whsec_` and base64."""

    url: Secret
    keys: Sequence[Secret]


class WebhookKeys:
    """The receivers of one world's webhooks. Methods block on the disk, and raise Unavailable without a vault or its
    key."""

    def __init__(self, vault: SecretVault | None, world_id: str) -> None:
        self._vault, self._prefix = vault, f"{WEBHOOK_ALIASES}{world_id}/"

    def put(self, webhook_id: str, receiver: Receiver, entropy: Entropy) -> None:
        """Stores a receiver in place of the earlier one; durable on return."""
        text = json.dumps({"url": receiver.url.reveal(), "keys": [key.reveal() for key in receiver.keys]})
        self._there.put(self._prefix + webhook_id, _VERSION, Secret(text), entropy)

    def get(self, webhook_id: str) -> Receiver:
        """Returns the receiver. Raises NotFound (`no_key`), Damaged."""
        found = self._there.get(self._prefix + webhook_id, _VERSION)
        if found is None:
            why = f"Your vault has no key for the webhook {webhook_id}: remove it, and add it again."
            raise NotFound(why, code="no_key")
        try:
            kept = json.loads(found.reveal())
            return Receiver(Secret(kept["url"]), [Secret(key) for key in kept["keys"]])
        except (KeyError, TypeError, ValueError):
            raise Damaged(f"The entry of the webhook {webhook_id} in your vault can't be read.") from None

    def alias(self, webhook_id: str) -> str:
        """Returns the name of the webhook's entry in the vault."""
        return self._prefix + webhook_id

    def discard(self, webhook_id: str) -> bool:
        """Removes the receiver from the vault. Returns whether there was one."""
        return self._there.discard(self._prefix + webhook_id, _VERSION)

    @property
    def _there(self) -> SecretVault:
        if self._vault is None:
            raise Unavailable("There is no home folder for the secret vault. Set HOME.", code=CODE)
        return self._vault


def new_key(entropy: Entropy) -> Secret:
    """Returns a new random key in the form of Standard Webhooks."""
    return Secret(KEY_PREFIX + b64encode(entropy.token(KEY_BYTES)).decode())


def sign(keys: Sequence[Secret], notice_id: str, timestamp: int, body: bytes) -> str:
    """Returns the value of `webhook-signature`: for each key `v1,` and the base64 of the HMAC-SHA256 of
    `id.timestamp.body`, separated by spaces."""
    signed = f"{notice_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{b64encode(_mac(key, signed)).decode()}" for key in keys)


def _mac(key: Secret, signed: bytes) -> bytes:
    return hmac.digest(b64decode(key.reveal().removeprefix(KEY_PREFIX)), signed, "sha256")
