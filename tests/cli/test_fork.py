"""`demiurge fork` and `state get --at`: time travel from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider

from demiurge.errors import Unavailable

CHAT = "demiurge/Demiurge@1"


@pytest.fixture(autouse=True)
def made(demiurge: Any, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")), Provider.answer(Provider.text("Good.")))
    assert demiurge("chat", "--message", "Hi").status == 0
    assert demiurge("chat", "--message", "How are you?").status == 0


def roles(demiurge: Any, *options: str) -> list[str]:
    state = demiurge("--json", *options[:2], "state", "get", CHAT, "--key", "main", *options[2:])
    assert state.status == 0, state.err
    return [message["role"] for message in state.document["messages"]]


def turns(demiurge: Any) -> list[int]:
    """Where the user's messages came in."""
    records = demiurge("--json", "journal", "tail", "-n", "100").document["records"]
    came_in = [r for r in records if r["kind"] == "event" and r["cause"] is None]
    return [r["position"] for r in came_in if r["body"]["value"]["$tag"] == "UserMessage"]


def test_a_fork_of_the_present_can_be_looked_at_and_talked_with(
    demiurge: Any, provider: Provider, tmp_path: Path
) -> None:
    done = demiurge("--json", "fork", "f")
    assert done.status == 0
    made = done.document
    assert made["world"] == str(tmp_path / "f")
    assert made["ended"] == 0
    assert demiurge("--json", "-w", "f", "journal", "verify").document["ok"]
    assert demiurge("--json", "-w", "f", "replay").document["ok"]
    provider.say(Provider.answer(Provider.text("In the fork.")))
    assert "In the fork." in demiurge("-w", "f", "chat", "--message", "Where?").out
    assert len(roles(demiurge, "-w", "f")) == 6
    assert len(roles(demiurge, "-w", "world")) == 4


def test_a_fork_of_a_position_has_what_was_said_up_to_there(demiurge: Any) -> None:
    _, second = turns(demiurge)
    done = demiurge("fork", "f", "--at", str(second - 1))
    assert done.status == 0
    assert done.out.splitlines()[0].endswith(f"records up to position {second - 1}.")
    assert done.out.splitlines()[1] == "Talk with it: demiurge -w f chat"
    assert roles(demiurge, "-w", "f") == ["user", "assistant"]
    assert [line.split()[3] for line in demiurge("-w", "f", "journal", "tail").out.splitlines()].count("fork") > 0


def test_a_fork_remembers_the_tools_the_hosts_and_the_policy_of_its_world(
    demiurge: Any, provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "shop_tools.py").write_text(
        "from demiurge import tool\n\n@tool\ndef ring() -> str:\n    \"Ring.\"\n    return 'rang'\n", "utf-8"
    )
    (tmp_path / "open.toml").write_text('allowed_tools = ["ring"]\n')
    kept = ("--tools", "shop_tools", "--allow-host", "api.example.com", "--policy", "open.toml")
    assert demiurge("init", *kept).status == 0
    forked = demiurge("fork", "f")
    assert forked.out.splitlines()[1] == "Talk with it: demiurge -w f chat"
    assert "Remembered for the fork: --tools shop_tools --allow-host api.example.com --policy" in forked.err
    assert demiurge("-w", "f", "tools", "call", "ring").out == "rang\n"
    provider.say(Provider.answer(Provider.text("Hello.")))
    shown = demiurge("-w", "f", "chat", "--message", "Hi").err
    assert "As remembered for this world: --tools shop_tools --allow-host api.example.com --policy" in shown
    assert demiurge("init", "--forget").status == 0
    assert "ring" in demiurge("-w", "f", "tools", "ls").out


def test_a_fork_that_cannot_remember_says_how_to_name_the_tools(
    demiurge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_tools.py").write_text(
        "from demiurge import tool\n\n@tool\ndef ring() -> str:\n    \"Ring.\"\n    return 'rang'\n", "utf-8"
    )
    assert demiurge("init", "--tools", "shop_tools").status == 0

    def refuse(*_: object) -> None:
        raise Unavailable("The config folder can't be written.")

    monkeypatch.setattr("demiurge.cli.fork.remember", refuse)
    forked = demiurge("fork", "f")
    assert forked.out.splitlines()[1] == "Talk with it: demiurge -w f chat --tools shop_tools"
    assert "nothing is remembered for the fork" in forked.err


def test_a_fork_tells_which_effects_were_open_at_its_position(demiurge: Any) -> None:
    first, _ = turns(demiurge)
    done = demiurge("--json", "fork", "f", "--at", str(first))
    assert done.document["ended"] == 1
    [receipt] = [
        r for r in demiurge("--json", "-w", "f", "journal", "tail").document["records"] if r["kind"] == "receipt"
    ]
    assert receipt["body"]["payload"]["code"] == "unknown_outcome"
    assert "unknown_outcome" in demiurge("-w", "f", "trace", "--chat", "main").out
    assert "1 open effect ended as unknown_outcome" in demiurge("fork", "g", "--at", str(first)).out


def test_a_state_of_the_past(demiurge: Any) -> None:
    first, second = turns(demiurge)
    assert roles(demiurge, "-w", "world") == ["user", "assistant", "user", "assistant"]
    assert roles(demiurge, "-w", "world", "--at", str(second)) == ["user", "assistant", "user"]
    assert roles(demiurge, "-w", "world", "--at", str(second - 1)) == ["user", "assistant"]
    assert roles(demiurge, "-w", "world", "--at", str(first)) == ["user"]


def test_a_cell_that_was_not_yet_there(demiurge: Any) -> None:
    done = demiurge("--json", "state", "get", CHAT, "--key", "main", "--at", "0")
    assert done.status == 1
    assert done.document["error"]["code"] == "no_cell"
    assert "at position 0" in done.document["error"]["message"]


@pytest.mark.parametrize("command", [("fork", "f"), ("state", "get", CHAT, "--key", "main")])
def test_a_position_that_is_not_there(demiurge: Any, command: tuple[str, ...], tmp_path: Path) -> None:
    done = demiurge("--json", *command, "--at", "100000")
    assert done.status == 1
    assert done.document["error"]["code"] == "no_position"
    assert demiurge(*command, "--at", "-1").status == 2
    assert not (tmp_path / "f").exists()


def test_a_folder_that_holds_something_is_refused(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "mine").write_text("x")
    done = demiurge("--json", "fork", "f")
    assert done.status == 1
    assert done.document["error"]["code"] == "exists"
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["mine"]
