"""What runs is the tool that was asked for and allowed, whatever a source answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.tools import (
    Decision,
    SpanSink,
    Tool,
    ToolEffect,
    ToolPolicy,
    ToolPolicyContext,
    ToolPolicyRule,
    ToolRunner,
    ToolSpan,
    ToolSpec,
    tool,
)
from demiurge.values import cbor

ran: list[str] = []


@tool(effect=ToolEffect.READ_ONLY)
def look() -> str:
    """Looks."""
    return "looked"


@tool()
def wipe() -> str:
    """Wipes."""
    ran.append("wipe")
    return "wiped"


class Source:
    """One that gives `answer` whatever it is asked for."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, tool_id: str) -> Any:
        return self.answer

    def specs(self) -> tuple[ToolSpec, ...]:
        return (look.spec,)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (look.bound, None),
        (wipe.bound, "unavailable"),
        (None, "unavailable"),
        (look, "policy_denied"),
        (7, "policy_denied"),
    ],
)
def test_a_source_that_answers_with_something_else_has_not_got_the_tool(answer: Any, code: str | None) -> None:
    assert isinstance(wipe, Tool)
    runner = ToolRunner(Source(answer), policy=ToolPolicy(("look",)))
    assert runner.exec_sync("look", {}).error_code == code
    assert ran == []


# Rules for some callers

RULES = ToolPolicy(
    ("look", "wipe"),
    rules=(
        ToolPolicyRule("viewers-look", roles=("viewer",), denied_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,)),
        ToolPolicyRule("leads-mend", roles=("lead",), allowed_tools=("mend",)),
    ),
)


@tool(effect=ToolEffect.STATE_CHANGE)
def mend() -> str:
    """Mends."""
    return "mended"


@pytest.mark.parametrize(
    ("roles", "tool_id", "code", "rule"),
    [
        ((), "look", None, None),
        (("viewer",), "look", None, None),
        (("viewer",), "wipe", "policy_denied", "viewers-look"),
        (("viewer",), "mend", "policy_denied", None),
        (("viewer",), "nobody-has-it", "policy_denied", "viewers-look"),
        (("lead",), "mend", None, "leads-mend"),
        (("lead",), "wipe", None, None),
    ],
)
def test_the_rule_that_decided_is_recorded_and_nobody_else_is_told(
    roles: tuple[str, ...], tool_id: str, code: str | None, rule: str | None
) -> None:
    told: list[Any] = []
    spans: list[ToolSpan] = []
    runner = ToolRunner(
        [look, wipe, mend], policy=RULES, emit=told.append, resources={SpanSink: SimpleNamespace(put=spans.append)}
    )
    result = runner.exec_sync(tool_id, {}, ctx=ToolPolicyContext("r", "ada", "acme", roles))
    assert (result.error_code, result.record.rule) == (code, rule)
    assert result.record.decision == ("allow" if code is None else "deny")
    public = result.record.public()
    assert public.get("rule") == rule
    assert ("rule" in public) is (rule is not None)
    assert cbor.decode(cbor.encode(public)) == public
    assert list(public) == sorted(public, key=lambda name: (len(name), name))
    assert spans[0].attributes.get("rule") == rule
    heard = f"{result.content} {result.safe_message} {told}"
    assert not any(each.name in heard for each in RULES.rules)


def test_a_policy_of_somebodys_own_is_not_said_to_have_used_a_rule() -> None:
    class Closed(ToolPolicy):
        def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
            return "deny"

    runner = ToolRunner([mend], policy=Closed(("look",), rules=RULES.rules[1:]))
    result = runner.exec_sync("mend", {}, ctx=ToolPolicyContext(roles=("lead",)))
    assert (result.error_code, result.record.rule) == ("policy_denied", None)


def test_each_caller_has_the_catalog_of_their_own_rules() -> None:
    runner = ToolRunner([look, wipe, mend], policy=RULES)
    for roles, names in ((("viewer",), ["look"]), ((), ["look", "wipe"]), (("lead",), ["look", "mend", "wipe"])):
        assert list(runner.catalog(ToolPolicyContext(roles=roles)).tools) == names


class Remembers(ToolPolicy):
    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        asked.append((ctx, tool_id, effect))
        return super().decide(ctx, tool_id, effect)


asked: list[tuple[ToolPolicyContext, str, ToolEffect]] = []


def test_the_policy_is_asked_about_the_caller_and_the_tools_own_level_and_of_no_tool_about_the_strictest() -> None:
    asked.clear()
    caller = ToolPolicyContext(run_id="r", actor="user:ada")
    runner = ToolRunner([look], policy=Remembers(("look",)))
    for name in ("look", "gone"):
        runner.exec_sync(name, {}, ctx=caller)
    assert asked == [
        (caller, "look", ToolEffect.READ_ONLY),
        (caller, "gone", ToolEffect.EXTERNAL_SIDE_EFFECT),
    ]
