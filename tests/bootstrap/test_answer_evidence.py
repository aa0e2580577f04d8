"""The setting `evidence`: what becomes of an answer that cites a receipt or a quote that no call gave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.provider import Answer, Provider, serving

from demiurge import ToolPolicy, World
from demiurge.bootstrap.workspace import Workspace
from demiurge.values.caller import Caller

SCENE, TEXT = "Story/SCN-hall.md", "The hall is dark.\nNobody came.\n"
ALLOWED = ToolPolicy(("core__file_reader",))
INVENTED = "rcpt_0123456789abcdef0123456789abcdef"
FALSE = f'It is bright.\nEvidence: {SCENE} line 1 "The hall is bright." {INVENTED}'
READ = Provider.answer(Provider.call("core__file_reader", {"file_path": SCENE, "start_line": 1, "end_line": 2}, "c1"))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider, evidence: str | None = None) -> World:
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    manifest = None
    if evidence is not None:
        manifest = folder.parent / "air"
        manifest.mkdir()
        settings = {"$kind": "manifest", "extends": "demiurge", "settings": {"evidence": evidence}}
        (manifest / "manifest.json").write_text(json.dumps(settings))
    return World.open(folder, environment=environment, policy=ALLOWED, manifest=manifest)


def said(text: str) -> Answer:
    return Provider.answer(Provider.text(text))


async def receipt_of(world: World, provider: Provider) -> str:
    """Lets the model read the scene. Returns the receipt of that."""
    await Workspace(world, "main").write(SCENE, TEXT.encode())
    provider.say(READ, said("Read."))
    reply = await world.chat("c").send("Read it.", tools=ALLOWED.allowed_tools)
    assert reply.findings == ()
    return str(reply.tool_calls[0].result["receipt"]["receipt_id"])


async def test_an_answer_is_marked_in_reply_messages_and_record_and_replays(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        receipt = await receipt_of(world, provider)
        chat = world.chat("c")
        quote = f'Evidence: {SCENE} line 1 "The hall is bright." {receipt}'
        for text, codes in (
            (FALSE, ["unknown_receipt"]),
            (f"{quote}\nAs {INVENTED} says, file_reader(x) found it.", ["quote_not_found", "unknown_receipt"]),
            (f"{quote} file_reader(x)", ["quote_not_found"]),
            (f'Evidence: {SCENE} line 1 "The hall is dark." {receipt}', []),
            (f'{SCENE} said "The hall is bright.", and file_reader read it.', []),
            ("It is dark.", []),
        ):
            provider.say(said(text))
            reply = await chat.send("And?")
            assert (reply.status, reply.text, [found.code for found in reply.findings]) == ("done", text, codes)
        last = await chat.reply(2)
        assert [(found.line, found.detail) for found in last.findings] == [(2, INVENTED)]
        assert last.findings[0].message == f"No recorded call gave the receipt {INVENTED}."
        for role in ("user", "viewer"):
            marked = await world.acting_as(Caller("ann", roles=(role,))).chat("c").messages(2)
            assert [entry["findings"][0]["detail"] for entry in marked[:2] if "findings" in entry] == [INVENTED]
        asked = len(provider.seen)
        assert (await world.replay(check=True))["ok"]
        assert world.journal.verify().ok
        assert len(provider.seen) == asked
        answer = next(entry["ref"] for entry in await chat.messages(2) if entry["role"] == "assistant")
        await world.erase(answer, "A test.")
        assert (await chat.reply(2)).findings == ()


async def test_retry_asks_once_more_and_then_refuses(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider, "retry") as world:
        receipt = await receipt_of(world, provider)
        true = f'Evidence: {SCENE} line 1 "The hall is dark." {receipt}'
        provider.say(said(FALSE), said(true))
        reply = await world.chat("c").send("Is it dark?")
        assert (reply.status, reply.text, reply.findings) == ("done", true, ())
        assert INVENTED in json.dumps(provider.seen[-1]["input"][-1])
        messages = await world.chat("c").messages(2)
        assert [(entry["role"], entry.get("refused", False)) for entry in messages] == [
            ("user", False),
            ("assistant", True),
            ("system", False),
            ("assistant", False),
        ]
        viewed = await world.acting_as(Caller("ann", roles=("viewer",))).chat("c").messages(2)
        assert [entry["text"] for entry in viewed] == ["Is it dark?", FALSE, "", true]
        provider.say(said(FALSE))
        reply = await world.chat("c").send("Really?")
        assert len(provider.seen) == 2
        assert (reply.status, reply.error_code, reply.text) == ("failed", "evidence_refused", "")
        assert [found.code for found in reply.findings] == ["unknown_receipt"]
        assert (await world.replay(check=True))["ok"]


async def test_refuse_ends_the_turn_and_off_checks_nothing(tmp_path: Path, provider: Provider) -> None:
    (tmp_path / "on").mkdir()
    (tmp_path / "off").mkdir()
    async with opened(tmp_path / "on" / "w", provider, "refuse") as world:
        provider.say(said(FALSE), said("Sorry."))
        reply = await world.chat("c").send("Is it dark?")
        assert (reply.status, reply.error_code) == ("failed", "evidence_refused")
        assert INVENTED in reply.message
        assert (await world.chat("c").send("So?")).status == "done"
        sent = provider.seen[-1]["input"][-4:]
        told = [json.dumps(item["content"]) for item in sent]
        assert [item["role"] for item in sent] == ["user", "assistant", "user", "user"]
        assert "Your last answer was refused, since its evidence does not hold: line 2: No recorded call" in told[2]
        assert "So?" in told[3]
        assert (await world.chat("c").reply(1)).error_code == "evidence_refused"  # also of a turn before the last one
        assert [*(await world.chat("c").failures())] == [1]
        assert (await world.replay(check=True))["ok"]
    async with opened(tmp_path / "off" / "w", provider, "off") as world:
        provider.say(said(FALSE))
        reply = await world.chat("c").send("Is it dark?")
        assert (reply.status, reply.findings) == ("done", ())
