"""An emit, a SpanSink and a RunSummary of a world hear of each tool call once, as those of a runner do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demiurge import IdempotencyConfig, Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.errors import InvalidValue
from demiurge.tools import GraphRun, RunSummary, SpanSink, ToolSpan
from demiurge.tools.events import AiEvent, event_to_json


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("pieces"))
def stock_count(part: str) -> dict[str, int]:
    """How many pieces of a part are in stock."""
    return {"pieces": 120}


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def order_part(part: str) -> str:
    """Orders a part."""
    return "ordered"


POLICY = ToolPolicy(allowed_tools=("stock_count", "order_part"), require_approval_for_tools=("order_part",))


@dataclass(frozen=True)
class Letter:
    to: str


class Observed:
    """What a world told, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.spans: list[ToolSpan] = []
        self.summary = RunSummary(GraphRun(graph_run_id="7", graph_name="desk", graph_version="1"))

    def emit(self, event: AiEvent) -> None:
        shown = event_to_json(event)
        self.heard.append(shown["type"])

    def put(self, span: ToolSpan, /) -> None:
        self.heard.append("span")
        self.spans.append(span)

    def open(self, path: Path, tools: Any = (stock_count, order_part), policy: ToolPolicy = POLICY) -> World:
        given = {SpanSink: self, RunSummary: self.summary}
        return World.open(path, tools, policy, environment={}, emit=self.emit, resources=given)

    def outcomes(self) -> dict[str, int]:
        return {name: found["calls"] for name, found in self.summary.to_json()["outcomes"].items()}


ONCE = ["tool_call_start", "tool_call_result", "span"]


async def test_a_call_is_told_as_a_runner_tells_it(tmp_path: Path) -> None:
    seen = Observed()
    async with seen.open(tmp_path / "w") as world:
        await world.call("stock_count", '{"part": "bolt"}', "call_1")
        assert world.summary is seen.summary
    assert seen.heard == ONCE
    [span] = seen.spans
    assert span.name == "tool:stock_count"
    assert {name: span.attributes[name] for name in ("tool_call_id", "decision", "outcome")} == {
        "tool_call_id": "call_1",
        "decision": "allow",
        "outcome": "ok",
    }
    assert seen.outcomes() == {"ok": 1}
    assert seen.summary.to_json()["graph"]["graph_name"] == "desk"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("stock_count", '{"parts": 1}', "validation"),
        ("stock_count", '{"part": ', "invalid_json"),
        ("introspect__manifest", "{}", "policy_denied"),
    ],
)
async def test_a_call_that_is_refused_is_told_once(tmp_path: Path, name: str, arguments: str, code: str) -> None:
    seen = Observed()
    async with seen.open(tmp_path / "w") as world:
        assert (await world.call(name, arguments)).error_code == code
    assert seen.heard == ONCE
    assert seen.outcomes() == {code: 1}


@pytest.mark.parametrize(("approve", "outcome"), [(True, "ok"), (False, "approval_rejected")])
async def test_a_call_that_waits_is_told_when_it_is_answered(tmp_path: Path, approve: bool, outcome: str) -> None:
    seen = Observed()
    async with seen.open(tmp_path / "w") as world:
        assert (await world.call("order_part", '{"part": "bolt"}')).status == "awaiting_approval"
        assert (seen.heard, seen.outcomes()) == ([], {})
        [asked] = await world.approvals()
        await world.decide(asked["id"], approve=approve)
        await world.settle()
    assert seen.heard == ONCE
    assert seen.outcomes() == {outcome: 1}
    assert seen.summary.to_json()["approved"] == int(approve)


async def test_a_call_that_is_answered_before_a_person_is_asked_is_told_once(tmp_path: Path) -> None:
    seen = Observed()
    async with seen.open(tmp_path / "w") as world:
        assert (await world.call("order_part", '{"piece": 1}')).error_code == "validation"
    assert seen.heard == ONCE
    assert seen.outcomes() == {"validation": 1}


async def test_replaying_and_opening_again_tell_nothing(tmp_path: Path) -> None:
    seen = Observed()
    async with seen.open(tmp_path / "w") as world:
        await world.call("stock_count", '{"part": "bolt"}')
        assert (await world.replay())["ok"]
    async with seen.open(tmp_path / "w") as world:
        await world.settle()
    assert seen.heard == ONCE


async def test_an_answer_from_the_ledger_is_told_as_one(tmp_path: Path) -> None:
    async def send(params: Letter, *, context: ToolContext) -> ToolResult[str]:
        return ToolResult("sent", "sent")

    once = IdempotencyConfig(scope="letters")
    letter = Tool[Letter, str](
        name="send_letter",
        description="Send a letter.",
        handler=send,
        effect=ToolEffect.EXTERNAL_SIDE_EFFECT,
        idempotency=once,
    )
    seen, policy = Observed(), ToolPolicy(allowed_tools=("send_letter",))
    async with seen.open(tmp_path / "w", [letter], policy) as world:
        for _ in range(2):
            await world.call("send_letter", '{"to": "ada"}')
    assert seen.heard == ONCE * 2
    assert (seen.outcomes(), seen.summary.to_json()["replayed"]) == ({"ok": 2}, 1)


async def test_a_listener_that_raises_loses_its_news_and_the_call_goes_on(tmp_path: Path) -> None:
    class Broken:
        def put(self, span: ToolSpan, /) -> None:
            raise ValueError

    def emit(event: AiEvent) -> None:
        raise ValueError

    given = {SpanSink: Broken()}
    async with World.open(tmp_path / "w", [stock_count], POLICY, environment={}, emit=emit, resources=given) as world:
        assert (await world.call("stock_count", '{"part": "bolt"}')).status == "done"
        assert (await world.call("order_part", "{}")).status == "failed"
        assert world.summary.to_json()["calls"] == 2


async def test_a_world_counts_by_itself(tmp_path: Path) -> None:
    graph = GraphRun(graph_run_id="7", graph_name="desk", graph_version="1")
    async with World.open(tmp_path / "w", [stock_count], POLICY, environment={}, resources={GraphRun: graph}) as world:
        await asyncio.gather(*(world.call("stock_count", '{"part": "bolt"}') for _ in range(3)))
        found = world.summary.to_json()
        assert (found["calls"], found["graph"]["graph_run_id"]) == (3, "7")


async def _waits(event: AiEvent) -> None: ...


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"emit": _waits}, "emit"),
        ({"emit": 7}, "emit"),
        ({"resources": {RunSummary: {}}}, "resources.RunSummary"),
    ],
)
def test_an_observer_of_a_wrong_type_is_refused_at_opening(tmp_path: Path, given: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as told:
        World.open(tmp_path / "w", environment={}, **given)
    assert told.value.path == path
    assert not (tmp_path / "w").exists()
