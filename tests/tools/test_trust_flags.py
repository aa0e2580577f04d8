"""A spec says whether its results are other people's text, and whether a person has to trust its wording first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools import (
    InMemoryApprovals,
    PromptValidationError,
    Redaction,
    Tool,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolFailure,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpec,
    tool,
)
from demiurge.tools.bound import BoundTool
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.values.caller import Caller

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}
RAN: list[Any] = []


def handle(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    RAN.append(arguments)
    return ToolResult("It is noon.", arguments)


def server_tool(**flags: Any) -> BoundTool:
    public, effect = Redaction.allow("zone"), ToolEffect.READ_ONLY
    return foreign_tool("mcp__time__now", "Tells the time.", SCHEMA, handle, redaction=public, effect=effect, **flags)


@tool(effect=ToolEffect.READ_ONLY, untrusted=True)
def read_mail(box: str) -> str:
    """Reads a mail."""
    return "Dear reader."


@tool(effect=ToolEffect.READ_ONLY)
def count_mails(box: str) -> int:
    """Counts the mails."""
    return 1


def test_a_spec_without_flags_has_the_hash_that_it_had_before_there_were_flags() -> None:
    plain = {"name": "a", "description": "A.", "input_schema": {"type": "object"}, "effect": "read_only"}
    spec = ToolSpec.from_json({**plain, "redaction": Redaction().to_json()})
    assert set(spec.to_json()) == {*plain, "redaction"}
    assert spec.spec_hash == "sha256:a85eae93f0402b5b3bfa5c63092751fb9d2f25fba0a7d1ed56e1e3521377222d"


@pytest.mark.parametrize("flag", ["untrusted", "quarantined"])
def test_each_flag_is_recorded_changes_the_hash_and_is_read_back(flag: str) -> None:
    plain, marked = server_tool().spec, server_tool(**{flag: True}).spec
    assert marked.to_json()[flag] is True
    assert marked.spec_hash != plain.spec_hash
    again = ToolSpec.from_json(json.loads(json.dumps(marked.to_json())))
    assert again == marked
    assert getattr(again, flag) is True


def test_a_flag_that_is_no_truth_value_is_refused() -> None:
    for flag in ("untrusted", "quarantined"):
        with pytest.raises(InvalidValue) as caught:
            ToolSpec.from_json({**server_tool().spec.to_json(), flag: "yes"})
        assert caught.value.path == flag


def test_a_tool_of_ones_own_may_say_that_its_results_are_other_peoples_text() -> None:
    assert read_mail.spec.untrusted
    assert not count_mails.spec.untrusted
    with pytest.raises(PromptValidationError):
        Tool.wrap(lambda: "", name="page", description="Reads a page.", untrusted="yes")


def test_a_bound_tool_may_say_how_a_person_trusts_it() -> None:
    assert server_tool().trust is None
    assert replace(server_tool(), trust="ask").trust == "ask"


def test_the_context_of_a_call_says_whether_its_run_is_tainted() -> None:
    caller = Caller("ann", "acme", ("agent",))
    assert not ToolPolicyContext.of(caller, "run-1").tainted
    assert ToolPolicyContext.of(caller, "run-1", tainted=True) == ToolPolicyContext(
        "run-1", "ann", "acme", ("agent",), True
    )


ALLOWED = ToolPolicy(("mcp__time__now", "count_mails"))


def test_no_catalog_has_a_quarantined_tool() -> None:
    tools: list[Any] = [server_tool(quarantined=True), count_mails]
    assert [spec.name for spec in ToolCatalog.compile(tools, ALLOWED)] == ["count_mails"]
    assert [spec.name for spec in ToolRunner(tools, policy=ALLOWED).catalog()] == ["count_mails"]


@pytest.mark.parametrize("arguments", ['{"zone": "UTC"}', "{}", "no JSON"])
def test_a_call_of_a_quarantined_tool_is_answered_quarantined_and_runs_nothing(arguments: str) -> None:
    RAN.clear()
    result = ToolRunner([server_tool(quarantined=True)], policy=ALLOWED).exec_sync("mcp__time__now", arguments)
    assert result.error_code is ToolErrorCode.QUARANTINED
    assert json.loads(result.content)["error_code"] == "quarantined"
    assert "zone" not in result.content
    assert RAN == []


def test_an_approval_does_not_end_a_quarantine() -> None:
    RAN.clear()
    asks = ToolPolicy(("mcp__time__now",), require_approval_for_tools=("mcp__time__now",))
    approvals = InMemoryApprovals()
    runner = ToolRunner([server_tool()], policy=asks, approvals=approvals)
    waiting = runner.exec_sync("mcp__time__now", '{"zone": "UTC"}', tool_call_id="c1")
    assert waiting.approval_id is not None
    approvals.approve(waiting.approval_id, by="ann")
    quarantined = ToolRunner([server_tool(quarantined=True)], policy=asks, approvals=approvals)
    result = quarantined.exec_sync("mcp__time__now", '{"zone": "UTC"}', tool_call_id="c1")
    assert result.error_code is ToolErrorCode.QUARANTINED
    assert RAN == []


def test_a_tool_that_the_policy_denies_does_not_show_that_it_is_quarantined() -> None:
    result = ToolRunner([server_tool(quarantined=True)], policy=ToolPolicy()).exec_sync("mcp__time__now", "{}")
    assert result.error_code is ToolErrorCode.POLICY_DENIED


def test_a_handler_that_finds_its_tool_changed_is_answered_quarantined() -> None:
    def drifted(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        raise ToolFailure(ToolErrorCode.QUARANTINED)

    for effect in ToolEffect:
        found = foreign_tool(
            "mcp__time__now", "", SCHEMA, drifted, redaction=Redaction.allow("zone"), effect=effect, untrusted=True
        )
        result = ToolRunner([found], policy=ALLOWED).exec_sync("mcp__time__now", '{"zone": "UTC"}')
        assert result.error_code is ToolErrorCode.QUARANTINED
