"""`world.webhooks`: URLs that are told when a call waits for a person."""

from __future__ import annotations

from dataclasses import dataclass, field

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.webhooks import AddedWebhook, Webhook, WebhookTest

__all__ = ["Webhooks"]


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of the world behind `backend`. Only a `user` may list or change them (UsageError, `role_missing`).
    See docs/webhooks.md for what a receiver gets. Methods raise Unavailable."""

    backend: Backend = field(repr=False)

    async def add(self, url: str, name: str = "") -> AddedWebhook:
        """Adds a webhook and returns its id and the key that signs, which is not shown again. `name`: for people, by
        default the URL's host. Raises InvalidValue, UsageError (`not_granted`: no grant of the world covers the URL's
        host, scheme and port; `too_many`)."""
        return await self.backend.run.add_webhook(url, name)

    async def list(self) -> list[Webhook]:
        """Returns the webhooks, oldest first."""
        return await self.backend.read.webhooks()

    async def test(self, webhook_id: str) -> WebhookTest:
        """Sends one notice that says that it is a test, and waits for the answer. If the receiver confirms it, a
        stopped webhook goes on. Raises NotFound."""
        return await self.backend.run.test_webhook(webhook_id)

    async def rotate(self, webhook_id: str) -> AddedWebhook:
        """Makes a new key, which is not shown again. The former key signs too until the next rotation. Raises
        NotFound."""
        return await self.backend.run.rotate_webhook(webhook_id)

    async def remove(self, webhook_id: str) -> None:
        """Removes a webhook, its key, and the notices that it has not delivered. Raises NotFound."""
        await self.backend.run.remove_webhook(webhook_id)
