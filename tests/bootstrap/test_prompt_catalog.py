"""The catalog of prompt tools in the chats of a world: what the model is sent, what is recorded, what is replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.reviewed_worlds import approve, propose
from tests.provider import Provider, serving

from demiurge import World
from demiurge.apps.demiurge import app
from demiurge.bootstrap.backend import prompt_catalog
from demiurge.errors import InvalidValue, NotFound
from demiurge.registry.catalog_text import FULL_HEADER, INDEX_HEADER, READER, entry_ids, index_text
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.prompt_tool import PromptTool
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.manifest import problems

CLOCK = "core__get_current_time"
NEW = "scene_pacer"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider, **given: Any) -> World:
    """Opens the world in `folder`; its model is the provider. A new world has the catalog in each turn, unless `given`
    names another manifest."""
    if not folder.exists() and "manifest" not in given:
        given["manifest"] = definitions(folder.parent, "index")
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, environment=environment, **given)


def catalog_of(request: Any) -> str:
    """Returns the catalog text in a request, empty if there is none."""
    found = [text for entry in request["input"] if entry.get("role") == "system" for text in _texts(entry)]
    return next((text for text in found if text.startswith("Tool Catalog")), "")


def _texts(entry: Any) -> list[str]:
    content = entry["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def prompts(world: World, chat: str) -> list[list[dict[str, Any]]]:
    """Returns the messages of each recorded request of a chat."""
    records = world.journal.read(f"demiurge/Demiurge@1/{chat}")
    intents = [each.body for each in records if each.kind == "intent" and each.body["kind"] == "llm.generate"]
    refs = [intent["params"]["message_refs"] for intent in intents]
    return [[canonical_json.parse_object(world.blobs.get(Ref(ref))) for ref in of] for of in refs]


async def test_the_catalog_is_in_the_recorded_prompt_after_the_system_message(
    tmp_path: Path, provider: Provider
) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        assert (await world.chat("c").send("Hello")).status == "done"
        [[system, catalog, said]] = prompts(world, "c")
        assert (system["role"], catalog["role"], said["role"]) == ("system", "system", "user")
        assert catalog["content"].startswith(INDEX_HEADER)
        assert set(entry_ids(catalog["content"])) == set(catalog["prompt_tools"]) == set(CORE_IDS)
        assert catalog_of(provider.seen[0]) == catalog["content"]
        assert (await world.replay())["ok"]


async def test_an_approved_tool_is_in_the_next_turn_and_never_in_one_begun_before(
    tmp_path: Path, provider: Provider
) -> None:
    """The approval falls between a tool call and the follow-up request."""
    ask = Provider.call("core__ask_user", {"question": "Where to?", "choices": ["Rome", "Oslo"]})
    provider.say(*map(Provider.answer, (ask, Provider.text("Booked."), Provider.text("Paced."))))
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat("c")
        [waiting] = (await chat.send("Book a trip.")).approvals
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        await world.answer(waiting, "Oslo")
        assert (await chat.wait(1)).text == "Booked."
        await chat.send("And the pace?")
        first, follow_up, later = ({*entry_ids(catalog_of(request))} for request in provider.seen)
        assert first == follow_up == set(CORE_IDS)
        assert later == {*CORE_IDS, NEW}
        assert [NEW in prompt[1]["prompt_tools"] for prompt in prompts(world, "c")] == [False, False, True]
        assert (await world.replay(check=True))["ok"]
    async with opened(tmp_path / "w", provider) as world:
        assert (await world.replay(check=True))["ok"]
        assert world.journal.verify().ok
        assert [NEW in prompt[1]["prompt_tools"] for prompt in prompts(world, "c")] == [False, False, True]


@pytest.mark.parametrize("skips", [{"skip_tool_catalog": True}, {"tools": []}])
async def test_a_message_may_go_without_the_catalog(tmp_path: Path, provider: Provider, skips: Any) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("c").send("Hello")
        await world.chat("c").send("Hello", **skips)
        said = await world.chat("d").say("Hello", **skips)
        await world.chat("d").wait(said.request_id)
    assert [bool(catalog_of(request)) for request in provider.seen] == [True, False, False]
    has_tools = "tools" not in skips
    assert [bool(request.get("tools")) for request in provider.seen] == [True, has_tools, has_tools]


async def test_a_message_costs_no_new_text_while_the_registry_stays(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(tools: Iterable[PromptTool], *, has_reader: bool) -> str:
        made.append(index_text(tools, has_reader=has_reader))
        return made[-1]

    monkeypatch.setitem(prompt_catalog.FORMS, "index", counted)
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        for _ in range(3):
            await world.chat("c").send("Hello")
        assert len(made) == 2  # one for requests with the tool that reads prompt tools, one for those without
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        await world.chat("c").send("Hello")
        assert len(made) == 4
        assert len({prompt[1]["content"] for prompt in prompts(world, "c")}) == 2


@pytest.mark.parametrize(("setting", "header"), [("index", INDEX_HEADER + READER), ("full", FULL_HEADER), ("off", "")])
async def test_the_manifest_sets_the_form_of_the_catalog(
    tmp_path: Path, provider: Provider, setting: str, header: str
) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider, manifest=definitions(tmp_path, setting)) as world:
        assert (await world.chat("c").send("Hello")).status == "done"
        assert (await world.replay(check=True))["ok"]
    assert catalog_of(provider.seen[0]).partition("\n")[0] == header


async def test_an_unknown_form_of_the_catalog_is_refused_by_name(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.bootstrap.manifest.folder_problems", problems)  # as earlier programs did
    async with opened(tmp_path / "w", provider, manifest=definitions(tmp_path, "short")) as world:
        with pytest.raises(InvalidValue, match="auto, index, full and off: 'short'") as refused:
            await world.chat("c").send("Hello")
        assert await world.chat("c").state() is None
    assert refused.value.code == "bad_setting"
    assert provider.seen == []


def definitions(folder: Path, setting: object, name: str = "prompt_catalog") -> Path:
    """Returns a folder with the shipped app's definitions and this value of a setting."""
    root = {**app().root, "settings": {**app().root["settings"], name: setting}}
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "all.json").write_text(json.dumps([*app().definitions, {"$kind": "manifest", "air_version": "1", **root}]))
    return own


async def test_a_catalog_that_was_erased_does_not_stop_the_chats(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("c").send("Hello")
        [intent] = [r for r in world.journal.read("demiurge/Demiurge@1/c") if r.kind == "intent"]
        await world.erase(intent.body["params"]["message_refs"][1], "It was asked for.")
        assert (await world.chat("d").send("Hello")).status == "done"
        assert prompts(world, "d")[0][1]["copy"] == 1
    assert catalog_of(provider.seen[1]) == catalog_of(provider.seen[0])


async def test_a_viewer_sees_which_catalog_a_turn_had_and_not_its_text(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("c").send("Hello")
        seen = world.acting_as(Caller("user:vi", roles=("viewer",)))
        state = await seen.chat("c").state()
        assert state is not None
        ref = state["turn"]["catalog_ref"]
        assert ref.startswith("sha256:")
        with pytest.raises(NotFound):
            seen.blobs.get(Ref(ref))


async def test_the_local_model_gets_no_catalog(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={"HOME": str(tmp_path)}, perform=False) as world:
        said = await world.chat("c").say("Hello")
        event = next(iter(world.journal.read(said.accepted.unit, said.accepted.seq))).body["value"]["$value"]
        assert event["provider"] == "local"
        assert event.get("catalog_ref") is None
        assert event["tools_ref"] is not None


async def test_a_world_without_prompt_tools_of_its_own_has_a_catalog_only_where_a_message_reads_it(
    tmp_path: Path, provider: Provider
) -> None:
    provider.say(Provider.answer(Provider.text("Yes.")))
    async with opened(tmp_path / "w", provider, manifest=definitions(tmp_path, "auto")) as world:
        await world.chat("c").send("Hello")
        await world.chat("c").send("Hello", tools=[CLOCK])
        await world.chat("c").send("Hello", tools=["core__prompt_tool"])
        await world.chat("c").send("Hello", tools=["core__prompt_tool"], skip_tool_catalog=True)
        await propose(world, "p0000000001")
        await approve(world, "p0000000001")
        await world.chat("c").send("Hello")
        assert (await world.replay(check=True))["ok"]
    assert [bool(catalog_of(request)) for request in provider.seen] == [False, False, True, False, True]
    assert NEW in entry_ids(catalog_of(provider.seen[-1]))
