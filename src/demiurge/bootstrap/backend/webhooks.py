"""The webhooks of a world, in the process that owns it: a user's changes to their units, and what the units hold.

The key of a webhook is made here, goes into the user's vault, and is shown to the caller once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from demiurge import faults
from demiurge.bootstrap.backend.webhook_notices import notice_body, webhook_cells
from demiurge.capabilities.http.urls import parse_url
from demiurge.errors import InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Store
from demiurge.tools.connections.credentials import Secret
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock, SystemEntropy, new_id
from demiurge.world.authority.admission import admit
from demiurge.world.effects.webhook import origin_of
from demiurge.world.host import Host
from demiurge.world.unit import Unit
from demiurge.world.webhook_keys import Receiver, WebhookKeys, new_key
from demiurge.world.webhooks import (
    DELIVER,
    GRANT,
    WEBHOOK,
    WEBHOOK_ADD,
    WEBHOOK_NOTIFY,
    WEBHOOK_REMOVE,
    WEBHOOK_ROTATE,
    deliver_params,
    status_problem,
)

__all__ = ["AddedWebhook", "Webhook", "WebhookTest", "add", "listed", "remove", "rotate", "test"]

MAX_NAME: Final = 200
MAX_WEBHOOKS: Final = 32
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of a world. `origin`: scheme, host and port of its receiver. `state`: `stopped` after 410 Gone, a
    refusal by the world's rules, or a missing key. `waiting`: notices that the receiver has not confirmed;
    `next_attempt_at_ms`: the earliest of their next attempts. `problem`: the last error since the last delivery. Times
    are milliseconds since 1970."""

    id: str
    name: str
    origin: str
    state: Literal["active", "stopped"]
    added_by: str
    added_at_ms: int
    rotated_at_ms: int | None
    attempts: int
    delivered: int
    delivered_at_ms: int | None
    waiting: int
    next_attempt_at_ms: int | None
    problem: str | None
    problem_code: str | None
    problem_at_ms: int | None


class AddedWebhook(NamedTuple):
    """A new webhook or a rotated one, and the key that signs for it, which is not shown again."""

    id: str
    key: str


class WebhookTest(NamedTuple):
    """The outcome of a test: the id of its notice, and why the receiver did not confirm it (None: it did)."""

    notice: str
    problem: str | None


async def add(
    host: Host, store: Store, keys: WebhookKeys, url: str, name: str, caller: Caller, clock: Clock
) -> AddedWebhook:
    """Adds a webhook. Raises InvalidValue, UsageError (`not_granted`, `too_many`), Unavailable."""
    parsed = parse_url(url)
    if not name.isprintable() or len(name) > MAX_NAME:
        raise InvalidValue(f"has at most {MAX_NAME} printable characters", path="name")
    if sum(1 for _ in webhook_cells(host, store)) >= MAX_WEBHOOKS:
        raise UsageError(f"A world has at most {MAX_WEBHOOKS} webhooks: remove one first.", code="too_many")
    origin, webhook_id = origin_of(parsed), new_id("hook", SystemEntropy())
    _require_grant(host, webhook_id, origin, caller, clock)
    key = new_key(SystemEntropy())
    await asyncio.to_thread(keys.put, webhook_id, Receiver(Secret(url), [key]), SystemEntropy())
    faults.point("webhook.sealed")
    value = {"webhook_id": webhook_id, "name": name or parsed.host, "origin": origin}
    try:
        await host.submit(WEBHOOK_ADD, value, caller=caller)
    except (InvalidValue, UsageError, NotFound):
        await asyncio.to_thread(keys.discard, webhook_id)
        raise
    faults.point("webhook.added")
    return AddedWebhook(webhook_id, key.reveal())


async def remove(host: Host, keys: WebhookKeys, webhook_id: str, caller: Caller) -> None:
    """Removes a webhook, its key, and the notices that it has not delivered. A process that ends in between leaves a
    webhook without a key, which can be removed again. Raises NotFound."""
    unit, _ = _found(host, webhook_id)
    await asyncio.to_thread(keys.discard, webhook_id)
    faults.point("webhook.discarded")
    await host.submit(WEBHOOK_REMOVE, {"webhook_id": webhook_id}, caller=caller)
    await host.take_up(unit, lambda _intent: False)


async def rotate(host: Host, keys: WebhookKeys, webhook_id: str, caller: Caller) -> AddedWebhook:
    """Makes a new key. The former key signs too until the next rotation. Raises NotFound."""
    _found(host, webhook_id)
    receiver, made = await asyncio.to_thread(keys.get, webhook_id), new_key(SystemEntropy())
    rotated = Receiver(receiver.url, [made, receiver.keys[0]])
    await asyncio.to_thread(keys.put, webhook_id, rotated, SystemEntropy())
    await host.submit(WEBHOOK_ROTATE, {"webhook_id": webhook_id}, caller=caller)
    return AddedWebhook(webhook_id, made.reveal())


async def test(host: Host, webhook_id: str, caller: Caller, clock: Clock) -> WebhookTest:
    """Sends one notice that says that it is a test, once, and waits for the answer. Raises NotFound."""
    unit, cell = _found(host, webhook_id)
    notice_id, now_ns = new_id("msg", SystemEntropy()), clock.now_ns()
    body = notice_body("webhook.test", f"A test of the webhook {cell['name']}.", {"webhook": webhook_id}, now_ns)
    value = {"webhook_id": webhook_id, "notice": notice_id, "call": None, "body": body}
    accepted = await host.submit(WEBHOOK_NOTIFY, value, caller=caller)
    await host.settle(unit)
    return WebhookTest(notice_id, _test_problem(host, unit, accepted.seq, notice_id))


def _test_problem(host: Host, unit: Unit, seq: int, notice_id: str) -> str | None:
    """Returns why a test that record `seq` asked for was not confirmed; None if it was."""
    intent = None
    for record in host.records(unit, seq):
        body = record.body
        if record.kind == "intent" and body["origin"].get("key") == notice_id:
            intent = body["id"]
        elif record.kind == "decision" and body["origin"].get("key") == notice_id:
            return f"The world's rules refused it: {body['message']}."
        elif record.kind == "receipt" and body["intent"] == intent:
            payload = body["payload"]
            return payload["message"] if body["status"] == "error" else status_problem(payload["status"])
    return "It was not sent: this process performs no effects."


def listed(host: Host, store: Store) -> list[Webhook]:
    """Returns the webhooks, oldest first."""
    found = [_listed(unit.key, cell) for unit, cell in webhook_cells(host, store)]
    return sorted(found, key=lambda webhook: (webhook.added_at_ms, webhook.id))


def _listed(webhook_id: str, cell: Mapping[str, Any]) -> Webhook:
    problem = cell["stopped"] or cell["problem"]
    open_notices = [notice for notice in cell["notices"].values() if not notice["is_delivered"]]
    next_ns = min((notice["next_at"] for notice in open_notices if notice["next_at"]), default=None)
    return Webhook(
        id=webhook_id,
        name=cell["name"],
        origin=cell["origin"],
        state="active" if cell["stopped"] is None else "stopped",
        added_by=cell["added_by"],
        added_at_ms=cell["added_at"] // _MS,
        rotated_at_ms=_ms(cell["rotated_at"]),
        attempts=cell["attempts"],
        delivered=cell["delivered"],
        delivered_at_ms=_ms(cell["delivered_at"]),
        waiting=len(open_notices),
        next_attempt_at_ms=_ms(next_ns),
        problem=problem["message"] if problem is not None else None,
        problem_code=problem["code"] if problem is not None else None,
        problem_at_ms=_ms(problem["at"]) if problem is not None else None,
    )


def _require_grant(host: Host, webhook_id: str, origin: str, caller: Caller, clock: Clock) -> None:
    """Raises UsageError (`not_granted`) if the rules in force refuse deliveries to this receiver."""
    manifest = host.manifest
    params, by = deliver_params(webhook_id, origin, "", ""), {"kind": "reducer", "name": WEBHOOK, "key": ""}
    found = admit(manifest, manifest.effects[DELIVER], params, GRANT, by, now_ns=clock.now_ns(), caller=caller)
    if found.verdict != "deny":
        return
    grant = manifest.grants.get(GRANT)
    covered = f"The grant {GRANT} of this world covers {_covered(grant.params)}." if grant is not None else ""
    why = "Its policy has no rule that allows webhook.deliver." if found.code == "policy_denied" else covered
    raise UsageError(
        f"No grant of this world covers {origin} ({found.code}). {why} Set a manifest whose grant {GRANT} (of the cap "
        f"sys/webhook@1) covers this receiver: see docs/webhooks.md.",
        code="not_granted",
    )


def _covered(params: Mapping[str, Any]) -> str:
    """Returns what a grant covers, in words."""
    words = [f"{name} {', '.join(map(str, sorted(params[name])))}" for name in sorted(params) if params[name]]
    return "; ".join(words) or "every public host"


def _found(host: Host, webhook_id: str) -> tuple[Unit, Mapping[str, Any]]:
    unit = Unit(WEBHOOK, webhook_id)
    cell = host.state(unit).cell if webhook_id.isprintable() and webhook_id else None
    if cell is None:
        raise NotFound(f"There is no webhook {webhook_id}; `demiurge webhooks ls` lists them.", code="no_webhook")
    return unit, cell


def _ms(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // _MS
