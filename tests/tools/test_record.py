"""A record tells what happened, and keeps to itself what the model and the provider sent."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import demiurge.tools
from demiurge import (
    InMemoryApprovals,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    tool,
)
from demiurge.tools import RunSummary
from demiurge.values import canonical_json, cbor

SPECIAL = (
    "__getattribute__ __repr__ __str__ __format__ __bytes__ __eq__ __ne__ __lt__ __hash__ __bool__ __len__ __iter__ "
    "__contains__ __getitem__ __call__ __int__ __index__ __copy__ __deepcopy__ __reduce__ __reduce_ex__ __sizeof__"
)


def _sprung(*_: Any, **__: Any) -> Any:
    raise AssertionError("somebody looked into the provider's payload")


Trap = type("Trap", (), dict.fromkeys(SPECIAL.split(), _sprung))


def look(params: None, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("canary", "canary")


TOOL = Tool[None, str](name="look", description="Look.", handler=look, effect=ToolEffect.READ_ONLY)


def called() -> ToolExecResult:
    return ToolRunner([TOOL], policy=ToolPolicy(("look",))).exec_sync("look", "{}", tool_call_id="c")


def test_nobody_looks_into_the_providers_payload() -> None:
    result = called()
    assert result.record.raw is None
    record = replace(result.record, raw=Trap())
    answer = replace(result, record=record)
    assert repr(record) == repr(result.record)
    assert "raw" not in f"{record} {answer}"
    assert record == result.record
    assert answer == result
    assert record.public() == result.record.public()
    canonical_json.encode(record.public())
    summary = RunSummary()
    summary.add(record)
    assert summary.to_json()["calls"] == 1


def test_no_module_of_the_package_reads_it() -> None:
    for file in Path(demiurge.tools.__file__).parent.rglob("*.py"):
        attributes = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        assert "raw" not in attributes, file


def test_a_printed_result_shows_neither_arguments_nor_the_models_text() -> None:
    result = called()
    private = replace(result, record=replace(result.record, args={"key": "arg-canary"}, result=None), value=None)
    assert "canary" in private.content
    assert "canary" not in f"{private!r} {private.record!r}"
    assert "args" not in private.record.public()


@tool(effect=ToolEffect.READ_ONLY)
def find(words: list[str]) -> str:
    """Finds."""
    return words.pop()


ARGUMENTS: dict[str, Any] = {"words": ["a", "b"]}


@pytest.mark.parametrize("sent", [ARGUMENTS, '{"words": ["a", "b"]}', b'{ "words" : ["a","b"] }'])
def test_the_digest_is_of_what_was_sent_whatever_becomes_of_the_arguments(sent: Any) -> None:
    record = ToolRunner([find], policy=ToolPolicy(("find",))).exec_sync("find", sent).record
    assert record.args == ARGUMENTS
    assert record.args is not None
    record.args["words"].append("c")
    record.args["all"] = True
    assert record.args_digest == record.public()["args_digest"] == cbor.node_ref(ARGUMENTS)


class Listening(RunSummary):
    def add(self, record: Any) -> None:
        super().add(record)
        record.args.clear()


def test_a_listener_that_changes_the_arguments_changes_no_digest() -> None:
    runner = ToolRunner([find], policy=ToolPolicy(("find",)), resources={RunSummary: Listening()})
    assert runner.exec_sync("find", ARGUMENTS).record.args_digest == cbor.node_ref(ARGUMENTS)


def test_the_args_digest_of_a_record_is_the_digest_that_was_approved() -> None:
    approvals = InMemoryApprovals()
    policy = ToolPolicy(("find",), require_approval_for_tools=("find",))
    result = ToolRunner([find], policy=policy, approvals=approvals).exec_sync("find", ARGUMENTS)
    (request,) = approvals.pending()
    assert request.args_digest == result.record.args_digest


def test_arguments_that_are_no_object_have_no_digest() -> None:
    assert ToolRunner([find], policy=ToolPolicy(("find",))).exec_sync("find", "[1]").record.args_digest is None
