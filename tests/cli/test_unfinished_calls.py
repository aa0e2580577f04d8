"""A call that a process began before it was killed is named, until it is known what became of it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from demiurge import World

PAY = '''
import os, signal
from demiurge.tools import ToolEffect, tool

@tool(effect=ToolEffect.{effect})
def pay(invoice: str) -> str:
    """Pay an invoice."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
'''
WORDS = "Begun, and its end is not known"


@pytest.fixture
def killed(request: Any, process: Any, provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world whose last process was killed inside a call."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay_tools.py").write_text(PAY.format(effect=getattr(request, "param", "EXTERNAL_SIDE_EFFECT")))
    (tmp_path / "open.toml").write_text('allowed_tools = ["pay"]\n')
    assert process("init", "--tools", "pay_tools", "--policy", "open.toml").status == 0
    provider.say(provider.answer(provider.call("pay", {"invoice": "1"})), provider.answer(provider.text("Hm.")))
    assert process("chat", "-m", "Pay it.").status == -signal.SIGKILL


@pytest.mark.usefixtures("killed")
async def test_an_unfinished_call_is_listed_until_it_is_settled(demiurge: Any, world: Path) -> None:
    [begun] = demiurge("--json", "doubts", "ls").document["doubts"]
    assert (begun["tool"], begun["code"], begun["unit"]) == ("pay", "begun", "demiurge/Demiurge@1/main")
    assert begun["message"].startswith(WORDS)
    assert (begun["arguments_json"], begun["settled"]) == ('{"invoice": "1"}', None)
    assert begun["at_ns"] > 0
    async with World.open(world) as opened:
        assert await opened.doubts() == [begun]
    listed = demiurge("doubts", "ls").out
    assert WORDS in listed
    assert "doubts settle" not in listed
    assert demiurge("doubts", "show", begun["id"][:12]).document == begun
    shown = demiurge("chat", "show").out
    assert f"pay: {begun['message']}" in shown
    assert "(awaiting approval)" not in shown
    document = demiurge("--json", "chat", "show").document
    assert document["begun"] == [begun]
    assert document["last"]["status"] == "running"


@pytest.mark.usefixtures("killed")
def test_an_unfinished_call_cannot_be_settled_before_its_unit_goes_on(demiurge: Any) -> None:
    [begun] = demiurge("--json", "doubts", "ls").document["doubts"]
    refused = demiurge("--json", "doubts", "settle", begun["id"], "--done", "--reason", "I saw it.")
    assert (refused.status, refused.document["error"]["code"]) == (1, "begun")
    assert demiurge("chat", "-m", "And now?").status == 0
    [doubt] = demiurge("--json", "doubts", "ls").document["doubts"]
    assert (doubt["id"], doubt["code"]) == (begun["id"], "unknown_outcome")
    assert demiurge("doubts", "settle", doubt["id"], "--done", "--reason", "I saw it.").status == 0
    assert demiurge("doubts", "ls").out == "Nothing is in doubt.\n"


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize("killed", ["READ_ONLY"], indirect=True)
def test_an_unfinished_read_is_in_no_doubt(demiurge: Any) -> None:
    assert demiurge("doubts", "ls").out == "Nothing is in doubt.\n"
    shown = demiurge("chat", "show").out
    assert "(the turn is not over; the next `demiurge chat` goes on with it)" in shown


def test_a_call_that_another_process_performs_is_in_no_doubt(process: Any, provider: Any, tmp_path: Path) -> None:
    slow = PAY.replace(
        "os.kill(os.getpid(), signal.SIGKILL)", "open('began', 'w').close(); __import__('time').sleep(60)"
    )
    (tmp_path / "slow_tools.py").write_text(slow.format(effect="EXTERNAL_SIDE_EFFECT"))
    (tmp_path / "open.toml").write_text('allowed_tools = ["pay"]\n')
    assert process("init", "--tools", "slow_tools", "--policy", "open.toml").status == 0
    provider.say(provider.answer(provider.call("pay", {"invoice": "1"})))
    owner = process.start("chat", "-m", "Pay it.")
    for _ in range(1000):
        if (tmp_path / "began").exists():
            break
        time.sleep(0.02)
    assert (tmp_path / "began").exists()
    assert process("--json", "doubts", "ls").document == {"doubts": []}
    owner.kill()
    process.finish(owner)
