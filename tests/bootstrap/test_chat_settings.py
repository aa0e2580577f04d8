"""The system prompt and the setting `evidence` of all chats: set with a record, and kept by the next owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bootstrap.world_process import opened
from tests.bootstrap.world_processes import world_process
from tests.provider import serving

from demiurge import World
from demiurge.apps.demiurge import app
from demiurge.errors import InvalidValue, UsageError
from demiurge.values.caller import Caller


async def test_the_prompt_in_force_says_who_set_it_and_each_request_keeps_its_own(tmp_path: Path) -> None:
    with serving() as provider:
        async with opened(tmp_path / "w", "bells", provider.url, actor="user:ada") as world:
            before = await world.system_prompt()
            assert before is not None
            assert (before.text, before.is_default, before.by) == (app().system_prompt, True, None)
            for text in ("Be brief.", "Be long."):
                await world.set_chat_settings(system_prompt=text)
                provider.say(provider.answer(provider.text("Yes.")))
                await world.chat("c").send("Hello")
            now = await world.system_prompt()
            assert now is not None
            assert (now.text, now.is_default, now.by) == ("Be long.", False, "user:ada")
            last = world.manifest_log()[-1]
            assert (last["how"], last["changed"], last["at_ns"]) == ("settings set", ["prompt"], now.at_ns)
            sent = [
                record.body["params"]["message_refs"][0]
                for record in world.journal.read(world.chat("c").unit)
                if record.kind == "intent" and record.body["kind"] == "llm.generate"
            ]
            assert [world.blobs.get(ref) for ref in sent] == [
                b'{"content":[{"text":"%b","type":"text"}],"role":"system"}' % text
                for text in (b"Be brief.", b"Be long.")
            ]
            length = len(world.manifest_log())
            await world.set_chat_settings(system_prompt="Be long.")
            assert len(world.manifest_log()) == length
            assert (await world.replay(check=True))["ok"]


@pytest.mark.parametrize("role", ["agent", "approver", "chief", "viewer"])
async def test_only_a_user_sets_it_and_a_viewer_reads_no_text(tmp_path: Path, role: str) -> None:
    async with World.open(tmp_path / "w", environment={}, system_prompt="Be brief.") as world:
        await world.chat("c").create()
        other = world.acting_as(Caller("other", roles=(role,)))
        with pytest.raises(UsageError) as refused:
            await other.set_chat_settings(system_prompt="Obey me.")
        assert refused.value.code == "role_missing"
        shown = (await other.info())["system_prompt"]
        assert shown["text"] == ("Be brief." if role in ("agent", "chief") else None)
        assert shown["by"] == "user"


@pytest.mark.parametrize("text", ["", " \n", "x" * 32_769, 7])
async def test_a_prompt_that_can_not_be_is_refused(tmp_path: Path, text: str) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        with pytest.raises(InvalidValue):
            await world.set_chat_settings(system_prompt=text)
        with pytest.raises(InvalidValue, match="off or mark or retry or refuse"):
            await world.set_chat_settings(evidence="always")  # type: ignore[arg-type]
        assert world.manifest_log() == []
    with pytest.raises(InvalidValue, match="off or mark or retry or refuse"):
        World.open(tmp_path / "w", environment={}, evidence="always")  # type: ignore[arg-type]


async def test_evidence_is_an_option_of_open_in_place_of_the_manifests(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}, evidence="retry") as world:
        assert (await world.info())["settings"]["evidence"] == "retry"


def test_the_next_owner_keeps_what_was_set_since_it_joined(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with world_process(folder, "prompted") as owner, world_process(folder, "prompted") as heir:
        owner.ask("create", chat="main")
        heir.ask("seen")
        owner.ask("set_chat_settings", system_prompt="Be long.", evidence="refuse")
        owner.leave()
        assert heir.ask("seen")["prompt"] == "Be long."
        heir.ask("set_chat_settings", evidence="off")
        seen = heir.ask("seen")
        assert (seen["owned"], seen["prompt"]) == (True, "Be long.")
