"""`demiurge policy set`, `manifest set` and `manifest log`, alone and while another process has the world open."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from tests.bootstrap.test_hand_over import definitions
from tests.cli.conftest import callable_tools

NOTHING = "allowed_tools = []\n"


CODE = """
from demiurge.apps.demiurge import app

REDUCERS = {"ex/Other@1": app().reducers["demiurge/Demiurge@1"]}
"""

SETS_THE_MANIFEST = """
import asyncio, sys
from demiurge import World
from other_code import REDUCERS

async def main():
    async with World.open(sys.argv[1], manifest="other", reducers=REDUCERS) as world:
        print("open", world.owned, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A manifest with a module whose code is in `other_code`."""
    (tmp_path / "other_code.py").write_text(CODE)
    return str(definitions(tmp_path / "other", "ex/Other@1"))


@pytest.fixture
def nothing(tmp_path: Path) -> str:
    (tmp_path / "nothing.toml").write_text(NOTHING)
    return "nothing.toml"


def log(demiurge: Any) -> list[tuple[str, list[str] | None]]:
    return [(entry["how"], entry["changed"]) for entry in demiurge("--json", "manifest", "log").document]


def test_the_log_of_a_world_in_which_nothing_happened_is_empty(demiurge: Any) -> None:
    demiurge("blob", "put", "@-", stdin=b"x")
    assert log(demiurge) == []
    assert "Nothing has happened" in demiurge("manifest", "log").out


def test_a_policy_that_is_set_is_in_force_remembered_and_logged(demiurge: Any, nothing: str) -> None:
    demiurge("init")
    done = demiurge("--json", "policy", "set", nothing)
    assert (done.status, done.document["ok"]) == (0, True)
    assert log(demiurge) == [("opened with", None), ("policy set", ["policy"])]
    assert callable_tools(demiurge("--json", "tools", "ls")) == []
    assert demiurge("--json", "manifest", "get").document["tool_policy"]["allowed_tools"] == []
    call = demiurge("--json", "tools", "call", "core.get_current_time", "{}")
    assert call.document["error_code"] == "policy_denied"
    assert log(demiurge) == [("opened with", None), ("policy set", ["policy"])]
    assert demiurge("journal", "verify").status == 0
    assert demiurge("replay", "--check").status == 0


def test_names_of_no_tool_are_told_and_a_bad_file_changes_nothing(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init")
    (tmp_path / "odd.toml").write_text('allowed_tools = ["no_such_tool"]\n')
    assert "names no_such_tool, which is no tool of this world" in demiurge("policy", "set", "odd.toml").err
    (tmp_path / "bad.toml").write_text("allow = 1\n")
    assert demiurge("policy", "set", "bad.toml").status == 1
    assert len(log(demiurge)) == 2


def test_the_log_says_when_who_how_and_what(demiurge: Any, nothing: str) -> None:
    demiurge("init")
    demiurge("tools", "call", "core.get_current_time", "{}")
    demiurge("policy", "set", nothing)
    first, second = demiurge("manifest", "log").out.splitlines()
    assert "Z  user: opened with  sha256:" in first
    assert "Z  user: policy set (policy)  sha256:" in second


def test_the_manifest_and_the_policy_change_while_a_chat_has_the_world_open(
    process: Any, provider: Any, nothing: str
) -> None:
    app = Path(__file__).parents[2] / "src/demiurge/apps/demiurge/air"
    provider.say(provider.answer(provider.text("Done."), held=True))
    owner = process.start("chat", "-m", "Think hard.")
    assert provider.asked.wait(20)
    assert process("policy", "set", nothing).status == 0
    assert callable_tools(process("--json", "tools", "ls")) == []
    assert process("manifest", "set", str(app)).status == 0
    provider.let_go.set()
    assert process.finish(owner).status == 0
    assert log(process) == [("opened with", None), ("policy set", ["policy"])]
    verified = process("--json", "journal", "verify").document
    assert verified["ok"], json.dumps(verified)


def test_a_chat_that_lacks_the_code_of_a_new_manifest_ends_its_turn_and_hands_the_world_over(
    process: Any, provider: Any, other: str
) -> None:
    provider.say(provider.answer(provider.text("Done."), held=True))
    owner = process.start("chat", "-m", "Think hard.")
    assert provider.asked.wait(20)
    asker = process.start("manifest", "set", other, "--tools", "other_code")
    provider.let_go.set()
    done, said = process.finish(asker), process.finish(owner)
    assert (done.status, said.status) == (0, 0), (done.err, said.err)
    assert "Done." in said.out
    assert len(provider.seen) == 1
    assert log(process) == [("opened with", None), ("manifest set", ["code", "definitions"])]
    assert process("--json", "journal", "verify").document["ok"]


def test_a_server_that_lacks_the_code_of_a_new_manifest_serves_on_through_its_owner(
    process: Any, provider: Any, other: str, world: Path
) -> None:
    provider.say(provider.answer(provider.text("Done.")))
    token = process("init", "--json").document["token"]
    serving = process.start("serve", "--port", "0", "--json")
    url = json.loads(serving.stdout.readline())["url"]

    def ask(*words: str) -> Any:
        return process("-w", url, "--token", token, "--json", *words)

    assert ask("chat", "-m", "Hello.").document["text"] == "Done."
    with Popen([sys.executable, "-c", SETS_THE_MANIFEST, str(world)], stdin=PIPE, stdout=PIPE, text=True) as asker:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "open True\n"
        assert ask("chat", "-m", "Hello again.").document["text"] == "Done."
        entries: list[Mapping[str, Any]] = ask("manifest", "log").document
        assert [entry["how"] for entry in entries] == ["opened with", "manifest set"]
        asker.communicate("")
    refused = ask("chat", "-m", "Is anybody there?")
    assert (refused.status, refused.document["error"]["code"]) == (1, "no_code")
    assert len(ask("chat", "show").document["messages"]) == 4
    serving.terminate()
    assert process.finish(serving).status == 0
    assert process("--json", "journal", "verify").document["ok"]
