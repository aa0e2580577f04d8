"""`webhook.deliver`: one attempt to deliver a notice, and which attempts a grant of type `webhook` covers.

Only the module `sys/Webhook@1` asks for it. `url` is the receiver's origin (scheme, host and port), with which a grant
is compared. The whole URL and the key that signs are in the user's vault (`world.webhook_keys`), because the path of a
webhook's URL is often a credential itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.capabilities.http.rules import request_problem
from demiurge.world.effect_kinds.kind import EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import NAT, TEXT, option, record, set_of

__all__ = ["WEBHOOK"]


def _receiver(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return request_problem(grant, "POST", params["url"])


WEBHOOK: Final = EffectFamily(
    cap_type="webhook",
    kinds=(
        EffectKind(
            name="webhook.deliver",
            params=record(webhook=TEXT, url=TEXT, notice=TEXT, body=TEXT, attempt=NAT, not_before_ns=NAT),
            receipt=record(status=NAT),
            origins=("reducer",),
            changes=True,
            typed_receipt="sys/WebhookDelivered@1",
            notes={"url": "scheme, host and port", "not_before_ns": "the attempt waits until then"},
        ),
    ),
    grant=record(
        hosts=option(set_of(TEXT)),
        schemes=option(set_of(TEXT)),
        ports=option(set_of(NAT)),
        internal_networks=option(set_of(TEXT)),
    ),
    grant_notes={"internal_networks": "absent means none"},
    compared={"url": Parameter(TEXT)},
    checks=(_receiver,),
    adapter="demiurge.world.effects.webhook:WebhookDeliveries",
    restart="performed again, with the same notice id",
)
