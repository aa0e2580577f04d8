"""Every call that a model proposes leaves the same traces, whether it ran or was refused: an intent with its decision,
a receipt, a start and a result for whoever watches, an entry in the session's log, and for the model the very text that
a `ToolRunner` gives (seed 003 #1 and #25, seed 004).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolEffect, ToolPolicy, ToolResult, ToolRunner, World, tool
from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Shown
from demiurge.tools.approvals import InMemoryApprovals
from demiurge.tools.errors import ToolErrorCode, failure_answer, failure_text
from demiurge.tools.invoked import ToolInvoked
from demiurge.values import canonical_json
from demiurge.wire.arguments import MAX_CALLS
from demiurge.world.history.trace import TraceLine, lineage, trace

UNIT = f"{CHAT}/main"


@tool(effect=ToolEffect.READ_ONLY)
def math_add(a: int, b: int) -> ToolResult[int]:
    """Adds."""
    RAN.append((a, b))
    return ToolResult("added", a + b)


@tool(effect=ToolEffect.STATE_CHANGE)
def math_save(a: int) -> ToolResult[int]:
    """Saves."""
    RAN.append((a,))
    return ToolResult("saved", a)


@tool(effect=ToolEffect.READ_ONLY)
async def math_wait() -> ToolResult[None]:
    """Waits."""
    await asyncio.sleep(60)
    return ToolResult("waited")


TOOLS = [math_add, math_save, math_wait]
RAN: list[tuple[int, ...]] = []
POLICY = ToolPolicy(
    ("math_add", "math_save", "math_wait", "ghost"), require_approval_for_effects=(ToolEffect.STATE_CHANGE,)
)
GOOD = '{"a": 1, "b": 2}'


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        RAN.clear()
        yield running


def proposes(*calls: tuple[str, str, str]) -> Any:
    """An answer that proposes calls: (id, tool, arguments as they are)."""
    named = [Provider.call(name, {}, call_id) | {"arguments": arguments} for call_id, name, arguments in calls]
    return Provider.answer(*named)


@dataclass
class Told:
    """All that a turn left of itself."""

    world: World
    shown: list[Shown] = field(default_factory=list)

    def intents(self) -> dict[str, Any]:
        """By call id, the admission that the journal has."""
        records = [r for r in self.world.journal.read(UNIT) if r.kind == "intent" and r.body["kind"] == "tool.call"]
        return {r.body["params"]["tool_call_id"]: r.body["admitted"] for r in records}

    def receipts(self) -> dict[str, Any]:
        records = [r.body["payload"] for r in self.world.journal.read(UNIT) if r.kind == "receipt"]
        return {p["tool_call_id"]: p["error_code"] for p in records if "tool_call_id" in p}

    def trace(self) -> list[TraceLine[Any]]:
        records = list(self.world.journal.read(UNIT))
        [root] = [r for r in records if r.kind == "event" and r.body["value"].get("$tag") == "UserMessage"]
        return trace(lineage(records, (root.unit, root.unit_seq)))

    def watched(self) -> dict[str, list[str]]:
        """By call id, what was shown of it, in order."""
        found: dict[str, list[str]] = {}
        for frame in self.shown:
            if frame["type"].startswith("tool_call_"):
                code = (frame.get("result") or {}).get("error_code") if frame.get("is_error") else None
                found.setdefault(frame["tool_call_id"], []).append(code or frame["type"].removeprefix("tool_call_"))
        return found

    async def session(self) -> dict[str, str | None]:
        log = (await self.world.chat().session())[ToolInvoked].all()
        return {event.call_id or "": event.error_code and event.error_code.value for event in log}

    async def texts(self) -> dict[str, str]:
        """What the model was told, by call id."""
        state = await self.world.state(CHAT, "main")
        assert state is not None
        blobs = [self.world.blobs.get(m["message_ref"]) for m in state["messages"] if m["role"] == "tool"]
        return {body["tool_call_id"]: body["content"] for body in map(canonical_json.parse_object, blobs)}


@asynccontextmanager
async def watched_world(folder: Path, provider: Provider, **settings: Any) -> AsyncIterator[Told]:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    async with World.open(folder, TOOLS, POLICY, environment=environment, **settings) as world:
        found = Told(world)

        async def look() -> None:
            async for frame in world.watch(UNIT):
                found.shown.append(frame)

        looking = asyncio.create_task(look())
        await asyncio.sleep(0)
        try:
            yield found
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


async def library(name: str, arguments: str, policy: ToolPolicy = POLICY) -> str:
    """What a runner in a program tells the model."""
    runner = ToolRunner(TOOLS, policy=policy, approvals=InMemoryApprovals())
    return (await runner.exec(name, arguments, tool_call_id="c")).content


async def leaves_everything(found: Told, codes: dict[str, str | None]) -> None:
    assert {i: a["code"] if a["verdict"] == "deny" else None for i, a in found.intents().items()} == codes
    assert found.receipts() == codes
    assert await found.session() == codes
    assert found.watched() == {call_id: ["start", code or "result"] for call_id, code in codes.items()}
    assert (await found.world.replay())["ok"]
    assert found.world.journal.verify().ok


CASES: Sequence[tuple[str, str, str]] = [
    ("nope", GOOD, "policy_denied"),
    ("rm -rf /", GOOD, "policy_denied"),
    ("ghost", GOOD, "unavailable"),
    ("math_add", '{"a": 1, "b"', "invalid_json"),
    ("math_add", "[1, 2]", "invalid_json"),
    ("math_add", '{"a": 1, "b": "two"}', "validation"),
    ("math_add", '{"a": 1}', "validation"),
    ("math_add", '{"a": 1, "b": 2, "c": 3}', "validation"),
    ("math_save", '{"a": null}', "validation"),
]


@pytest.mark.parametrize(("name", "arguments", "code"), CASES)
async def test_a_refused_call_leaves_what_every_call_leaves(
    tmp_path: Path, provider: Provider, name: str, arguments: str, code: str
) -> None:
    provider.say(proposes(("c1", name, arguments), ("c2", "math_add", GOOD)), Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        reply = await found.world.chat().send("Go.")
        assert (reply.status, [call.error_code for call in reply.tool_calls]) == ("done", [code, None])
        await leaves_everything(found, {"c1": code, "c2": None})
        assert RAN == [(1, 2)]
        texts = await found.texts()
        assert texts == {"c1": await library(name, arguments), "c2": await library("math_add", GOOD)}
        said = next(i["output"] for i in provider.seen[1]["input"] if i.get("call_id") == "c1" and "output" in i)
        assert said == texts["c1"], "the model is sent the same bytes"
        lines = [line for line in found.trace() if line.record.kind == "intent" and "tool.call" in line.says]
        assert [line.state for line in lines] == ["denied", ""]
        assert code in lines[0].why
        asked = [r.body["schema"] for r in found.world.journal.read(UNIT) if r.kind == "event"]
        assert asked.count("demiurge/ToolCallRequested@1") == asked.count("demiurge/ToolCallRefused@1") == 1


async def test_a_field_that_a_model_made_up_is_named_only_in_what_the_model_is_told(
    tmp_path: Path, provider: Provider
) -> None:
    name = "canary-6d1e80c7aa"
    provider.say(
        proposes(("c1", "math_add", f'{{"a": 1, "b": 2, "{name}": 3}}')), Provider.answer(Provider.text("So."))
    )
    async with watched_world(tmp_path / "w", provider) as found:
        reply = await found.world.chat().send("Go.")
        told = (await found.texts())["c1"]
        assert f"Found: unknown field {name}; known: a, b." in told
        records = [record.body for record in found.world.journal.read()]
        receipt = next(body["payload"] for body in records if body.get("payload", {}).get("tool_call_id") == "c1")
        assert "Found: unknown field; known: a, b." in receipt["message"]
        public = found.world.blobs.get(receipt["record_ref"])
        assert [frame["content"] for frame in found.shown if "content" in frame] == [told], "the user is shown it"
        frames = [{**frame, "content": ""} for frame in found.shown]
        for place in (records, frames, found.trace(), [call.message for call in reply.tool_calls], public):
            assert name not in repr(place)


async def test_every_call_of_the_largest_answer_leaves_what_every_call_leaves(
    tmp_path: Path, provider: Provider
) -> None:
    calls = [(f"c{n}", "math_add" if n % 2 else "nope", f'{{"a": {n}, "b": 0}}') for n in range(MAX_CALLS)]
    provider.say(proposes(*calls), Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        reply = await found.world.chat().send("Go.")
        assert (reply.status, [call.id for call in reply.tool_calls]) == ("done", [call_id for call_id, _, _ in calls])
        codes = {call_id: None if name == "math_add" else "policy_denied" for call_id, name, _ in calls}
        await leaves_everything(found, codes)
        assert sorted(RAN) == [(n, 0) for n in range(1, MAX_CALLS, 2)]


async def test_an_answer_with_more_calls_than_any_may_have_is_not_taken(tmp_path: Path, provider: Provider) -> None:
    provider.say(proposes(*((f"c{n}", "math_add", GOOD) for n in range(MAX_CALLS + 1))))
    async with watched_world(tmp_path / "w", provider) as found:
        reply = await found.world.chat().send("Go.")
        assert (reply.status, reply.error_code, RAN) == ("failed", "bad_response", [])
        assert f"more than {MAX_CALLS} tool calls" in reply.message


async def test_a_repeated_call_leaves_what_every_call_leaves(tmp_path: Path, provider: Provider) -> None:
    again = proposes(("c1", "math_add", GOOD), ("c2", "math_add", '{"b":2,"a":1}'))
    provider.say(again, Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        await found.world.chat().send("Go.")
        await leaves_everything(found, {"c1": None, "c2": "repeated_call"})
        assert RAN == [(1, 2)]
        refused = ToolRunner([math_add], policy=POLICY)
        twice = [("c1", "math_add", GOOD), ("c2", "math_add", GOOD)]
        [_, second] = await refused.exec_many(twice, refused={1: ToolErrorCode.REPEATED_CALL})
        assert (await found.texts())["c2"] == second.content


async def test_calls_of_too_many_rounds_leave_what_every_call_leaves(tmp_path: Path, provider: Provider) -> None:
    rounds = [proposes((f"c{n}", "math_add", f'{{"a": {n}, "b": 0}}')) for n in range(9)]
    provider.say(*rounds, Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        assert (await found.world.chat().send("Go.")).status == "done"
        await leaves_everything(found, {f"c{n}": None for n in range(8)} | {"c8": "rounds_exceeded"})
    assert len(RAN) == 8


async def test_a_call_that_a_person_rejects_leaves_what_every_call_leaves(tmp_path: Path, provider: Provider) -> None:
    provider.say(proposes(("c1", "math_save", '{"a": 1}')), Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        assert (await found.world.chat().send("Go.")).status == "awaiting_approval"
        [asked] = await found.world.approvals()
        await found.world.decide(asked["id"], approve=False, reason="Not today.")
        await found.world.chat().resume()
        reply = await found.world.chat().reply()
        assert [(call.error_code, call.message) for call in reply.tool_calls] == [("approval_rejected", "Not today.")]
        assert found.receipts() == await found.session() == {"c1": "approval_rejected"}
        assert found.watched() == {"c1": ["start", "approval_rejected"]}
        told_model = '{"ok":false,"error_code":"approval_rejected","message":"Not today."}'
        assert await found.texts() == {"c1": told_model}
        states = [line.state for line in found.trace() if line.state not in ("", "ok")]
        assert states == ["rejected", "rejected"]
        assert (await found.world.replay())["ok"]
        assert found.world.journal.verify().ok
        assert await found.world.approvals() == []
    assert RAN == []


async def test_a_refused_call_is_answered_by_whoever_opens_the_world_next(tmp_path: Path, provider: Provider) -> None:
    """A process that ends between a rejection and its answer leaves a refused call, which still never runs."""
    provider.say(proposes(("c1", "math_save", '{"a": 1}')), Provider.answer(Provider.text("So.")))
    async with watched_world(tmp_path / "w", provider) as found:
        assert (await found.world.chat().send("Go.")).status == "awaiting_approval"
    async with watched_world(tmp_path / "w", provider, perform=False) as found:
        [asked] = await found.world.approvals()
        await found.world.decide(asked["id"], approve=False, reason="Not today.")
    async with watched_world(tmp_path / "w", provider) as found:
        assert await found.world.approvals() == []
        await found.world.chat().resume()
        assert (await found.world.chat().reply()).status == "done"
        assert found.receipts() == {"c1": "approval_rejected"}
    assert RAN == []


async def test_a_person_s_own_call_that_is_refused_leaves_the_same(tmp_path: Path, provider: Provider) -> None:
    async with watched_world(tmp_path / "w", provider) as found:
        answered = await found.world.call("nope", "{}", call_id="mine")
        assert (answered.ok, answered.error_code) == (False, "policy_denied")
        assert answered.content == await library("nope", "{}")
        [intent] = [r for r in found.world.journal.read() if r.kind == "intent"]
        assert intent.body["admitted"]["by"] == "tool_policy"
        assert (await found.world.replay())["ok"]


async def test_calls_that_are_stopped_leave_what_every_call_leaves(tmp_path: Path, provider: Provider) -> None:
    """One that runs and one that waits for its turn."""
    provider.say(proposes(("c1", "math_wait", "{}"), ("c2", "math_add", GOOD)))
    async with watched_world(tmp_path / "w", provider) as found:
        sending = asyncio.create_task(found.world.chat().send("Go."))
        async with asyncio.timeout(20):
            while "c1" not in found.watched():
                await asyncio.sleep(0.01)
        await found.world.chat().cancel()
        reply = await sending
        assert [call.error_code for call in reply.tool_calls] == ["cancelled", "cancelled"]
        assert await found.session() == {"c1": "cancelled", "c2": "cancelled"}
        assert found.watched() == {"c1": ["start", "cancelled"], "c2": ["start", "cancelled"]}
        text = failure_text(failure_answer(ToolErrorCode.CANCELLED))
        assert await found.texts() == {"c1": text, "c2": text}
        assert (await found.world.replay())["ok"]
    assert RAN == []
