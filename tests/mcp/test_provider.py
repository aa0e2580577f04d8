"""Servers as a source of tools for a ToolRunner: trust by pin or by a function, quarantine, and names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.mcp.conftest import Bad, acted, until
from tests.mcp.sample_server import SampleServer

from demiurge.errors import InvalidValue, NotFound
from demiurge.mcp import Listing, McpClients, McpToolProvider, ServerSettings, ToolDefinition, Trust
from demiurge.mcp.tool import effect_that_counts
from demiurge.tools import (
    CompositeToolSource,
    Redaction,
    StaticToolProvider,
    ToolCatalog,
    ToolEffect,
    ToolPolicy,
    ToolProvider,
    ToolRunner,
)

SAMPLE = ServerSettings("sample", command=("none",))
IDS = {name: f"mcp__sample__{name}" for name in ("add", "send", "fail", "grow", "extra")}
POLICY = ToolPolicy(tuple(IDS.values()))


@pytest.fixture
async def sample() -> AsyncIterator[tuple[SampleServer, McpClients]]:
    server = SampleServer()
    clients = McpClients(in_process={"sample": server.mcp})
    yield server, clients
    await clients.close()


async def pins(clients: McpClients) -> dict[str, str]:
    return {definition.name: definition.pin for definition in (await clients.list_tools(SAMPLE)).definitions}


async def test_trusted_tools_run_and_others_are_quarantined(sample: tuple[SampleServer, McpClients]) -> None:
    server, clients = sample
    known = await pins(clients)
    trust = {"sample": {"add": known["add"], "send": Trust(known["send"], ToolEffect.STATE_CHANGE)}}
    async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
        assert isinstance(tools, ToolProvider)
        runner = ToolRunner(CompositeToolSource(StaticToolProvider([]), tools), policy=POLICY)
        added = await runner.exec(IDS["add"], {"a": 1, "b": 2})
        assert (added.ok, added.value) == (True, {})
        assert added.content.startswith('<untrusted_text source="mcp__sample__add"')
        assert (await runner.exec("mcp:sample:send", {"to": "ann"})).ok
        wrong = await runner.exec(IDS["add"], {"a": "one", "b": 2})
        assert wrong.error_code == "validation"
        assert (await runner.exec(IDS["fail"], {})).error_code == "quarantined"
        assert server.calls == ["add", "send ann"]
        shown = ToolCatalog.compile(tools, POLICY).specs()
        assert [spec.name for spec in shown] == [IDS["add"], IDS["send"]]
        effects = [ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE]
        assert [(spec.untrusted, spec.effect) for spec in shown] == [(True, effect) for effect in effects]
        stubs = [spec for spec in tools.specs() if spec.quarantined]
        assert {(spec.description, json.dumps(spec.input_schema)) for spec in stubs} == {("", '{"type": "object"}')}


async def test_the_failure_of_a_server_is_shown_to_the_model_alone(sample: tuple[SampleServer, McpClients]) -> None:
    _, clients = sample
    trust = {"sample": {"fail": (await pins(clients))["fail"]}}
    async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
        failed = await ToolRunner(tools, policy=POLICY).exec(IDS["fail"], {})
    assert (failed.error_code, failed.safe_message) == ("execution", "The tool failed.")
    text = json.loads(failed.content)["message"]
    assert text.startswith("<untrusted_text source=")
    assert "the disk is full" in text


async def test_a_name_alone_is_trusted_once_somebody_confirms_its_definition(
    sample: tuple[SampleServer, McpClients],
) -> None:
    _, clients = sample
    asked: list[tuple[str, str]] = []

    async def confirm(server: str, definition: ToolDefinition) -> bool:
        asked.append((server, definition.name))
        return definition.name == "add"

    trust = {"sample": ["add", "send"]}
    async with McpToolProvider([SAMPLE], trust=trust, confirm=confirm, clients=clients) as tools:
        runner = ToolRunner(tools, policy=POLICY)
        assert (await runner.exec(IDS["add"], {"a": 1, "b": 2})).ok
        assert (await runner.exec(IDS["send"], {"to": "ann"})).error_code == "quarantined"
        await tools.refresh()
    assert asked == [("sample", "add"), ("sample", "send")]


async def test_a_tool_that_changed_stays_quarantined_until_it_is_trusted_again(bad: Bad, counter: Any) -> None:
    settings = bad("changes_and_changes_back")
    first = ToolDefinition(
        "act", description="Acts.", input_schema={"type": "object", "properties": {"n": {"type": "integer"}}}
    )
    public = Redaction.message_only()
    async with McpToolProvider(settings, trust={"bad": {"act": Trust(first.pin, redaction=public)}}) as tools:
        runner = ToolRunner(tools, policy=ToolPolicy(("mcp__bad__act",)))
        assert (await runner.exec("mcp__bad__act", {})).ok
        await tools.refresh("bad")
        [change] = tools.changes("bad", "act")
        assert (change.place, change.before) == ("description", "Acts.")
        assert change.after is not None
        assert "<U+202E>" in change.after
        assert (await runner.exec("mcp__bad__act", {})).error_code == "quarantined"
        with pytest.raises(InvalidValue) as caught:
            tools.trust("bad", "act", first.pin)
        assert caught.value.code == "pin_mismatch"
        await tools.refresh("bad")
        assert tools.changes("bad", "act") == []
        assert (await runner.exec("mcp__bad__act", {})).error_code == "quarantined"
        assert ToolCatalog.compile(tools, ToolPolicy(("mcp__bad__act",))).specs() == ()
        tools.trust("bad", "act", first.pin, redaction=public)
        assert (await runner.exec("mcp__bad__act", {})).ok
        with pytest.raises(NotFound):
            tools.trust("bad", "other", first.pin)
    assert acted(counter) == 2


async def test_a_tool_that_a_server_adds_is_quarantined(sample: tuple[SampleServer, McpClients]) -> None:
    _, clients = sample
    trust = {"sample": {"grow": (await pins(clients))["grow"]}}
    async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
        runner = ToolRunner(tools, policy=POLICY)
        assert (await runner.exec(IDS["extra"], {})).error_code == "unavailable"
        assert (await runner.exec(IDS["grow"], {})).ok
        await until(lambda: tools.get(IDS["extra"]) is not None)
        assert (await runner.exec(IDS["extra"], {})).error_code == "quarantined"


async def test_a_server_that_lists_other_names_each_time_leaves_nothing_behind(
    sample: tuple[SampleServer, McpClients],
) -> None:
    _, clients = sample
    trust = {"sample": {"add": (await pins(clients))["add"]}}
    async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
        assert clients.on_listing is not None
        for number in range(5):
            new = tuple(ToolDefinition(f"{name}-{number}", input_schema={}) for name in ("one", "two"))
            await clients.on_listing("sample", Listing(new))
            ids = {spec.name: spec.quarantined for spec in tools.specs()}
            assert ids == {IDS["add"]: False, **{f"mcp__sample__{each.name}": True for each in new}}
        assert tools.get("mcp__sample__one-3") is None
        await clients.on_listing("sample", Listing((ToolDefinition("ONE_4", input_schema={}),)))
        assert tools.get("mcp__sample__ONE_4") is not None, tools.problems  # the tool that it reads like is gone


async def test_look_alikes_of_a_tool_have_no_id(bad: Bad) -> None:
    async with McpToolProvider(bad("look_alikes"), trust={}) as tools:
        assert [spec.name for spec in tools.specs()] == ["mcp__bad__act"]
        assert "reads like its tool 'act'" in tools.problems["bad"]


async def test_a_server_that_is_down_takes_no_other_down(bad: Bad, sample: tuple[SampleServer, McpClients]) -> None:
    _, clients = sample
    trust = {"sample": {"add": (await pins(clients))["add"]}, "bad": {"act": "sha256:00"}}
    async with McpToolProvider([bad("exits_at_start"), SAMPLE], trust=trust, clients=clients) as tools:
        assert (await ToolRunner(tools, policy=POLICY).exec(IDS["add"], {"a": 1, "b": 2})).ok
        assert tools.problems == {"bad": "The server's program ended at its start, with the exit code 3."}
        assert tools.listing("bad") is None


@pytest.mark.parametrize(
    ("servers", "trust"),
    [
        (["time", "Time"], {}),
        (["time", "t1me"], {}),
        (["time"], {"clock": {}}),
        (["time"], {"time": ["now"]}),
        (["time"], {"time": "now"}),
    ],
)
def test_names_and_trust_that_can_not_be_meant_are_refused(servers: list[str], trust: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        McpToolProvider([ServerSettings(name, command=("none",)) for name in servers], trust=trust)


@pytest.mark.parametrize(
    ("hints", "effect", "counts"),
    [
        (None, None, "external_side_effect"),
        ({"readOnlyHint": True}, None, "read_only"),
        ({"readOnlyHint": True}, ToolEffect.STATE_CHANGE, "state_change"),
        ({"openWorldHint": True}, ToolEffect.READ_ONLY, "external_side_effect"),
        (None, ToolEffect.READ_ONLY, "read_only"),
    ],
)
def test_the_stricter_level_counts(hints: dict[str, Any] | None, effect: ToolEffect | None, counts: str) -> None:
    assert effect_that_counts(ToolDefinition("x", annotations=hints), effect) == counts


async def test_a_call_from_another_event_loop_is_made_in_the_providers(
    sample: tuple[SampleServer, McpClients],
) -> None:
    _, clients = sample
    trust = {"sample": {"add": (await pins(clients))["add"]}}
    async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
        runner = ToolRunner(tools, policy=POLICY)
        result = await asyncio.to_thread(runner.exec_sync, IDS["add"], {"a": 1, "b": 2})
        assert result.ok


def test_a_call_after_the_providers_event_loop_is_unavailable() -> None:
    async def runner() -> ToolRunner:
        clients = McpClients(in_process={"sample": SampleServer().mcp})
        trust = {"sample": {"add": (await pins(clients))["add"]}}
        async with McpToolProvider(SAMPLE, trust=trust, clients=clients) as tools:
            return ToolRunner(tools, policy=POLICY)

    late = asyncio.run(runner()).exec_sync(IDS["add"], {"a": 1, "b": 2})
    assert late.error_code == "unavailable"
    assert late.safe_message == (
        "The event loop of this server's connection does not run. Call the tool with 'await runner.exec'."
    )
