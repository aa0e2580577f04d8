"""`backtest`: the decisions that another tool policy would have made on the calls in a journal.

A call is decided under the manifest that was in force when it was proposed, which its record names. So the recorded
decision is read, or computed again from that manifest alone; the other policy is asked about the same tool and effect.
Nothing runs and nothing is written. Records are read one at a time, and memory grows with the number of tools, not of
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import TOOL
from demiurge.world.record import Record, Stamp

__all__ = ["Backtest", "ChangedDecision", "DecidedCall", "backtest"]

Get = Callable[[Ref], bytes]

KEPT_MANIFESTS = 16


class DecidedCall(NamedTuple):
    """A decided call, by the record that shows it. `position` is the record's place in the journal."""

    unit: str
    seq: int
    position: int | None
    tool_call_id: str


@dataclass(slots=True)
class ChangedDecision:
    """Calls of one tool that the other policy would decide differently: how many, and the first of them. `rule` is the
    name of the other policy's rule that would decide, None for its own lists."""

    tool: str
    effect: str
    recorded: Decision
    would_be: Decision
    rule: str | None = None
    count: int = 0
    calls: list[DecidedCall] = field(default_factory=list)


@dataclass(slots=True)
class Backtest:
    """The outcome of a backtest. `calls` counts the calls compared; `unreadable` those that could not be read, because
    a blob is gone or damaged. `decided` counts calls by (recorded, would be)."""

    calls: int = 0
    unreadable: int = 0
    decided: dict[tuple[Decision, Decision], int] = field(default_factory=dict)
    changes: list[ChangedDecision] = field(default_factory=list)


class _Rules(NamedTuple):
    """The tool policy of a manifest, and the effect levels of its tools."""

    policy: ToolPolicy
    effects: Mapping[str, ToolEffect]

    def effect(self, tool: str) -> ToolEffect:
        return self.effects.get(tool, ToolEffect.EXTERNAL_SIDE_EFFECT)


class _Decided(NamedTuple):
    tool: str
    effect: ToolEffect
    caller: Caller
    recorded: Decision
    call: DecidedCall


def backtest(records: Iterable[Record], get: Get, policy: ToolPolicy, *, shown: int = 5) -> Backtest:
    """Decides every recorded call again under `policy`. `records` are in the order of positions, or those of one unit;
    `shown` is the most calls to name of each change."""
    done = Backtest()
    changes: dict[tuple[str, str, Decision, Decision, str], ChangedDecision] = {}
    for found in _decided(records, get):
        if found is None:
            done.unreadable += 1
            continue
        context = ToolPolicyContext.of(found.caller)
        would_be = policy.decide(context, found.tool, found.effect)
        done.calls += 1
        verdicts = found.recorded, would_be
        done.decided[verdicts] = done.decided.get(verdicts, 0) + 1
        if would_be != found.recorded:
            rule = policy.rule_name(context, found.tool, found.effect, would_be)
            change = ChangedDecision(found.tool, found.effect.value, *verdicts, rule)
            change = changes.setdefault((change.tool, change.effect, *verdicts, rule or ""), change)
            change.count += 1
            if len(change.calls) < shown:
                change.calls.append(found.call)
    done.changes = [changes[key] for key in sorted(changes)]
    return done


def _decided(records: Iterable[Record], get: Get) -> Iterator[_Decided | None]:
    """Yields every decided call once; None for a call that cannot be read.

    Allowed calls and calls that a person was asked about are intents, and so are denied calls of newer worlds. Older
    worlds have no intents for denied calls, and nor has an app without the event that a refused call leaves. So denied
    calls are looked for where calls are proposed: in the receipts of a model's answers and in the events that ask for a
    call.
    """

    @lru_cache(KEPT_MANIFESTS)
    def rules(ref: Ref) -> _Rules:
        node = cbor.decode(get(ref))
        effects = {spec["name"]: ToolEffect(spec["effect"]) for spec in node["toolset"]}
        return _Rules(ToolPolicy.from_json(node["tool_policy"]), effects)

    stamp: Stamp | None = None
    for record in records:
        stamp = record.stamp if record.is_ingress else stamp  # a step's records follow their ingress
        if stamp is None or stamp.manifest is None:
            continue
        try:
            if record.kind == "intent" and record.body["kind"] == TOOL:
                decided = _intent(record, rules(stamp.manifest), stamp.caller)
                if decided.recorded != "deny":
                    yield decided
                continue
            for tool, call_id in _proposed(record, get):
                denied = _denied(record, tool, call_id, rules(stamp.manifest))
                if denied is not None:
                    yield denied
        except (DemiurgeError, LookupError):
            yield None


def _intent(record: Record, rules: _Rules, caller: Caller) -> _Decided:
    """Returns the tool policy's decision on an intent, also if something else refused the call."""
    params, admitted = record.body["params"], record.body["admitted"]
    tool, verdict = params["tool"], admitted["verdict"]
    effect = rules.effect(tool)
    if verdict == "deny" or admitted.get("by") == "tool":
        verdict = rules.policy.decide(ToolPolicyContext.of(caller), tool, effect)
    call = DecidedCall(record.unit, record.unit_seq, record.position, params["tool_call_id"])
    return _Decided(tool, effect, caller, verdict, call)


def _proposed(record: Record, get: Get) -> Iterator[tuple[str, str]]:
    """Yields the calls that came in with a record, as (tool, call id)."""
    body = record.body
    if record.kind == "receipt" and body["status"] == "ok" and isinstance(body["payload"], Mapping):
        for ref in body["payload"].get("tool_call_refs") or ():
            call = canonical_json.parse_object(get(ref))
            yield str(call["name"]), str(call["id"])
    elif record.kind == "event" and record.is_ingress and _is_asked(body["value"]):
        request = body["value"]["$value"]
        yield request["tool"], request["call_id"]


def _is_asked(value: Any) -> bool:
    """Returns whether an event's value asks for a person's own call (`apps.demiurge.call_reducer`)."""
    request = value.get("$value") if isinstance(value, Mapping) and value.get("$tag") == "Asked" else None
    return isinstance(request, Mapping) and set(request) == {"call_id", "tool", "call_ref"}


def _denied(record: Record, tool: str, call_id: str, rules: _Rules) -> _Decided | None:
    effect, caller = rules.effect(tool), record.stamp.caller
    recorded = rules.policy.decide(ToolPolicyContext.of(caller), tool, effect)
    call = DecidedCall(record.unit, record.unit_seq, record.position, call_id)
    return _Decided(tool, effect, caller, recorded, call) if recorded == "deny" else None
