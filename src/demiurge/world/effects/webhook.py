"""`webhook.deliver`: sends one notice to its receiver, signed by the scheme of Standard Webhooks.

The body is the same at each attempt and so is `webhook-id`; `webhook-timestamp` and the signature are those of the
attempt. Only the status of the answer counts. An attempt that a crash interrupted is made again: a receiver may see a
notice twice, and knows it again by its id.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.http.urls import WebUrl, parse_url
from demiurge.errors import DemiurgeError
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Clock
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.webhook import WEBHOOK
from demiurge.world.effects.binding import WorldParts
from demiurge.world.manifest import Manifest
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent
from demiurge.world.webhook_keys import WebhookKeys, sign
from demiurge.world.webhooks import is_wanted

__all__ = ["WebhookDeliveries", "origin_of"]

TIMEOUT_S: Final = 15.0
"""How long a receiver may take to answer, in seconds."""

PARALLEL: Final = 4
"""How many attempts one webhook may make at the same time. Others wait for a receiver that is slow; other webhooks do
not."""


class WebhookDeliveries:
    """The adapter of `webhook.deliver`. `timeout_s` is for tests."""

    kinds = WEBHOOK.names

    def __init__(
        self, web: GuardedHttp, keys: WebhookKeys, secrets: Secrets, clock: Clock, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._web, self._keys, self._secrets, self._clock, self._timeout_s = web, keys, secrets, clock, timeout_s
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(PARALLEL))

    @classmethod
    def bind(cls, parts: WorldParts) -> WebhookDeliveries:
        return cls(GuardedHttp(), parts.webhook_keys, parts.secrets, parts.clock)

    def due_ns(self, intent: OpenIntent) -> int:
        due: int = intent.params["not_before_ns"]
        return due

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        async with self._slots[call.intent.params["webhook"]]:
            return await self._attempt(call)

    async def _attempt(self, call: EffectCall) -> Result:
        params = call.intent.params
        webhook_id, notice_id, body = params["webhook"], params["notice"], params["body"].encode()
        if not is_wanted(call.intent, call.services.state(call.unit).cell):
            return failed("cancelled", "The notice was withdrawn before this attempt.")
        try:
            receiver = await asyncio.to_thread(self._keys.get, webhook_id)
            url = parse_url(receiver.url.reveal())
            if origin_of(url) != params["url"]:
                return failed("url_changed", "The URL in your vault belongs to another receiver than the webhook's.")
            call.injections.hide(receiver.url)
            for number, key in enumerate(receiver.keys, 1):
                self._hand_out(call, webhook_id, number, key)
            now_s = self._clock.now_ns() // 10**9
            headers = {
                "content-type": "application/json",
                "user-agent": "demiurge",
                "webhook-id": notice_id,
                "webhook-timestamp": str(now_s),
                "webhook-signature": sign(receiver.keys, notice_id, now_s, body),
            }
            status = await self._web.post(call.grant, url, headers, body, self._timeout_s)
        except DemiurgeError as error:
            return failed(error.code, error.message)
        return succeeded(status=status)

    def _hand_out(self, call: EffectCall, webhook_id: str, number: int, key: Secret) -> None:
        """Notes for the receipt that a key was used, and masks it."""
        alias = self._keys.alias(webhook_id)
        call.injections.add(self._secrets.receipt_entry(call, alias, number, key), key)


def origin_of(url: WebUrl) -> str:
    """Returns the part of a URL that the world's records name: scheme, host and port."""
    return f"{url.scheme}://{url.authority}"
