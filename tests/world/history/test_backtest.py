"""A policy tried on records: which calls it would decide otherwise, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from demiurge.errors import NotFound
from demiurge.tools import ToolEffect, ToolPolicy, ToolPolicyRule
from demiurge.values import canonical_json, cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.history.backtest import backtest
from demiurge.world.record import Record, Stamp, seal_record

UNIT = "ex/Chat@1/a"
EFFECTS = {"look": ToolEffect.READ_ONLY, "send": ToolEffect.EXTERNAL_SIDE_EFFECT}


class World:
    """Records as a kernel writes them: an answer proposes calls, and those that are not denied become intents."""

    def __init__(self, policy: ToolPolicy) -> None:
        self.policy, self.caller = policy, Caller("user")
        toolset = [{"name": name, "effect": effect.value} for name, effect in EFFECTS.items()]
        self.blobs: dict[Ref, bytes] = {}
        self.manifest = self.put(cbor.encode({"tool_policy": policy.to_json(), "toolset": toolset}))

    def put(self, data: bytes) -> Ref:
        self.blobs[ref_of(data)] = data
        return ref_of(data)

    def get(self, ref: Ref) -> bytes:
        if ref not in self.blobs:
            raise NotFound("gone")
        return self.blobs[ref]

    def answers(self, several: Sequence[Sequence[str]]) -> Iterator[Record]:
        seq = 0
        for number, tools in enumerate(several):
            calls = [
                canonical_json.encode({"id": f"c{number}", "name": tool, "arguments_json": "{}"}) for tool in tools
            ]
            payload = {"tool_call_refs": [self.put(call) for call in calls]}
            stamp = Stamp(1, b"e", self.caller, self.manifest)
            body: dict[str, Any] = {"intent": b"", "status": "ok", "payload": payload}
            yield seal_record(UNIT, seq, "receipt", None, stamp, body, b"\0" * 32)
            seq += 1
            for tool in tools:
                effect = EFFECTS.get(tool, ToolEffect.EXTERNAL_SIDE_EFFECT)
                verdict = "deny" if tool not in self.policy.allowed_tools else "allow"
                if verdict != "deny" and effect in self.policy.require_approval_for_effects:
                    verdict = "require_approval"
                if verdict != "deny":
                    params = {"tool": tool, "tool_call_id": f"c{number}", "call_ref": self.manifest}
                    body = {"kind": "tool.call", "params": params, "admitted": {"verdict": verdict}}
                    yield seal_record(UNIT, seq, "intent", seq - 1, Stamp(1), body, b"\0" * 32)
                    seq += 1


ASKING = ToolPolicy(("look", "send"), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (ToolPolicy(("look", "send")), ToolPolicy(), {("look", "allow", "deny"): 2, ("send", "allow", "deny"): 1}),
        (ToolPolicy(), ToolPolicy(("look",)), {("look", "deny", "allow"): 2}),
        (ASKING, ToolPolicy(("look", "send")), {("send", "require_approval", "allow"): 1}),
        (ToolPolicy(("look", "send")), ASKING, {("send", "allow", "require_approval"): 1}),
        (ASKING, ASKING, {}),
        (ToolPolicy(), ToolPolicy(("made_up",)), {("made_up", "deny", "allow"): 1}),
    ],
)
def test_backtest_lists_the_calls_that_the_new_policy_decides_otherwise(
    old: ToolPolicy, new: ToolPolicy, expected: dict[tuple[str, str, str], int]
) -> None:
    world = World(old)
    done = backtest(world.answers([["look", "send"], ["look", "made_up"]]), world.get, new)
    assert {(c.tool, c.recorded, c.would_be): c.count for c in done.changes} == expected
    assert (done.calls, done.unreadable) == (4, 0)
    assert sum(done.decided.values()) == 4


def test_a_backtest_keeps_a_bounded_number_of_example_calls() -> None:
    world = World(ToolPolicy(("look",)))
    several = 5000
    done = backtest(world.answers([["look"]] * several), world.get, ToolPolicy(), shown=3)
    [change] = done.changes
    assert (change.count, len(change.calls)) == (several, 3)
    assert [call.tool_call_id for call in change.calls] == ["c0", "c1", "c2"]


def test_a_value_that_cannot_be_read_is_counted_and_passed_over() -> None:
    world = World(ToolPolicy())
    records = list(world.answers([["look"], ["send"]]))
    lost = records[0].body["payload"]["tool_call_refs"][0]
    del world.blobs[lost]
    done = backtest(records, world.get, ToolPolicy(("look", "send")))
    assert (done.calls, done.unreadable) == (1, 1)
    del world.blobs[world.manifest]
    assert backtest(records, world.get, ToolPolicy()).unreadable == 2


def test_a_rule_decides_on_the_caller_of_the_record_and_is_named() -> None:
    rule = ToolPolicyRule("users-look", roles=("user",), denied_tools=("look",))
    other = ToolPolicyRule("guests", roles=("guest",), denied_tools=("send",))
    world = World(ToolPolicy(("look", "send")))
    world.caller = Caller("ada", "acme", ("user",))
    done = backtest(world.answers([["look", "send"]]), world.get, ToolPolicy(("look", "send"), rules=(rule, other)))
    [change] = done.changes
    assert (change.tool, change.would_be, change.rule, change.count) == ("look", "deny", "users-look", 1)
    world.caller = Caller("user")  # as programs recorded it that knew no roles
    done = backtest(world.answers([["look", "send"]]), world.get, ToolPolicy(("look", "send"), rules=(rule, other)))
    assert done.changes == []
