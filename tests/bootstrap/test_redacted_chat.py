"""A chat as a caller sees it who may not read records: the words and the public views, and no argument of a call."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.bootstrap.backend.test_visibility import (
    AGENT,
    APPROVER,
    CANARIES,
    CHIEF,
    PUBLIC,
    USERS,
    VIEWER,
    room,
)
from tests.canaries.search import find_values

from demiurge.bootstrap.backend.public_fields import WITHHELD_TEXT
from demiurge.values.caller import Caller


@pytest.mark.parametrize("caller", [VIEWER, APPROVER], ids=["viewer", "approver"])
async def test_the_messages_of_a_chat_are_shown_without_what_is_private(tmp_path: Path, caller: Caller) -> None:
    async with room(tmp_path / "w") as here:
        chat = here.world.acting_as(caller).chat("main")
        messages = await chat.messages()
        assert [(said["role"], said["text"]) for said in messages if said["role"] != "tool"] == [
            ("user", PUBLIC[0]),
            ("assistant", f"I look. {PUBLIC[3]}"),
            ("assistant", ""),
        ]
        assert messages[0]["attachments"] == [{"type": "image"}]
        assert messages[1]["tool_calls"] == [
            {"id": "call_1", "name": "look_up", "arguments_json": None},
            {"id": "call_2", "name": "look_up", "arguments_json": None},
        ]
        answers = [said["tool"] for said in messages if said["role"] == "tool"]
        assert [(one["ok"], one["result"]) for one in answers] == [(True, {"name": PUBLIC[2]}), (False, None)]
        assert find_values(CANARIES.values(), repr(messages)) == []


@pytest.mark.parametrize("caller", [VIEWER, APPROVER], ids=["viewer", "approver"])
async def test_the_reply_of_a_chat_is_shown_without_what_is_private(tmp_path: Path, caller: Caller) -> None:
    async with room(tmp_path / "w") as here:
        chat = here.world.acting_as(caller).chat("main")
        reply = await chat.reply()
        assert [(call.name, call.ok, call.arguments_json) for call in reply.tool_calls] == [
            ("look_up", True, None),
            ("look_up", False, None),
            ("send_mail", None, None),
        ]
        assert reply.status == "awaiting_approval"
        assert reply.approvals == ((here.approval,) if caller is APPROVER else ())
        assert find_values(CANARIES.values(), repr(asdict(reply))) == []


async def test_a_caller_that_may_read_records_sees_the_whole_chat(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        whole = await here.world.chat("main").messages()
        for caller in (USERS, AGENT, CHIEF):
            chat = here.world.acting_as(caller).chat("main")
            assert await chat.messages() == whole
            reply = await chat.reply()
            assert [call.arguments_json for call in reply.tool_calls].count(None) == 0
            assert reply.approvals == (() if caller is CHIEF else (here.approval,))


async def test_a_turn_that_failed_says_its_code_and_withholds_the_reason(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        await here.world.chat("main").cancel("The model said canary-reason-0123456789.")
        await here.world.settle()
        code = (await here.world.chat("main").reply()).error_code
        assert code is not None
        chat = here.world.acting_as(VIEWER).chat("main")
        reply = await chat.reply()
        assert (reply.status, reply.error_code, reply.message) == ("failed", code, WITHHELD_TEXT)
        assert await chat.failures() == {1: (code, WITHHELD_TEXT)}


async def test_an_erased_message_says_who_erased_it_and_withholds_why(tmp_path: Path) -> None:
    async with room(tmp_path / "w") as here:
        await here.world.chat("main").cancel()
        await here.world.settle()
        [said] = [one for one in await here.world.chat("main").messages() if one["role"] == "user"]
        await here.world.erase(said["ref"], why="canary-why-0123456789")
        chat = here.world.acting_as(VIEWER).chat("main")
        messages = await chat.messages()
        assert messages[0]["text"] == ""
        assert messages[0]["erased"]["actor"] == here.world.caller.actor
        assert messages[0]["erased"]["at_ms"] > 0
        assert messages[0]["erased"]["why"] == WITHHELD_TEXT
        assert find_values(["canary-why-0123456789"], repr(messages)) == []
        assert await asyncio.to_thread(here.world.blobs.message, messages[1]["ref"])
