"""The title of a chat that its model proposes: when it is asked, and what becomes of the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.provider import serving

from demiurge import World
from demiurge.apps.demiurge import TITLES
from demiurge.apps.demiurge.title_reducer import INSTRUCTION, title_in
from demiurge.errors import InvalidValue
from demiurge.models.request import GenerateRequest
from demiurge.testing import ScriptedModel
from demiurge.values import canonical_json

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


def asks_for_title(request: GenerateRequest) -> bool:
    return canonical_json.parse_object(INSTRUCTION)["content"][0]["text"] in str(request.items[0])


class NamingModel(ScriptedModel):
    """Answers each message with "Hello.", and requests for a title with `title`."""

    def __init__(self, title: str | Exception = "The Planting of a Hedge") -> None:
        super().__init__(lambda request: title if asks_for_title(request) else "Hello.")

    @property
    def titles_asked(self) -> int:
        return sum(map(asks_for_title, self.requests))


def opened(folder: Path, model: NamingModel, **options: Any) -> World:
    return World.open(folder / "w", model=model, **{"titles": "always", **options})


async def named(world: World) -> list[tuple[str, bool]]:
    await world.settle()
    return [(chat.title, chat.name.startswith("Untitled, ")) for chat in await world.chats()]


async def test_a_model_names_a_chat_once_after_its_first_turn(tmp_path: Path) -> None:
    model = NamingModel()
    async with opened(tmp_path, model) as world:
        await world.chat().send("How do I plant a hedge?")
        assert await named(world) == [("The Planting of a Hedge", False)]
        await world.chat().send("And when?")
        assert await named(world) == [("The Planting of a Hedge", False)]
        [request] = filter(asks_for_title, model.requests)
        assert len(request.items) == 2
        assert "How do I plant a hedge?" in str(request.items[-1])
        assert request.specs == ()
        assert (await world.replay())["ok"]


async def test_a_turn_does_not_wait_for_the_title(tmp_path: Path) -> None:
    with serving() as provider:
        provider.title = "Greetings"
        provider.say(provider.answer(provider.text("Hello.")))
        environment = {"OPENAI_API_KEY": "sk-test"}
        options: Any = {"provider": "openai-responses", "base_url": provider.url, "environment": environment}
        async with World.open(tmp_path / "w", **options) as world:
            assert (await world.chat().send("Hello")).text == "Hello."
        async with World.open(tmp_path / "w", **options) as world:
            [chat] = await world.chats()
            assert chat.title == "Greetings", "it was waited for when the world was closed"
            assert len(provider.seen) == 1


@pytest.mark.parametrize(("titles", "asked"), [("off", 0), ("auto", 0), ("always", 1)])
async def test_a_setting_says_whether_a_model_of_this_process_is_asked(titles: str, asked: int, tmp_path: Path) -> None:
    model = NamingModel()
    async with opened(tmp_path, model, titles=titles) as world:
        await world.chat().send("Hello")
        await world.settle()
        assert model.titles_asked == asked
        await world.set_chat_settings(titles="always")
        await world.chat("other").send("Hello")
        await world.settle()
        assert model.titles_asked == asked + 1


async def test_a_setting_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="auto or always or off"):
        async with opened(tmp_path, NamingModel(), titles="often"):
            pass


async def test_a_title_of_a_person_stays(tmp_path: Path) -> None:
    model = NamingModel()
    async with opened(tmp_path, model) as world:
        await world.chat().create("My garden")
        await world.chat().send("Hello")
        assert await named(world) == [("My garden", False)]
        assert model.titles_asked == 0


async def test_a_chat_is_renamed_and_its_model_changes_nothing_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path, NamingModel()) as world:
        await world.chat().send("Hello")
        await world.settle()
        await world.chat().rename("Mine")
        await world.chat().send("Hello again")
        assert await named(world) == [("Mine", False)]


@pytest.mark.parametrize("answer", ["", " \n\t", RuntimeError("the model is ill")])
async def test_a_chat_without_a_usable_answer_stays_untitled_and_goes_on(
    answer: str | Exception, tmp_path: Path
) -> None:
    model = NamingModel(answer)
    async with opened(tmp_path, model) as world:
        await world.chat().send("Hello")
        assert await named(world) == [("", True)]
        state = await world.state(TITLES, "main") or {}
        assert (state["status"], state["title_ref"]) == ("failed", None)
        assert (await world.chat().send("Hello again")).status == "done"
        await world.settle()
        assert model.titles_asked == 1


async def test_a_turn_is_done_whatever_comes_of_the_title(tmp_path: Path) -> None:
    async with opened(tmp_path, NamingModel(RuntimeError("the model is ill"))) as world:
        reply = await world.chat().send("Hello")
        await world.settle()
        tree = await world.chat().trace(reply.request_id)
        assert tree.state == "done"
        assert {node["unit"] for node in tree.nodes} == {"demiurge/Demiurge@1/main"}


async def test_a_long_message_and_one_with_a_file_are_not_sent_twice(tmp_path: Path) -> None:
    model = NamingModel()
    async with opened(tmp_path, model) as world:
        await world.chat("long").send("word " * 2000)
        await world.chat("image").send("What is this?", attachments=[PNG])
        assert await named(world) == [("", True), ("", True)]
        assert model.titles_asked == 0


async def test_nobody_names_a_chat_from_outside(tmp_path: Path) -> None:
    async with opened(tmp_path, NamingModel(), titles="off") as world:
        await world.chat().send("Hello")
        ref = world.backend.run.put_blob(b"forged")
        await world.submit("demiurge/ChatEvent@1", {"ChatTitled": {"chat_id": "main", "title_ref": ref}})
        await world.submit("demiurge/TitleEvent@1", {"Done": {"chat_id": "main", "output_ref": ref}})
        assert await named(world) == [("", True)]


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"Planting a Hedge."', "Planting a Hedge"),
        ("\n**Planting a Hedge**\nIn six words.", "Planting a Hedge"),
        ("# Title: a hedge", "Title: a hedge"),
        ("\u00ab Une haie \u00bb", "Une haie"),
        ("hidden\u202e\u200b text", "hidden text"),
        ("word " * 40, ("word " * 16).strip()),
        ("x" * 200, "x" * 80),
        ("...", ""),
    ],
)
def test_a_title_is_the_first_line_without_what_stands_around_it(answer: str, title: str) -> None:
    assert title_in(answer) == title
