"""Ids come from a model or its provider: they are short and printable before anybody else sees them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from demiurge.tools import InMemoryApprovals, Tool, ToolContext, ToolExecResult, ToolPolicy, ToolResult, ToolRunner
from demiurge.values import canonical_json


def look(params: None, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("", context.tool_call_id)


TOOL = Tool[None, str](name="look", description="Look.", handler=look)


def called(tool_id: Any = "look", call_id: Any = "c") -> tuple[ToolExecResult, list[Any]]:
    events: list[Any] = []
    runner = ToolRunner([TOOL], policy=ToolPolicy(("look",)), emit=events.append)
    return runner.exec_sync(tool_id, "{}", tool_call_id=call_id), events


@pytest.mark.parametrize("call_id", ["c", "call_1", "toolu_01:a/b", "with spaces", "é" * 64, "x" * 128])
def test_a_good_call_id_is_kept(call_id: str) -> None:
    result, events = called(call_id=call_id)
    assert result.tool_call_id == result.content == result.record.tool_call_id == call_id
    assert [event.tool_call_id for event in events] == [call_id, call_id]


BAD = ["x" * 129, "é" * 65, "c" * 1_000_000, "a\nb", "a\0b", "\x1b[31m", "\x7f", "\u202eabc", "\u2028", "\ud800", 7]


@pytest.mark.parametrize("call_id", BAD, ids=range(len(BAD)))
def test_another_call_id_has_a_stand_in_everywhere(call_id: Any) -> None:
    result, events = called(call_id=call_id)
    assert result.tool_call_id.startswith("call_")
    assert len(result.tool_call_id) == len("call_") + 24
    assert {result.content, result.record.tool_call_id, *(event.tool_call_id for event in events)} == {
        result.tool_call_id
    }
    canonical_json.encode(result.record.public())


def test_equal_ids_have_one_stand_in_and_others_another() -> None:
    first, again, other = (called(call_id=call_id)[0].tool_call_id for call_id in ("\n1", "\n1", "\n2"))
    assert first == again != other


def test_an_approval_finds_a_call_by_its_stand_in() -> None:
    store = InMemoryApprovals()
    policy = ToolPolicy(("look",), require_approval_for_tools=("look",))
    runner = ToolRunner([TOOL], policy=policy, approvals=store)
    assert runner.exec_sync("look", "{}", tool_call_id="x" * 200).error_code == "approval_required"
    store.approve(store.pending()[0].approval_id or "", by="user:1")
    assert asyncio.run(runner.exec("look", "{}", tool_call_id="x" * 200)).ok


@pytest.mark.parametrize(
    "tool_id", ["canary tool", "canary\n\x1b[31m", "canary" * 100, "canary\ud800", "", "canary.../x", 7, None]
)
def test_an_invented_tool_id_is_echoed_nowhere(tool_id: Any) -> None:
    result, events = called(tool_id=tool_id)
    assert (result.error_code, result.record.name) == ("policy_denied", "?")
    assert "canary" not in repr((result, events))
    canonical_json.encode([result.content, result.record.public()])


def test_a_well_formed_id_is_bounded_and_says_which_tool_was_meant() -> None:
    assert called(tool_id="no.such_tool")[0].record.name == "no__such_tool"
    assert called(tool_id="x" * 65)[0].record.name == "?"
