"""The module `sys/Webhook@1`: one unit for each webhook, with the notices that its receiver has not confirmed.

The host tells each webhook which calls wait for a person (`Notify`) and which no longer do (`Withdraw`). The reducer
asks for one effect, `webhook.deliver`, for each attempt. If an attempt fails, the reducer asks for the next one, with a
time before which it must not begin. So each attempt is an intent under a grant with a receipt, and a notice that was
not confirmed survives the process.

A notice is retried until a 2xx, or until it is withdrawn. 410 Gone, a refusal by the rules of the world, and a missing
key stop the webhook; a test that the receiver confirms lets it go on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.world.reducer import EffectRequest, Reducer, ReducerContext, Step
from demiurge.world.state import OpenIntent

__all__ = [
    "DELIVER",
    "FIRST_S",
    "GRANT",
    "LONGEST_S",
    "WEBHOOK",
    "WEBHOOK_ADD",
    "WEBHOOK_NOTIFY",
    "WEBHOOK_REMOVE",
    "WEBHOOK_ROTATE",
    "WEBHOOK_WITHDRAW",
    "deliver_params",
    "is_wanted",
    "status_problem",
    "webhook_reducer",
]

WEBHOOK: Final = "sys/Webhook@1"
DELIVER: Final = "webhook.deliver"
GRANT: Final = "cap_webhook"
"""The name of the grant under which every webhook delivers."""

WEBHOOK_ADD: Final = "sys/WebhookAdd@1"
WEBHOOK_REMOVE: Final = "sys/WebhookRemove@1"
WEBHOOK_ROTATE: Final = "sys/WebhookRotate@1"
WEBHOOK_NOTIFY: Final = "sys/WebhookNotify@1"
WEBHOOK_WITHDRAW: Final = "sys/WebhookWithdraw@1"

FIRST_S, LONGEST_S = 5, 3600
"""The wait after the first failed attempt, and the longest one, in seconds. Each wait is twice the one before, and up
to half of it is left out at random."""

_SECOND: Final = 10**9
_GONE: Final = 410

_RETRIED: Final = frozenset(
    (
        *("address_refused", "cancelled", "connect_failed", "connection_broken", "effect_failed", "gave_up"),
        *("name_not_found", "not_confirmed", "secret_unavailable", "timeout", "tls_failed", "unknown_outcome"),
    )
)
"""The errors of an attempt that a later attempt may not have. Any other error stops the webhook: a refusal by the rules
comes at once, so that asking again would never end."""


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of a webhook. A webhook that was removed ignores everything that still comes."""
    tag, value = event["$tag"], event["$value"]
    if tag == "Delivered":
        if context.origin != "derived":
            raise InvalidValue("a receipt comes from an effect")
        return _on_receipt(state, value, context) if state is not None else Step()
    if context.origin != "external" or "user" not in context.stamp.caller.roles:
        raise InvalidValue("only a user and the host change a webhook")
    if tag == "Add":
        return _added(value, context) if state is None else Step()
    if state is None:
        return Step()
    if tag == "Remove":
        return Step(delete=True)
    if tag == "Rotate":
        return Step(set={"rotated_at": context.stamp.time_ns})
    if tag == "Withdraw":
        return Step(set={"notices": _without(state, value["notices"])})
    return _notified(state, value, context)


def deliver_params(
    webhook: str, origin: str, notice: str, body: str, attempt: int = 1, not_before_ns: int = 0
) -> dict[str, Any]:
    """Returns the parameters of `webhook.deliver`."""
    when = {"attempt": attempt, "not_before_ns": not_before_ns}
    return {"webhook": webhook, "url": origin, "notice": notice, "body": body, **when}


def is_wanted(intent: OpenIntent, cell: Mapping[str, Any] | None) -> bool:
    """Returns whether the notice of a delivery is still to be confirmed, by the webhook's `cell`."""
    return cell is not None and intent.params["notice"] in cell["notices"]


def _added(value: Mapping[str, Any], context: ReducerContext) -> Step:
    made = {"added_by": context.stamp.actor, "added_at": context.stamp.time_ns, "resumed": 0, "notices": {}}
    return Step(set={"name": value["name"], "origin": value["origin"], "attempts": 0, "delivered": 0, **made})


def _notified(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes a notice. A webhook that is stopped delivers tests alone: notices without a call."""
    is_test = value["call"] is None
    if value["notice"] in state["notices"] or (state["stopped"] is not None and not is_test):
        return Step()
    notice = {"call": value["call"], "body": value["body"], "attempts": 0, "is_delivered": False}
    notice["next_at"] = context.stamp.time_ns
    params = deliver_params(context.key, state["origin"], value["notice"], value["body"])
    return Step(
        set={"notices": {**state["notices"], value["notice"]: notice}},
        effects=[EffectRequest(DELIVER, params, key=value["notice"])],
    )


def _on_receipt(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the outcome of an attempt. `key` is the notice, which may have been withdrawn."""
    now_ns, notice_id = context.stamp.time_ns, value["key"]
    notice, attempts = state["notices"].get(notice_id), state["attempts"] + 1
    problem = _problem(value, now_ns)
    if problem is None:
        return Step(set={"attempts": attempts, **_confirmed(state, notice_id, notice, now_ns)})
    if problem["code"] not in _RETRIED:
        kept = {each: one for each, one in state["notices"].items() if one["is_delivered"]}
        return Step(set={"attempts": attempts, "problem": problem, "stopped": problem, "notices": kept})
    if notice is None or notice["call"] is None:
        return Step(set={"attempts": attempts, "problem": problem, "notices": _without(state, [notice_id])})
    failed = notice["attempts"] + 1
    next_ns = now_ns + _wait_ns(failed, context.entropy(notice_id))
    later = {**notice, "attempts": failed, "next_at": next_ns}
    params = deliver_params(context.key, state["origin"], notice_id, notice["body"], failed + 1, next_ns)
    return Step(
        set={"attempts": attempts, "problem": problem, "notices": {**state["notices"], notice_id: later}},
        effects=[EffectRequest(DELIVER, params, key=notice_id)],
    )


def _confirmed(
    state: Mapping[str, Any], notice_id: str, notice: Mapping[str, Any] | None, now_ns: int
) -> dict[str, Any]:
    """Returns the fields that change when the receiver confirms a notice. The notice of a call is kept, so that the
    call is not announced again. A confirmation lets a stopped webhook go on."""
    changed: dict[str, Any] = {"delivered": state["delivered"] + 1, "delivered_at": now_ns, "problem": None}
    if notice is not None and notice["call"] is not None:
        done = {**notice, "attempts": notice["attempts"] + 1, "next_at": None, "is_delivered": True}
        changed["notices"] = {**state["notices"], notice_id: done}
    else:
        changed["notices"] = _without(state, [notice_id])
    if state["stopped"] is not None:
        changed |= {"stopped": None, "resumed": state["resumed"] + 1}
    return changed


def _problem(receipt: Mapping[str, Any], now_ns: int) -> dict[str, Any] | None:
    """Returns why the receiver did not confirm a notice, None if it did."""
    if receipt["error"] is not None:
        return {"at": now_ns, **receipt["error"]}
    status = receipt["payload"]["status"]
    message = status_problem(status)
    code = "gone" if status == _GONE else "not_confirmed"
    return None if message is None else {"at": now_ns, "code": code, "message": message}


def status_problem(status: int) -> str | None:
    """Returns what is wrong with the status of an answer, None for a 2xx."""
    if 200 <= status < 300:
        return None
    hint = " Redirects are not followed: add a webhook with the final URL." if 300 <= status < 400 else ""
    return f"The receiver answered {status}{' Gone' if status == _GONE else ''}.{hint}"


def _without(state: Mapping[str, Any], notices: Sequence[str]) -> dict[str, Any]:
    return {notice_id: notice for notice_id, notice in state["notices"].items() if notice_id not in notices}


def _wait_ns(failed: int, entropy: bytes) -> int:
    """Returns how long to wait after `failed` failed attempts."""
    longest = min(LONGEST_S, FIRST_S << min(failed - 1, 20)) * _SECOND
    return longest - longest * int.from_bytes(entropy[:4], "big") // (1 << 33)


def webhook_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
