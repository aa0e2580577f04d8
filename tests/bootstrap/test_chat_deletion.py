"""A chat that is deleted: what is erased with it, what stays because others name it, and what it takes afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demiurge import World, tool
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.testing import ScriptedModel, call
from demiurge.values.caller import Caller

CANARY = "quokka-4711"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@tool(effect="read_only")
def look_up(name: str) -> str:
    """Look up a customer."""
    return f"{name} lives in {CANARY} Street"


@tool
def order(part: str) -> str:
    """Order a part."""
    return f"Ordered {part}"


def opened(folder: Path, *answers: Any, **options: Any) -> World:
    model = ScriptedModel([*answers])
    return World.open(folder / "w", [look_up, order], model=model, **{"titles": "always", **options})


def holding(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and CANARY.encode() in p.read_bytes())


async def test_nothing_that_was_said_in_a_deleted_chat_is_left(tmp_path: Path) -> None:
    script = [call("look_up", name=CANARY), f"She lives there, {CANARY}.", f"Where {CANARY} lives"]
    async with opened(tmp_path, *script) as world:
        chat = world.chat("orders")
        await chat.send(f"Where does {CANARY} live?", attachments=[PNG])
        await chat.rename(f"The street of {CANARY}")
        await world.settle()
        await chat.rename("Another name")
        assert holding(tmp_path) != []
        found = await chat.delete("she asked", dry_run=True)
        assert (found.done, len(found.refs) > 4, len(await world.chats())) == (False, True, 1)
        done = await chat.delete("she asked")
        assert (done.done, done.shared, done.inline) == (True, (), ())
        assert done.refs == found.refs
        assert set(done.units) <= {"demiurge/Demiurge@1/orders", "demiurge/Titles@1/orders"}
        assert await world.chats() == []
        assert await world.chats(archived=True) == []
        shown = await chat.messages()
        assert {message["erased"]["why"] for message in shown} == {"she asked"}
        assert world.journal.verify().ok
        assert (await world.replay())["ok"]
    assert holding(tmp_path) == []
    async with opened(tmp_path) as world:
        assert await world.chats() == []


async def test_the_titles_that_a_chat_had_are_erased_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path, "Hello.", f"About {CANARY}") as world:
        chat = world.chat()
        await chat.send("Hello")
        await world.settle()
        assert (await world.chats())[0].title == f"About {CANARY}"
        await chat.rename(f"{CANARY} and others")
        await chat.rename("Others")
        await chat.delete("she asked")
    assert holding(tmp_path) == []


async def test_equal_messages_of_another_chat_stay(tmp_path: Path) -> None:
    async with opened(tmp_path, "Hello.", "Hello.", titles="off") as world:
        for chat_id in ("a", "b"):
            await world.chat(chat_id).send("The same words")
        done = await world.chat("a").delete("not needed")
        assert (done.done, len(done.shared)) == (True, 2)
        assert [message["text"] for message in await world.chat("b").messages()] == ["The same words", "Hello."]


async def test_a_deleted_chat_takes_nothing_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path, "Hello.", titles="off") as world:
        chat = world.chat()
        await chat.send("Hello")
        await chat.delete("not needed")
        assert (await chat.send("again")).error_code == "chat_deleted"
        for change in (chat.rename("x"), chat.archive(), chat.say("x")):
            with pytest.raises(Conflict) as caught:
                await change
            assert caught.value.code == "chat_deleted"
        assert (await chat.delete("not needed")).done


async def test_a_deletion_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    async with opened(tmp_path, f"{CANARY}!", titles="off") as world:
        await world.chat().send(f"Say {CANARY}")
        await world.submit("demiurge/ChatEvent@1", {"ChatDeleted": {"chat_id": "main"}})
        assert await world.chats() == []
    assert holding(tmp_path) != []
    async with opened(tmp_path, titles="off") as world:
        assert (await world.chat().delete("she asked")).done
    assert holding(tmp_path) == []


async def test_a_chat_whose_turn_goes_on_is_not_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path, call("order", part="bolt"), titles="off") as world:
        chat = world.chat()
        assert (await chat.send("Order a bolt")).status == "awaiting_approval"
        with pytest.raises(Conflict) as caught:
            await chat.delete("not needed")
        assert caught.value.code == "chat_busy"
        await chat.cancel()
        assert (await chat.delete("not needed")).done


async def test_a_reason_is_needed_and_does_not_repeat_the_words(tmp_path: Path) -> None:
    async with opened(tmp_path, "Hello.", titles="off") as world:
        await world.chat().send(f"Say {CANARY}")
        for why in ("", f"it names {CANARY}"):
            with pytest.raises(InvalidValue):
                await world.chat().delete(why, dry_run=True)
            with pytest.raises(InvalidValue):
                await world.chat().delete(why)
        assert [chat.id for chat in await world.chats()] == ["main"], "a refused deletion changes nothing"
        assert CANARY in str(await world.chat().messages())
        with pytest.raises(NotFound):
            await world.chat("none").delete("not needed")


@pytest.mark.parametrize("role", ["viewer", "approver", "agent", "chief"])
async def test_only_a_user_deletes_a_chat(role: str, tmp_path: Path) -> None:
    async with opened(tmp_path, "Hello.", titles="off") as world:
        await world.chat().send(f"Say {CANARY}")
        other = world.acting_as(Caller("user:eve", roles=(role,)))
        with pytest.raises(UsageError) as caught:
            await other.chat().delete("not needed")
        assert caught.value.code == "role_missing"
        assert len(await world.chats()) == 1
