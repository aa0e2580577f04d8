"""The standing rules of a world: made from a call that waits, listed, ended."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from demiurge.apps.demiurge import CALLS, CHAT
from demiurge.bootstrap.backend.owner import Owner
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy
from demiurge.values.refs import Ref
from demiurge.world.authority.standing_rule import (
    BOUND,
    MAX_CALLS,
    MAX_LIFETIME_NS,
    MAX_RULES,
    check_pattern,
    exactly,
    rule_id,
)
from demiurge.world.host import Host
from demiurge.world.host.decisions import MAX_REASON
from demiurge.world.unit import Unit

__all__ = ["allow", "forget", "listed"]

_SECOND: Final = 10**9


async def allow(
    owner: Owner, approval_id: str, pattern_json: str | None, count: int, lasts_s: float, reason: str, caller: Caller
) -> dict[str, Any]:
    """Makes a rule from the waiting call `approval_id`, which it allows as its first. Returns the rule as `listed`
    does. See `calls.RunCalls.allow`."""
    host = await owner.host()
    unit, asked = _waiting(host, approval_id)
    host.decisions.require_approver(asked.id, caller)
    assert asked.approval is not None
    if asked.is_question:
        why = "No rule can answer a question in a person's place: `demiurge approvals answer` takes an answer."
        raise UsageError(why, code="answer_needed")
    if asked.approval.get("tainted"):
        why = (
            f"This call is asked about because its turn has read text from {', '.join(asked.approval['tainted'])}, "
            "which is not trusted. No rule answers such calls: approve this one alone."
        )
        raise UsageError(why, code="tainted_call")
    if not 1 <= count <= MAX_CALLS:
        raise InvalidValue(f"a rule allows 1 to {MAX_CALLS} calls", path="count")
    if not 0 < lasts_s * _SECOND <= MAX_LIFETIME_NS:
        raise InvalidValue(f"a rule lasts at most {MAX_LIFETIME_NS // (24 * 3600 * _SECOND)} days", path="lasts_s")
    if len(reason) > MAX_REASON:
        raise InvalidValue(f"a reason has at most {MAX_REASON} characters", path="reason")
    state = host.state(unit)
    if len(state.rules) >= MAX_RULES:
        why = f"{unit} has {MAX_RULES} rules already; end one with `demiurge approvals forget`."
        raise Conflict(why, code="too_many_rules")
    call = canonical_json.parse_object(host.get_blob(Ref(asked.params["call_ref"])))
    arguments = canonical_json.parse_object(call["arguments_json"])
    if pattern_json is None:
        pattern_json = canonical_json.encode(exactly(arguments)).decode()
    body: dict[str, Any] = {
        "bound": {name: asked.approval[name] for name in BOUND},
        "pattern": check_pattern(pattern_json),
        "expires_ns": owner.clock.now_ns() + int(lasts_s * _SECOND),
        "count": count,
        "reason": reason,
        "by": caller.actor,
        "nonce": SystemEntropy().token(16),
    }
    made = rule_id(state.world, str(unit), body)
    warning = await asyncio.to_thread(owner.local_approvals.add_rule, made)
    if warning is not None and warning not in owner.notices:
        owner.notices.append(warning)
    if owner.units_with_rules is not None:
        owner.units_with_rules.add(str(unit))
    await host.note(unit, "approval_rule", f"rule:{made}", body, caller=caller)
    return {"id": made, "unit": str(unit), "tool": body["bound"]["tool"], "pattern_json": body["pattern"]}


def listed(host: Host, owner: Owner, of: str | None) -> list[dict[str, Any]]:
    """Returns the rules that hold, of one unit or of all chats, those that end first before the others."""
    now_ns = owner.clock.now_ns()
    found = []
    for unit in [Unit.parse(of)] if of is not None else _units(host, owner):
        for rule in host.state(unit).rules.values():
            if rule["expires_ns"] > now_ns:
                shown = {name: rule[name] for name in ("id", "expires_ns", "left", "by", "reason", "at_ms")}
                bound = {name: rule["bound"][name] for name in BOUND}
                found.append({**shown, **bound, "unit": str(unit), "pattern_json": rule["pattern"]})
    return sorted(found, key=lambda rule: (rule["expires_ns"], rule["id"]))


async def forget(owner: Owner, rule: str, caller: Caller) -> None:
    """Ends a rule. Raises NotFound if no rule with this id holds."""
    host = await owner.host()
    for found in listed(host, owner, None):
        if found["id"] == rule:
            body = {"id": rule, "by": caller.actor}
            await host.note(Unit.parse(found["unit"]), "approval_rule_ended", f"rule-ended:{rule}", body, caller=caller)
            return
    raise NotFound(f"No standing rule has the id {rule!r}; `demiurge approvals rules` lists them.", code="no_rule")


def _waiting(host: Host, approval_id: str) -> tuple[Unit, Any]:
    """Raises NotFound, Conflict (`decided`)."""
    try:
        intent_id = bytes.fromhex(approval_id)
    except ValueError:
        raise NotFound(f"There is no request for approval {approval_id!r}.") from None
    unit, asked = host.intent(intent_id)
    if unit is None or asked is None or not asked.awaits_approval:
        raise host.decisions.refusal(intent_id)
    return unit, asked


def _units(host: Host, owner: Owner) -> list[Unit]:
    """Returns the units that may have rules. The first call reads every unit in which calls can wait; only `allow` adds
    to them after that."""
    if owner.units_with_rules is None:
        heads = [head for module in (CHAT, CALLS) for head in owner.store.heads(f"{module}/")]
        owner.units_with_rules = {head.unit for head in heads if host.state(Unit.parse(head.unit)).rules}
    return [Unit.parse(unit) for unit in sorted(owner.units_with_rules)]
