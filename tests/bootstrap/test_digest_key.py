"""The key by which receipts tell the values of secrets apart is missed when it is gone, and never replaced unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import World
from demiurge.errors import Damaged


def delete_key(key: Path) -> None:
    key.unlink()


def replace_key(key: Path) -> None:
    key.write_text("0" * 64 + "\n")


def damage_key(key: Path) -> None:
    key.write_text("no key\n")


def digests(world: World) -> list[str]:
    return [r.body["secrets"][0]["digest"] for r in world.journal.read() if r.kind == "receipt"]


@pytest.mark.parametrize("damage", [delete_key, replace_key, damage_key])
async def test_losing_the_digest_key_stops_turns_until_the_loss_is_accepted(damage: Any, tmp_path: Path) -> None:
    key = tmp_path / "w/digest.key"
    with serving() as provider:
        provider.say(Provider.answer(Provider.text("Yes.")))
        given = {"HOME": str(tmp_path / "home"), "LLM_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": provider.url}
        for _ in range(2):
            async with World.open(key.parent, environment=given, titles="off") as world:
                assert (await world.chat().send("Hello?")).status == "done"
        damage(key)
        async with World.open(key.parent, environment=given, titles="off") as world:
            assert [str(key) in text for text in world.lost()] == [True]
            assert world.journal.verify().ok, "it is no part of the record"
            with pytest.raises(Damaged, match="losses accept") as refused:
                await world.chat().send("Hello?")
            assert refused.value.code == "lost"
        async with World.open(key.parent, environment=given, titles="off", accept_losses="No backup.") as world:
            assert world.accepted is not None
            assert world.lost() == []
            assert (await world.chat().send("Hello?")).status == "done"
            first, second, third = digests(world)
            assert first == second != third
        async with World.open(key.parent, environment=given, titles="off") as world:
            assert world.lost() == []


async def test_a_fork_has_a_key_of_its_own(tmp_path: Path) -> None:
    with serving() as provider:
        provider.say(Provider.answer(Provider.text("Yes.")))
        given = {"HOME": str(tmp_path / "home"), "LLM_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": provider.url}
        async with World.open(tmp_path / "w", environment=given, titles="off") as world:
            await world.chat().send("Hello?")
            fork = await world.fork(tmp_path / "fork")
        async with World.open(fork, environment=given, titles="off") as other:
            assert other.lost() == [], "a fork has a key of its own"
            assert (await other.chat().send("Hello?")).status == "done"
            first, second = digests(other)
            assert first != second
