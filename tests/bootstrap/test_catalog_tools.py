"""`core__prompt_tool` and `core__propose_tool` in a world: what they read, what they submit, and what no tool does."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.catalog_tools_child import PROPOSED
from tests.bootstrap.child_program import run_program
from tests.bootstrap.reviewed_worlds import approve, proposals, propose
from tests.bootstrap.test_prompt_catalog import catalog_of, definitions
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.bootstrap.call import CallOutcome
from demiurge.bootstrap.shipped_tools import SHIPPED_TOOLS
from demiurge.errors import InvalidValue
from demiurge.registry.catalog_text import PROMPT_TOOL
from demiurge.registry.catalog_tools import PROPOSE_TOOL
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.pack.load import core_tool
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.ids import READ_RESULT
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds.registry import FAMILIES
from demiurge.world.manifest import problems

YES = Provider.answer(Provider.text("Yes."))
NEW = "scene_pacer"
INTROSPECT = {tool.name for tool in CORE_TOOLS if tool.name.startswith("introspect__")}
CORE = {tool.name for tool in CORE_TOOLS} - INTROSPECT - {READ_RESULT}
"""The core tools that a request describes in a world with shipped tools alone and without a limit of results."""
PACK = {f"core__{core_id}" for core_id in CORE_IDS}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.say(YES)
        yield running


def opened(folder: Path, provider: Provider, **given: Any) -> World:
    """Opens the world in `folder`. A new world has the catalog in each turn, unless `given` names another manifest."""
    if not folder.exists() and "manifest" not in given:
        given["manifest"] = definitions(folder.parent, "index")
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, environment=environment, **given)


def calling(tool: str, arguments: Mapping[str, Any]) -> Any:
    return Provider.answer(Provider.call(tool, arguments, "call_0"))


def told(provider: Provider, at: int = -1) -> str:
    """Returns the result of the last tool call in a request."""
    return str(
        [item for item in provider.seen[at]["input"] if item.get("type") == "function_call_output"][-1]["output"]
    )


def offered(request: Any) -> set[str]:
    return {tool["name"] for tool in request.get("tools", ())}


# -- what a request offers ---------------------------------------------------------------------------------------------


async def test_a_message_offers_the_catalogs_tools_with_the_catalog_and_the_core_pack_when_it_names_it(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat("c")
        await chat.send("Hello")
        await chat.send("Hello", skip_tool_catalog=True)
        await chat.send("Hello", tools=["core__timeline_validator"])
        await chat.send("Hello", tools=[PROMPT_TOOL, "core__file_reader"])
        await world.chat("own").use_tools(["core__file_locator", PROMPT_TOOL])
        await world.chat("own").send("Hello")
    plain, skipped, named, both, own = provider.seen
    assert offered(plain) == {*CORE, PROMPT_TOOL}
    assert offered(skipped) == CORE
    assert offered(named) == {"core__timeline_validator"}
    assert offered(both) == {PROMPT_TOOL, "core__file_reader"}
    assert offered(own) == {"core__file_locator", PROMPT_TOOL}
    headers = [catalog_of(request).partition("\n")[0] for request in provider.seen]
    assert [PROMPT_TOOL in header for header in headers] == [True, False, False, True, True]
    assert [bool(header) for header in headers] == [True, False, True, True, True]


async def test_the_manifest_offers_the_core_pack_in_every_message(tmp_path: Path, provider: Provider) -> None:
    own = definitions(tmp_path, "offered", "core_pack")
    async with opened(tmp_path / "w", provider, manifest=own) as world:
        await world.chat("c").send("Hello")
        assert (await world.replay(check=True))["ok"]
    assert offered(provider.seen[0]) == {*CORE, *PACK}


async def test_another_value_of_that_setting_is_refused_by_name(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.bootstrap.manifest.folder_problems", problems)  # as earlier programs did
    async with opened(tmp_path / "w", provider, manifest=definitions(tmp_path, "on", "core_pack")) as world:
        with pytest.raises(InvalidValue, match="neither named nor offered: 'on'") as refused:
            await world.chat("c").send("Hello")
    assert (refused.value.code, provider.seen) == ("bad_setting", [])


@pytest.mark.parametrize("setting", ["named", "offered"])
async def test_the_local_model_is_offered_the_core_tools_alone(tmp_path: Path, setting: str) -> None:
    own = definitions(tmp_path, setting, "core_pack")
    environment = {"HOME": str(tmp_path)}
    async with World.open(tmp_path / "w", environment=environment, manifest=own, perform=False) as world:
        said = await world.chat("c").say("Hello")
        event = next(iter(world.journal.read(said.accepted.unit, said.accepted.seq))).body["value"]["$value"]
        toolset = canonical_json.parse_object(world.blobs.get(Ref(event["tools_ref"])))
        assert {tool["function"]["name"] for tool in toolset["tools"]} == CORE
        assert event.get("catalog_ref") is None


# -- core__prompt_tool -------------------------------------------------------------------------------------------------


async def test_a_turn_reads_by_the_catalog_that_it_began_with_and_the_next_turn_by_the_new_one(
    tmp_path: Path, provider: Provider
) -> None:
    """The approval falls between the first call of the turn and the second."""
    ask = Provider.call("core__ask_user", {"question": "Where to?", "choices": ["Rome", "Oslo"]}, "call_0")
    read = calling(PROMPT_TOOL, {"id": NEW})
    provider.say(Provider.answer(ask), read, YES, read, YES)
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat("c")
        [waiting] = (await chat.send("Book a trip.")).approvals
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        await world.answer(waiting, "Oslo")
        [_, early] = (await chat.wait(1)).tool_calls
        assert (early.ok, NEW in told(provider)) == (False, False)
        assert "The catalog of this turn has no prompt tool with this id." in told(provider)
        [late] = (await chat.send("And the pace?")).tool_calls
        assert late.ok
        assert "Read the scene. Name up to three paragraphs" in told(provider)
        assert (await world.replay(check=True))["ok"]
    async with opened(tmp_path / "w", provider) as world:
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["ok"]
        assert [call.ok for call in (await world.chat("c").reply(1)).tool_calls] == [True, False]
        assert [call.ok for call in (await world.chat("c").reply(2)).tool_calls] == [True]


async def test_a_tool_that_was_deleted_while_a_turn_goes_on_is_still_read_in_it(
    tmp_path: Path, provider: Provider
) -> None:
    ask = Provider.call("core__ask_user", {"question": "Where to?", "choices": ["Rome", "Oslo"]}, "call_0")
    read = calling(PROMPT_TOOL, {"id": NEW})
    provider.say(Provider.answer(ask), read, YES, read, YES)
    async with opened(tmp_path / "w", provider) as world:
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        [waiting] = (await world.chat("c").send("Book a trip.")).approvals
        [live] = [tool for tool in await world.prompt_tools.catalog() if not tool.locked]
        gone = {"proposalType": "delete", "baseHash": live.digest, "testCases": None, "examples": None}
        await propose(world, "p0000000002", **gone)
        await approve(world, "p0000000002")
        await world.answer(waiting, "Oslo")
        assert [call.ok for call in (await world.chat("c").wait(1)).tool_calls] == [True, True]
        assert [call.ok for call in (await world.chat("c").send("And now?")).tool_calls] == [False]
        assert (await world.replay(check=True))["ok"]


async def test_a_tool_that_was_erased_while_a_turn_goes_on_is_gone_and_the_others_are_read(
    tmp_path: Path, provider: Provider
) -> None:
    ask = Provider.call("core__ask_user", {"question": "Where to?", "choices": ["Rome", "Oslo"]}, "call_0")
    provider.say(
        Provider.answer(ask), calling(PROMPT_TOOL, {"id": NEW}), calling(PROMPT_TOOL, {"id": "task_router"}), YES
    )
    async with opened(tmp_path / "w", provider) as world:
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        [waiting] = (await world.chat("c").send("Book a trip.")).approvals
        [live] = [tool for tool in await world.prompt_tools.catalog() if not tool.locked]
        await world.erase(live.digest, "It was asked for.")
        await world.answer(waiting, "Oslo")
        assert [call.ok for call in (await world.chat("c").wait(1)).tool_calls] == [True, False, True]


async def test_a_turn_without_the_catalog_reads_nothing(tmp_path: Path, provider: Provider) -> None:
    provider.say(calling(PROMPT_TOOL, {"id": "file_reader"}), YES)
    async with opened(tmp_path / "w", provider) as world:
        [read] = (await world.chat("c").send("Hello", tools=[PROMPT_TOOL], skip_tool_catalog=True)).tool_calls
        assert (read.ok, read.error_code) == (False, "execution")
        intents = [each.body for each in world.journal.read("demiurge/Demiurge@1/c") if each.kind == "intent"]
        assert [intent["kind"] for intent in intents].count("registry.tools") == 1
    assert "The catalog of this turn has no prompt tool with this id." in told(provider)


@pytest.mark.parametrize("spelling", ["file_reader", "File-Reader", "core__file_reader", "read_file"])
async def test_a_core_tool_is_read_in_each_spelling(tmp_path: Path, provider: Provider, spelling: str) -> None:
    async with opened(tmp_path / "w", provider) as world:
        read = await world.call(PROMPT_TOOL, json.dumps({"id": spelling}))
    assert read.ok
    assert read.result == {"id": "file_reader", "name": "File Reader", "digest": core_tool("file_reader").digest}
    assert read.content.startswith("The prompt tool. It runs as core__file_reader, if that tool is offered to you.")


async def test_a_person_reads_the_registry_of_now(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        assert not (await world.call(PROMPT_TOOL, json.dumps({"id": NEW}))).ok
        await propose(world, "p0000000001")
        assert not (await world.call(PROMPT_TOOL, json.dumps({"id": NEW}))).ok
        await approve(world, "p0000000001")
        read = await world.call(PROMPT_TOOL, json.dumps({"id": NEW}))
        assert read.content.startswith("The prompt tool. It is text alone.")
        assert (await world.replay(check=True))["ok"]


# -- core__propose_tool ------------------------------------------------------------------------------------------------


async def test_a_models_proposal_is_the_agents_and_is_not_live(tmp_path: Path, provider: Provider) -> None:
    provider.say(calling(PROPOSE_TOOL, PROPOSED), YES)
    async with opened(tmp_path / "w", provider) as world:
        [waiting] = (await world.chat("c").send("Propose it.")).approvals
        assert await proposals(world) == {}
        await world.decide(waiting, approve=True)
        await world.settle()
        [made] = await world.prompt_tools.proposals()
        assert made.submitted_by == "agent:demiurge/Demiurge@1/c"
        assert (made.state, made.tool, made.checks is not None and made.checks["passed"]) == ("chief_review", NEW, True)
        assert json.loads(told(provider).partition("\n\n")[2])["proposal"] == made.id
        assert {tool.id for tool in await world.prompt_tools.catalog()} == set(CORE_IDS)
        [asked] = await world.issues.list(assignee="chief")
        assert (asked.title, asked.opened_by) == ("[Tool Proposal] Scene pacer", made.submitted_by)
        assert (await world.replay(check=True))["ok"]


async def test_the_author_of_a_proposal_is_the_agent_also_when_a_person_calls_the_tool(
    tmp_path: Path, provider: Provider
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        ada = world.acting_as(Caller("user:ada", roles=("user",)))
        asked = await ada.call(PROPOSE_TOOL, json.dumps(PROPOSED), "mine")
        assert asked.approval is not None
        await world.decide(asked.approval, approve=True)
        await world.settle()
        [made] = await world.prompt_tools.proposals()
        assert made.submitted_by == "agent:demiurge/Calls@1/mine"


@pytest.mark.parametrize(
    "spelling", ["file_reader", "File-Reader", "core__file_reader", "read_file", "f\u0456le_reader"]
)
async def test_a_core_id_in_any_spelling_is_locked_through_the_tool(
    tmp_path: Path, provider: Provider, spelling: str
) -> None:
    async with opened(tmp_path / "w", provider) as world:
        asked = await world.call(PROPOSE_TOOL, json.dumps({**PROPOSED, "id": spelling}), "mine")
        assert asked.approval is not None
        await world.decide(asked.approval, approve=True)
        await world.settle()
        done = await world.call(PROPOSE_TOOL, json.dumps({**PROPOSED, "id": spelling}), "mine")
        assert not done.ok
        assert "core_tool_locked" in done.message
        assert await proposals(world) == {}


async def test_a_model_changes_the_version_that_it_has_read(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider, policy=ToolPolicy((PROMPT_TOOL, PROPOSE_TOOL))) as world:

        async def proposed(call_id: str, **given: Any) -> CallOutcome:
            changed = {**PROPOSED, "change": "modify", "prompt": f"Text of {call_id}.", **given}
            return await world.call(PROPOSE_TOOL, json.dumps(changed), call_id)

        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        read = (await world.call(PROMPT_TOOL, json.dumps({"id": NEW}))).result["digest"]
        blind = await proposed("blind")
        assert (blind.ok, "baseHash" in blind.message) == (False, True)
        first, second = await proposed("first", base_digest=read), await proposed("second", base_digest=read)
        await world.settle()
        await approve(world, first.result["proposal"])
        late = await world.prompt_tools.proposal(second.result["proposal"])
        assert late.is_stale
        [live] = [tool for tool in await world.prompt_tools.catalog() if not tool.locked]
        assert (live.prompt, live.approved_by) == ("Text of first.", "user")
        assert (await world.replay(check=True))["ok"]


async def test_a_proposal_that_came_back_is_revised_by_the_same_chat(tmp_path: Path, provider: Provider) -> None:
    provider.say(calling(PROPOSE_TOOL, PROPOSED), YES)
    async with opened(tmp_path / "w", provider) as world:
        [waiting] = (await world.chat("c").send("Propose it.")).approvals
        await world.decide(waiting, approve=True)
        await world.settle()
        [made] = await world.prompt_tools.proposals()
        await world.prompt_tools.skip_review(made.id, made.digest, "I have read it.")
        await world.prompt_tools.needs_changes(made.id, made.digest, "Shorter.")
        provider.say(calling(PROPOSE_TOOL, {**PROPOSED, "prompt": "Name slow paragraphs.", "revises": made.id}), YES)
        [waiting] = (await world.chat("c").send("Make it shorter.")).approvals
        await world.decide(waiting, approve=True)
        await world.settle()
        [revised] = await world.prompt_tools.proposals()
        assert (revised.id, revised.revision, revised.state) == (made.id, 2, "chief_review")
        provider.say(calling(PROPOSE_TOOL, {**PROPOSED, "revises": made.id}), YES)
        [waiting] = (await world.chat("other").send("Change it.")).approvals
        await world.decide(waiting, approve=True)
        await world.settle()
        assert "Only its author or a user revises a proposal." in told(provider)
        assert (await world.prompt_tools.proposal(made.id)).revision == 2


def test_no_tool_and_no_effect_decides_on_a_proposal() -> None:
    """Two effects of tools touch proposals and issues: one proposes, and the others read."""
    asked_by_tools = {
        kind.name: kind.changes
        for family in FAMILIES
        if family.cap_type in ("registry", "issues")
        for kind in family.kinds
        if "tool" in kind.origins
    }
    assert {name for name, changes in asked_by_tools.items() if changes} == {"registry.propose"}
    changing = {tool.name for tool in SHIPPED_TOOLS if tool.effect.value != "read_only"}
    assert changing == {"workspace__write", PROPOSE_TOOL}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fault",
    [
        *("effect.attempted=kill@1", "effect.attempted=kill@2", "effect.attempted=kill@3"),
        *("effect.performed=kill@1", "effect.performed=kill@2", "effect.performed=kill@3"),
        *("request.taken=kill@1", "request.answered=kill@1", "outbox.before_delivery=kill@1", "tool.ran=kill@1"),
        *(f"unit.committed=kill@{time}" for time in range(1, 8)),
    ],
)
async def test_a_process_that_is_killed_while_a_tool_proposes_leaves_one_proposal(tmp_path: Path, fault: str) -> None:
    """The next process goes on with the call: it was asked for once, so there is one proposal, never two."""
    folder = tmp_path / "w"
    killed = await run_program("catalog_tools_child", folder, faults=fault)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = await run_program("catalog_tools_child", folder)
    assert ended.returncode == 0, ended.stderr
    async with World.open(folder, environment={"HOME": str(tmp_path)}) as world:
        [made] = await world.prompt_tools.proposals()
        assert (made.tool, made.revision, made.state) == (NEW, 1, "chief_review")
        assert len(await world.issues.list()) == 1
        assert world.journal.verify().ok
        assert (await world.replay(check=True))["ok"]
