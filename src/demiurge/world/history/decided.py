"""`recorded_decisions`: the tool policy's decisions on the calls in a journal, as they were made.

A call is decided under the manifest that was in force when it was proposed, which its record names. So the recorded
decision is read, or computed again from that manifest alone. Records are read one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.authority.observing import observing_policy
from demiurge.world.effect_kinds import TOOL
from demiurge.world.manifest import OBSERVE
from demiurge.world.record import Record, Stamp

__all__ = ["DecidedCall", "Get", "RecordedDecision", "recorded_decisions"]

Get = Callable[[Ref], bytes]

KEPT_MANIFESTS = 16


class DecidedCall(NamedTuple):
    """A decided call, by the record that shows it. `position` is the record's place in the journal."""

    unit: str
    seq: int
    position: int | None
    tool_call_id: str


class _Rules(NamedTuple):
    """The tool policy of a manifest, and the effect levels of its tools. `observing` is the policy that is enforced
    before `until_ns`, while the other one is observed."""

    policy: ToolPolicy
    effects: Mapping[str, ToolEffect]
    observing: ToolPolicy
    until_ns: int

    def at(self, time_ns: int) -> ToolPolicy:
        return self.observing if time_ns < self.until_ns else self.policy

    def effect(self, tool: str) -> ToolEffect:
        return self.effects.get(tool, ToolEffect.EXTERNAL_SIDE_EFFECT)


class RecordedDecision(NamedTuple):
    """The tool policy's decision on a call, as it was recorded. `effect` is the tool's level at that time; `time_ns` is
    wall time; `intent` identifies the effect, None for a call that was denied before it became one. `tainted`: the run
    had read untrusted text."""

    tool: str
    effect: ToolEffect
    caller: Caller
    recorded: Decision
    call: DecidedCall
    time_ns: int
    intent: bytes | None = None
    tainted: bool = False


def recorded_decisions(records: Iterable[Record], get: Get) -> Iterator[RecordedDecision | None]:
    """Yields every decided call once; None for a call that cannot be read.

    Allowed calls and calls that a person was asked about are intents, and so are denied calls of newer worlds. Older
    worlds have no intents for denied calls, and nor has an app without the event that a refused call leaves. So denied
    calls are looked for where calls are proposed: in the receipts of a model's answers and in the events that ask for a
    call. A later leg of a call is no call of its own.
    """

    @lru_cache(KEPT_MANIFESTS)
    def rules(ref: Ref) -> _Rules:
        node = cbor.decode(get(ref))
        effects = {spec["name"]: ToolEffect(spec["effect"]) for spec in node["toolset"]}
        policy = ToolPolicy.from_json(node["tool_policy"])
        trusted = {spec["name"] for spec in node["toolset"] if not spec.get("quarantined")}
        return _Rules(policy, effects, observing_policy(policy, trusted), node.get(OBSERVE, 0))

    stamp: Stamp | None = None
    for record in records:
        stamp = record.stamp if record.is_ingress else stamp  # a step's records follow their ingress
        if stamp is None or stamp.manifest is None:
            continue
        try:
            if record.kind == "intent" and record.body["kind"] == TOOL:
                if "leg" in record.body:
                    continue
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


def _intent(record: Record, rules: _Rules, caller: Caller) -> RecordedDecision:
    """Returns the tool policy's decision on an intent, also if something else refused the call."""
    params, admitted = record.body["params"], record.body["admitted"]
    tool, verdict = params["tool"], admitted["verdict"]
    effect = rules.effect(tool)
    tainted = bool(admitted.get("tainted"))
    if verdict == "deny" or admitted.get("by") == "tool":
        verdict = rules.at(record.stamp.time_ns).decide(ToolPolicyContext.of(caller, tainted=tainted), tool, effect)
    call = DecidedCall(record.unit, record.unit_seq, record.position, params["tool_call_id"])
    return RecordedDecision(tool, effect, caller, verdict, call, record.stamp.time_ns, record.body.get("id"), tainted)


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


def _denied(record: Record, tool: str, call_id: str, rules: _Rules) -> RecordedDecision | None:
    effect, caller, tainted = rules.effect(tool), record.stamp.caller, bool(record.body.get("untrusted"))
    recorded = rules.at(record.stamp.time_ns).decide(ToolPolicyContext.of(caller, tainted=tainted), tool, effect)
    call = DecidedCall(record.unit, record.unit_seq, record.position, call_id)
    if recorded != "deny":
        return None
    return RecordedDecision(tool, effect, caller, recorded, call, record.stamp.time_ns, tainted=tainted)
